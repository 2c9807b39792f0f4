package facts

import (
	"container/heap"
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

// fault books an event of the nemesis.
func (in *reading) fault(e *history.Event) {
	s := in.seriesOf(e)
	try := func() numbered {
		x := numbered{&Fault{Kind: e.Op, Target: e.Node, Step: e.Step}, len(in.Faults)}
		in.Faults = append(in.Faults, x.Fault)
		s.add(x)
		return x
	}
	told := func(x numbered, ok bool) numbered {
		if !ok {
			return try()
		}
		return x
	}
	switch e.Type {
	case history.Invoke:
		try().Invoke = e
	case history.Begin:
		x := told(s.begin())
		x.Begin = e
		heap.Push(&s.begun, x)
	case history.Fail:
		told(s.fail()).Fail = e
	case history.End:
		told(s.end()).End = e
	}
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
