package harness

import (
	"fmt"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// A call is due every stallTick. One that comes later than by stallBound has been kept
// for longer than any request to a node may take.
const (
	stallTick  = 10 * time.Millisecond
	stallBound = scenario.MinTimeout
)

// machine is when this machine, or this process on it, was last seen to do something.
type machine struct {
	watched bool

	mu   sync.Mutex
	last time.Duration
}

// watchMachine records where this machine, or this process on it, stood still. Other
// machines may take the processor from a virtual one for seconds, from all its processes
// at once. No safety is lost by that, but nobody can be held to what he was to do in
// time. A clock without error is no machine's.
func (e *engine) watchMachine() {
	if e.cluster.StampError() > 0 {
		e.machine.watched, e.machine.last = true, e.cluster.Now()
		e.expect()
	}
}

// expect looks again after a tick, as long as faults are injected.
func (e *engine) expect() {
	e.cluster.At(e.cluster.Now()+stallTick, func() {
		if !e.firing.enter() {
			return
		}
		defer e.firing.leave()
		e.moves()
		e.expect()
	})
}

// moves records a stall that has just ended, if there was one. Clients that are processes
// of their own may have done all their work meanwhile: when they are done it is asked, too.
func (e *engine) moves() {
	m := &e.machine
	if !m.watched {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last, now := m.last, e.cluster.Now()
	m.last = now
	if still := now - last; still > stallBound {
		why := fmt.Sprintf("nothing was done for %v", still.Round(time.Millisecond))
		e.record(history.Event{T: int64(last), Process: history.Nemesis, Type: history.Begin, Op: history.OpStall, Node: history.Machine, Cause: why})
		e.record(history.Event{T: int64(now), Process: history.Nemesis, Type: history.End, Op: history.OpStall, Node: history.Machine})
	}
}
