package sequence

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

type event = history.Event

// never is the instant of what does not happen.
const never = facts.Never

// course is the facts of a run up to where it was stopped, and what follows from them for
// a drawing. It takes any history, also one that no run could have made.
type course struct {
	*facts.Facts
	sessions []*session // in the order in which their acquire was called
	named    map[string]*session
	wires    []*event // commands on the wire, in the order in which they were sent
	tries    []*event // those of them that set a key
	applies  map[string]*apply
	faults   []*facts.Fault // that were seen to be in force, in that order
	last     int64          // the last instant of the run's own time
}

func newCourse(h *history.History) *course {
	f := &course{Facts: facts.ReadUpToStop(h), named: map[string]*session{}, applies: map[string]*apply{}}
	for s := range f.Sessions() {
		f.session(s)
	}
	f.wires = f.Sent()
	for _, e := range f.wires {
		if e.Op == history.OpSet {
			f.tries = append(f.tries, e)
		}
	}
	for _, x := range f.Faults {
		if x.Begin != nil {
			f.faults = append(f.faults, x)
		}
	}
	slices.SortStableFunc(f.faults, func(a, b *facts.Fault) int {
		return cmp.Or(cmp.Compare(a.Begin.T, b.Begin.T), cmp.Compare(a.Begin.N, b.Begin.N))
	})
	for i := range f.Events {
		if e := &f.Events[i]; e.Op != history.OpLog && e.Op != history.OpKey { // they are stamped when they were read back
			f.last = max(f.last, e.T)
		}
	}
	f.readLog()
	return f
}

// sent returns the wire commands that a client sent from one instant to another.
func sent(wires []*event, client string, from, to int64) []*event {
	i, _ := slices.BinarySearchFunc(wires, from, func(e *event, t int64) int { return cmp.Compare(e.Sent, t) })
	var out []*event
	for _, e := range wires[i:] {
		if e.Sent > to {
			break
		}
		if facts.Sender(e) == client {
			out = append(out, e)
		}
	}
	return out
}

// numbers lists the numbers of events, each once, in order.
func numbers(events ...*event) []int64 {
	var out []int64
	for _, e := range events {
		if e != nil {
			out = append(out, e.N)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
