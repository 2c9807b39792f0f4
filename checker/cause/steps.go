package cause

import (
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Which steps of the plan did what a fact tells. An unplanned fault has no step, but is
// told all the same, as history.Unplanned.

// inForce reports whether a fault may have been in force in a span of time.
func inForce(f *facts.Fault, from, to int64) bool {
	return f.Begin != nil && f.First().T <= to && (f.End == nil || f.End.T >= from)
}

func appendStep(steps []int, f *facts.Fault) []int {
	if f.Step == 0 || slices.Contains(steps, f.Step) {
		return steps
	}
	steps = append(steps, f.Step)
	slices.Sort(steps)
	return steps
}

func eachStep(steps []int) []int {
	slices.Sort(steps)
	return slices.DeleteFunc(slices.Compact(steps), func(s int) bool { return s == 0 })
}

// turned is the steps by which the clock of a node or a client went wrong, or right again, in
// a span. One that sets a clock does so when it begins, and undoes it when it ends.
func turned(r *facts.Facts, name string, from, to int64) (steps []int) {
	for _, f := range r.Faults {
		if f.Target != name || !f.TurnsClock() || !inForce(f, from, to) {
			continue
		}
		sets := f.Kind == facts.ClockJump
		begins := f.Begin.T >= from
		ends := f.End != nil && f.End.T <= to
		if !sets || begins || ends {
			steps = append(steps, f.Step)
		}
	}
	return eachStep(steps)
}

// hit is the steps that kept a client from going on in a span of time, or its messages.
func hit(r *facts.Facts, client string, from, to int64) (steps []int) {
	for _, f := range r.Faults {
		if facts.LinkClient(f.Target) == client && inForce(f, from, to) {
			steps = append(steps, f.Step)
		}
	}
	return eachStep(steps)
}

// delayed is the steps that hit a link, or an end of it, while a command was on its way.
func delayed(r *facts.Facts, link string, e *history.Event) (steps []int) {
	for _, f := range r.Faults {
		if (f.Target == link || f.Target == facts.LinkClient(link) || f.Target == e.Process) && e.Sent != 0 && inForce(f, e.Sent, e.T) {
			steps = append(steps, f.Step)
		}
	}
	return eachStep(steps)
}

// outage is the fault that ended a node's life before a fact which tells what came of it:
// the last that had begun by then, and could.
func outage(r *facts.Facts, node string, e *history.Event) *facts.Fault {
	var last *facts.Fault
	for _, f := range r.Faults {
		switch f.Kind {
		case facts.Kill, facts.Shutdown, facts.PowerLoss, facts.Failover:
			if f.Target == node && f.Begin != nil && f.First().T <= e.T && (f.Kind == facts.Failover) == (e.Life.Why == history.Failover) {
				last = f
			}
		}
	}
	return last
}
