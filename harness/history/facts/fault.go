package facts

import (
	"slices"

	"lockpick/harness/history"
)

// Kinds of fault that end what a process does.
const (
	Kill  = "kill"  // a client stops without warning and for good, a node until it starts again
	Pause = "pause" // for a time
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
func (f *Facts) fault(e *history.Event) {
	last := func(open func(*Fault) bool) *Fault {
		for _, x := range slices.Backward(f.Faults) {
			if x.Kind == e.Op && x.Target == e.Node && x.Step == e.Step && open(x) {
				return x
			}
		}
		x := &Fault{Kind: e.Op, Target: e.Node, Step: e.Step}
		f.Faults = append(f.Faults, x)
		return x
	}
	switch e.Type {
	case history.Invoke:
		f.Faults = append(f.Faults, &Fault{Kind: e.Op, Target: e.Node, Step: e.Step, Invoke: e})
	case history.Begin:
		last(func(x *Fault) bool { return x.Begin == nil && x.End == nil && x.Fail == nil }).Begin = e
	case history.Fail:
		last(func(x *Fault) bool { return x.End == nil && x.Fail == nil }).Fail = e
	case history.End:
		last(func(x *Fault) bool { return x.Begin != nil && x.End == nil }).End = e
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

// To is when its end was seen, or Never.
func (f *Fault) To() int64 {
	if f.End != nil {
		return f.End.T
	}
	return Never
}

// Events are those of the fault that there are.
func (f *Fault) Events() []*history.Event {
	all := []*history.Event{f.Invoke, f.Begin, f.End, f.Fail}
	return slices.DeleteFunc(all, func(e *history.Event) bool { return e == nil })
}

// Stalls is where the machine stood still, in the order of time.
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
	at, ok := f.Gone[client]
	if !ok {
		return nil
	}
	for _, x := range f.Faults {
		if x.Kind == Kill && x.Target == client && x.First().T == at {
			return x.First()
		}
	}
	return nil
}
