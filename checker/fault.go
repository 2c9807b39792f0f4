package checker

import (
	"slices"
	"strings"

	"lockpick/harness/history"
)

// Kinds of fault that say more than that something was disturbed.
const (
	killed     = "kill"       // a client stops without warning and for good, a node until it starts again
	paused     = "pause"      // for a time
	cutOff     = "cut"        // a link carries nothing
	withheld   = "hold"       // a link keeps a single message
	shutDown   = "shutdown"   // a node ends in good order
	powerLost  = "power-loss" // a node stops, and forgets what it had not synced
	failedOver = "failover"   // a replica takes a node's place
	clockWrong = "clock-"     // how those begin that turn a clock
)

// fault is one fault on one target.
type fault struct {
	kind, target string
	step         int
	invoke       *history.Event
	begin        *history.Event // nil: it was not seen to be in force
	end          *history.Event // nil: it was in force until the end
	fail         *history.Event // it could not be injected, seen or healed
}

// fault books an event of the nemesis. A fault that is planned for every
// occurrence of its trigger has one entry for each.
func (r *record) fault(e *history.Event) {
	last := func(open func(*fault) bool) *fault {
		for _, f := range slices.Backward(r.faults) {
			if f.kind == e.Op && f.target == e.Node && f.step == e.Step && open(f) {
				return f
			}
		}
		f := &fault{kind: e.Op, target: e.Node, step: e.Step}
		r.faults = append(r.faults, f)
		return f
	}
	switch e.Type {
	case history.Invoke:
		r.faults = append(r.faults, &fault{kind: e.Op, target: e.Node, step: e.Step, invoke: e})
	case history.Begin:
		last(func(f *fault) bool { return f.begin == nil && f.fail == nil }).begin = e
	case history.Fail:
		last(func(f *fault) bool { return f.end == nil && f.fail == nil }).fail = e
	case history.End:
		last(func(f *fault) bool { return f.begin != nil && f.end == nil }).end = e
	}
}

// stalls is where the machine stood still, in the order of time.
func (r *record) stalls() []interval {
	var all []interval
	for _, f := range r.faults {
		if f.kind == history.OpStall && f.begin != nil && f.end != nil {
			all = append(all, interval{f.begin.T, f.end.T})
		}
	}
	return all
}

// first is the earliest event of the fault: it can't have been in force before.
func (f *fault) first() *history.Event {
	for _, e := range []*history.Event{f.invoke, f.begin, f.fail} {
		if e != nil {
			return e
		}
	}
	return f.end
}

// linkClient is the client's end of a link such as "c1-n3".
func linkClient(link string) string {
	client, _, _ := strings.Cut(link, "-")
	return client
}
