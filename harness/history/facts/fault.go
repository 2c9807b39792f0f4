package facts

import (
	"slices"
	"strings"

	"lockpick/harness/history"
)

// Kinds of fault that say more than that something was disturbed.
const (
	Kill      = "kill"       // a client stops without warning and for good, a node until it starts again
	Pause     = "pause"      // a process stops for a time
	Shutdown  = "shutdown"   // a node ends in good order
	PowerLoss = "power-loss" // a node stops, and forgets what it had not synced
	Failover  = "failover"   // a replica takes a node's place
	Cut       = "cut"        // a link carries nothing
	ClockJump = "clock-jump"
	ClockSlew = "clock-slew"
	ClockRate = "clock-rate"
)

// Fault is one fault on one target. A fault that is planned for every occurrence of its
// trigger has one entry for each.
type Fault struct {
	Kind, Target string
	Step         int
	Invoke       *history.Event
	Begin        *history.Event // nil: it was not seen to be in force
	End          *history.Event // nil: it was in force until the end
	Fail         *history.Event // it could not be injected, seen or healed
}

// faultKey is what the events of one fault have in common.
type faultKey struct {
	kind, target string
	step         int
}

// pendingFaults are the faults of one key to which another event may belong. It belongs to the last
// in the list that may still have it.
type pendingFaults struct {
	tried []*Fault // may begin
	whole []*Fault // may fail
	begun []*Fault // may end
}

// fault books an event of the nemesis.
func (in *reading) fault(e *history.Event) {
	key := faultKey{e.Op, e.Node, e.Step}
	p := in.pending[key]
	if p == nil {
		p = &pendingFaults{}
		in.pending[key] = p
	}
	var f *Fault
	switch e.Type {
	case history.Invoke:
	case history.Begin:
		f = last(&p.tried, func(f *Fault) bool { return f.Begin == nil && f.End == nil && f.Fail == nil })
	case history.Fail:
		f = last(&p.whole, func(f *Fault) bool { return f.End == nil && f.Fail == nil })
	case history.End:
		f = last(&p.begun, func(f *Fault) bool { return f.End == nil })
	default:
		return
	}
	if f == nil {
		f = &Fault{Kind: e.Op, Target: e.Node, Step: e.Step}
		in.Faults = append(in.Faults, f)
		p.tried, p.whole = append(p.tried, f), append(p.whole, f)
	}
	switch e.Type {
	case history.Invoke:
		f.Invoke = e
	case history.Begin:
		f.Begin = e
		p.begun = append(p.begun, f)
	case history.Fail:
		f.Fail = e
	case history.End:
		f.End = e
	}
}

// last returns the last fault that may have an event, or nil. It drops those after it, which never
// may again, so that each is passed over once.
func last(list *[]*Fault, may func(*Fault) bool) *Fault {
	for n := len(*list); n > 0; n-- {
		if f := (*list)[n-1]; may(f) {
			*list = (*list)[:n]
			return f
		}
	}
	*list = nil
	return nil
}

// First is the earliest event of the fault: it can't have been in force before.
func (f *Fault) First() *history.Event {
	for _, e := range []*history.Event{f.Invoke, f.Begin, f.Fail} {
		if e != nil {
			return e
		}
	}
	return f.End
}

// From is when the fault was seen to be in force, or else when it was tried.
func (f *Fault) From() int64 {
	if f.Begin != nil {
		return f.Begin.T
	}
	return f.First().T
}

// To is when its end was seen, or Never. What somebody else did to a process, but for ending it,
// is known of one instant only.
func (f *Fault) To() int64 {
	switch {
	case f.End != nil:
		return f.End.T
	case f.Step == history.Unplanned && f.Kind != Kill:
		return f.From()
	}
	return Never
}

// TurnsClock reports whether the fault turns a clock.
func (f *Fault) TurnsClock() bool { return strings.HasPrefix(f.Kind, "clock-") }

// Events are those of the fault that there are.
func (f *Fault) Events() []*history.Event {
	all := []*history.Event{f.Invoke, f.Begin, f.End, f.Fail}
	return slices.DeleteFunc(all, func(e *history.Event) bool { return e == nil })
}

// Stalls is where the host stalled, in the order of time.
func (f *Facts) Stalls() []*Fault {
	var all []*Fault
	for _, x := range f.Faults {
		if x.Kind == history.OpStall && x.Begin != nil && x.End != nil {
			all = append(all, x)
		}
	}
	return all
}

// Departure is the event by which a client was gone, if a fault took it; or nil.
func (f *Facts) Departure(client string) *history.Event {
	if f.departed == nil {
		f.departed = map[string]*history.Event{}
		for _, x := range f.Faults {
			if at, ok := f.Gone[x.Target]; ok && x.Kind == Kill && x.First().T == at && f.departed[x.Target] == nil {
				f.departed[x.Target] = x.First()
			}
		}
	}
	return f.departed[client]
}
