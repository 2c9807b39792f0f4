package harness

import (
	"fmt"
	"time"

	"lockpick/harness/history"
)

// A call is due every stallTick. One that comes later than by stallBound has been kept
// for longer than any request to a node may take.
const (
	stallTick  = 10 * time.Millisecond
	stallBound = MinTimeout
)

// watchMachine records where this machine, or this process on it, stood still. Other
// machines may take the processor from a virtual one for seconds, from all its processes
// at once. No safety is lost by that, but nobody can be held to what he was to do in
// time. A clock without error is no machine's.
func (e *engine) watchMachine() {
	if e.cluster.StampError() > 0 {
		e.expect(e.cluster.Now())
	}
}

// expect looks again after a tick, as long as faults are injected.
func (e *engine) expect(last time.Duration) {
	e.cluster.At(last+stallTick, func() {
		if !e.firing.enter() {
			return
		}
		defer e.firing.leave()
		now := e.cluster.Now()
		if still := now - last; still > stallBound {
			why := fmt.Sprintf("nothing was done for %v", still.Round(time.Millisecond))
			e.record(history.Event{T: int64(last), Process: history.Nemesis, Type: history.Begin, Op: history.OpStall, Node: history.Machine, Cause: why})
			e.record(history.Event{T: int64(now), Process: history.Nemesis, Type: history.End, Op: history.OpStall, Node: history.Machine})
		}
		e.expect(now)
	})
}
