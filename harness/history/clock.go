package history

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// WithActualDeadlines returns the events with each ValidUntil replaced by the actual end of belief.
// It is the result of WithClockDeadlines, or earlier: a client notified of a loss by its lock
// (OpLost) stops believing at that instant.
//
// Events must be in order of time. They are not changed: they are returned as they are if no clock
// was changed and nothing was lost, and copied otherwise.
func WithActualDeadlines(events []Event) []Event {
	lost, out := findLosses(events), WithClockDeadlines(events)
	if lost == nil {
		return out
	}
	if len(out) > 0 && &out[0] == &events[0] {
		out = slices.Clone(events)
	}
	for i := range out {
		lost.endAtLoss(out, i)
	}
	return out
}

// WithClockDeadlines returns the events with each ValidUntil corrected for clock changes. A client
// computes its deadline from the clock reading when it gets the lock, as if that clock were correct
// from then on. It stops believing when its clock first shows the deadline, even if the clock steps
// back later. After a clock change (OpClock) that is a different instant:
//
//	clock shows     set back          deadline
//	     |-------------|\                |
//	                     \---------------|--->  later
//
// Events must be in order of time. They are not changed: they are returned as they are if no clock
// was changed, and copied otherwise.
func WithClockDeadlines(events []Event) []Event {
	clocks := clockChanges(events)
	if clocks == nil {
		return events
	}
	out := slices.Clone(events)
	for i := range out {
		if e := &out[i]; e.ValidUntil != 0 && e.Local != 0 {
			e.ValidUntil = clocks[clockID{e.Process, e.Wall}].deadlineReached(e)
		}
	}
	return out
}

// holdID identifies the hold that a loss event refers to.
type holdID struct{ client, session string }

// lossEvents holds the positions of the loss events of each hold, and the holds that have begun.
type lossEvents struct {
	at    map[holdID][]int
	begun map[holdID]bool
}

// findLosses returns the loss events, or nil if there are none.
func findLosses(events []Event) *lossEvents {
	var lost *lossEvents
	for i := range events {
		e := &events[i]
		if e.Op != OpLost {
			continue
		}
		if lost == nil {
			lost = &lossEvents{map[holdID][]int{}, map[holdID]bool{}}
		}
		h := holdID{e.Process, e.Session}
		lost.at[h] = append(lost.at[h], i)
	}
	return lost
}

// endAtLoss ends the promise made by the return at a position when the hold is lost next. An
// extension without a deadline leaves the deadline unchanged, unless nothing was held before.
func (l *lossEvents) endAtLoss(events []Event, place int) {
	e := &events[place]
	if e.Type != OK || e.Op != OpAcquire && e.Op != OpExtend {
		return
	}
	h := holdID{e.Process, e.Session}
	first := !l.begun[h]
	l.begun[h] = true
	i, _ := slices.BinarySearch(l.at[h], place)
	if i == len(l.at[h]) {
		return
	}
	switch at := max(events[l.at[h][i]].T, 1); { // 0 would mean no deadline
	case e.ValidUntil > at, e.ValidUntil == 0 && (first || e.Op == OpAcquire):
		e.ValidUntil = at
	}
}

type clockID struct {
	client string
	wall   bool
}

// clock holds the changes of one clock, in order of time.
type clock struct {
	changes []Event
	sorted  bool    // always true for events that were read
	shown   MaxTree // upper bound of what the clock shows before the next change
}

// clockChanges returns the changes of each client clock that was changed.
func clockChanges(events []Event) map[clockID]*clock {
	nodes := map[string]bool{} // no client goes by their clocks
	if len(events) > 0 && events[0].Params != nil {
		for _, n := range events[0].Params.Nodes {
			nodes[n] = true
		}
	}
	var clocks map[clockID]*clock
	for i := range events {
		e := &events[i]
		if e.Op != OpClock || nodes[e.Node] {
			continue
		}
		if clocks == nil {
			clocks = map[clockID]*clock{}
		}
		c := clocks[clockID{e.Node, e.Wall}]
		if c == nil {
			c = &clock{}
			clocks[clockID{e.Node, e.Wall}] = c
		}
		c.changes = append(c.changes, *e)
	}
	for _, c := range clocks {
		c.sorted = slices.IsSortedFunc(c.changes, func(a, b Event) int { return cmp.Compare(a.T, b.T) })
		shown := make([]int64, len(c.changes))
		for i := range c.changes {
			shown[i] = c.maxShown(i)
		}
		c.shown = NewMaxTree(shown)
	}
	return clocks
}

// maxInstant bounds the instants and readings used in sums, so that these can't overflow.
const maxInstant = 1 << 61

func outOfRange(instant int64) bool { return instant > maxInstant || instant < -maxInstant }

// maxShown is an upper bound of the deadlines that the clock shows after a change and before the
// next.
func (c *clock) maxShown(i int) int64 {
	if i+1 == len(c.changes) {
		return math.MaxInt64
	}
	t, next := &c.changes[i], &c.changes[i+1]
	if outOfRange(t.Local) || outOfRange(t.T) || outOfRange(next.T) {
		return math.MaxInt64
	}
	if t.Drift == 0 {
		return t.Local + next.T - t.T
	}
	by := float64(next.T-t.T) * max(0, 1+float64(t.Drift)/1e9)
	if by > maxInstant {
		return math.MaxInt64
	}
	return t.Local + int64(by*(1+1e-12)) + 2 // rounding
}

// deadlineReached returns the same as e.DeadlineReached(c.changes) without looking at each change.
// c may be nil.
func (c *clock) deadlineReached(e *Event) int64 {
	switch {
	case c == nil:
		return e.DeadlineReached(nil)
	case !c.sorted:
		return e.DeadlineReached(c.changes)
	}
	i := sort.Search(len(c.changes), func(i int) bool { return c.changes[i].T > e.T })
	deadline := e.Local + e.ValidUntil - e.T
	if i == len(c.changes) || outOfRange(deadline) {
		return e.DeadlineReached(c.changes[max(0, i-1):])
	}
	// The clock runs unchanged until the next change. After that, only those changes matter after
	// which it may show the deadline.
	drift := int64(0)
	if i > 0 {
		drift = c.changes[i-1].Drift
	}
	if due := elapseAt(e.T, deadline-e.Local, drift); due <= c.changes[i].T {
		return due
	}
	for {
		i = c.shown.Next(i, deadline)
		t := &c.changes[i]
		if t.Local >= deadline {
			return t.T
		}
		due := elapseAt(t.T, deadline-t.Local, t.Drift)
		if i+1 == len(c.changes) || due <= c.changes[i+1].T {
			return due
		}
		i++
	}
}

// DeadlineReached returns ValidUntil corrected for clock changes, which must be in order of time.
// Changes of other clocks are ignored.
func (e Event) DeadlineReached(changes []Event) int64 {
	if e.ValidUntil == 0 || e.Local == 0 {
		return e.ValidUntil
	}
	deadline := e.Local + e.ValidUntil - e.T // by the client's own clock
	at, shown, drift := e.T, e.Local, int64(0)
	for _, t := range changes {
		switch {
		case t.Node != e.Process || t.Wall != e.Wall:
		case t.T <= e.T:
			drift = t.Drift
		default:
			if due := elapseAt(at, deadline-shown, drift); due <= t.T {
				return due
			}
			at, shown, drift = t.T, t.Local, t.Drift
			if shown >= deadline {
				return at
			}
		}
	}
	return elapseAt(at, deadline-shown, drift)
}

// elapseAt returns when a clock that runs fast by drift has advanced by span since at.
func elapseAt(at, span, drift int64) int64 {
	if drift == 0 { // float64 can't represent days in nanoseconds exactly
		return at + span
	}
	speed := 1 + float64(drift)/1e9
	if speed <= 0 {
		return math.MaxInt64
	}
	later := math.Ceil(float64(span) / speed)
	if later > maxInstant { // the clock practically stands still
		return math.MaxInt64
	}
	return at + int64(later)
}
