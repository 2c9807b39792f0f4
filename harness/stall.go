package harness

import (
	"fmt"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// A call is due every stallTick. One that comes as long as stallBound after the one before was kept
// for half as long as any request to a node may take: who asked meanwhile, of a machine that was
// busy before and after, may well have given up.
const (
	stallTick  = 10 * time.Millisecond
	stallBound = scenario.MinTimeout / 2
)

// stalls records where this machine, or this process on it, stood still. Other
// machines may take the processor from a virtual one for seconds, from all its processes
// at once. No safety is lost by that, but nobody can be held to what he was to do in
// time.
type stalls struct {
	cluster Cluster
	rec     record
	queues  *queues
	watched bool

	mu   sync.Mutex
	last time.Duration // when something was last seen to be done
}

// watch begins. A clock without error is no machine's.
func (s *stalls) watch() {
	if s.cluster.StampError() > 0 {
		s.watched, s.last = true, s.cluster.Now()
		s.expect()
	}
}

// expect looks again after a tick, as long as faults are injected.
func (s *stalls) expect() {
	s.cluster.At(s.cluster.Now()+stallTick, func() {
		if !s.queues.enter() {
			return
		}
		defer s.queues.fired()
		s.moves()
		s.expect()
	})
}

// moves records a stall that has just ended, if there was one. Clients that are processes
// of their own may have done all their work meanwhile: when they are done it is asked, too.
func (s *stalls) moves() {
	if !s.watched {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last, now := s.last, s.cluster.Now()
	s.last = now
	if still := now - last; still > stallBound {
		why := fmt.Sprintf("nothing was done for %v", still.Round(time.Millisecond))
		s.rec.add(history.Event{T: int64(last), Process: history.Nemesis, Type: history.Begin, Op: history.OpStall, Node: history.Machine, Cause: why})
		s.rec.add(history.Event{T: int64(now), Process: history.Nemesis, Type: history.End, Op: history.OpStall, Node: history.Machine})
	}
}
