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
func CameTrue(events []Event) []Event {
	lost, out := losses(events), Reckoned(events)
	if lost == nil {
		return out
	}
	if len(out) > 0 && &out[0] == &events[0] {
		out = slices.Clone(events)
	}
	for i := range out {
		lost.end(out, i)
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
func Reckoned(events []Event) []Event {
	clocks := turned(events)
	if clocks == nil {
		return events
	}
	out := slices.Clone(events)
	for i := range out {
		if e := &out[i]; e.ValidUntil != 0 && e.Local != 0 {
			e.ValidUntil = clocks[clockOf{e.Process, e.Wall}].reached(e)
		}
	}
	return out
}

// holdID identifies the hold that a loss event refers to.
type hold struct{ client, session string }

// lossEvents holds the positions of the loss events of each hold, and the holds that have begun.
type toldLost struct {
	at    map[hold][]int
	begun map[hold]bool
}

// findLosses returns the loss events, or nil if there are none.
func losses(events []Event) *toldLost {
	var lost *toldLost
	for i := range events {
		e := &events[i]
		if e.Op != OpLost {
			continue
		}
		if lost == nil {
			lost = &toldLost{map[hold][]int{}, map[hold]bool{}}
		}
		h := hold{e.Process, e.Session}
		lost.at[h] = append(lost.at[h], i)
	}
	return lost
}

// endAtLoss ends the promise made by the return at a position when the hold is lost next. An
// extension without a deadline leaves the deadline unchanged, unless nothing was held before.
func (l *toldLost) end(events []Event, place int) {
	e := &events[place]
	if e.Type != OK || e.Op != OpAcquire && e.Op != OpExtend {
		return
	}
	h := hold{e.Process, e.Session}
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

type clockOf struct {
	client string
	wall   bool
}

// clock holds the changes of one clock, in order of time.
type clock struct {
	turns  []Event
	sorted bool  // always true for events that were read
	shown  Peaks // upper bound of what the clock shows before the next change
}

// clockChanges returns the changes of each client clock that was changed.
func turned(events []Event) map[clockOf]*clock {
	nodes := map[string]bool{} // no client goes by their clocks
	if len(events) > 0 && events[0].Params != nil {
		for _, n := range events[0].Params.Nodes {
			nodes[n] = true
		}
	}
	var clocks map[clockOf]*clock
	for i := range events {
		e := &events[i]
		if e.Op != OpClock || nodes[e.Node] {
			continue
		}
		if clocks == nil {
			clocks = map[clockOf]*clock{}
		}
		c := clocks[clockOf{e.Node, e.Wall}]
		if c == nil {
			c = &clock{}
			clocks[clockOf{e.Node, e.Wall}] = c
		}
		c.turns = append(c.turns, *e)
	}
	for _, c := range clocks {
		c.sorted = slices.IsSortedFunc(c.turns, func(a, b Event) int { return cmp.Compare(a.T, b.T) })
		shown := make([]int64, len(c.turns))
		for i := range c.turns {
			shown[i] = c.most(i)
		}
		c.shown = PeaksOf(shown)
	}
	return clocks
}

// maxInstant bounds the instants and readings used in sums, so that these can't overflow.
const far = 1 << 61

func isFar(instant int64) bool { return instant > far || instant < -far }

// maxShown is an upper bound of the deadlines that the clock shows after a change and before the
// next.
func (c *clock) most(i int) int64 {
	if i+1 == len(c.turns) {
		return math.MaxInt64
	}
	t, next := &c.turns[i], &c.turns[i+1]
	if isFar(t.Local) || isFar(t.T) || isFar(next.T) {
		return math.MaxInt64
	}
	if t.Drift == 0 {
		return t.Local + next.T - t.T
	}
	by := float64(next.T-t.T) * max(0, 1+float64(t.Drift)/1e9)
	if by > far {
		return math.MaxInt64
	}
	return t.Local + int64(by*(1+1e-12)) + 2 // rounding
}

// deadlineReached returns the same as e.DeadlineReached(c.changes) without looking at each change.
// c may be nil.
func (c *clock) reached(e *Event) int64 {
	switch {
	case c == nil:
		return e.Reached(nil)
	case !c.sorted:
		return e.Reached(c.turns)
	}
	i := sort.Search(len(c.turns), func(i int) bool { return c.turns[i].T > e.T })
	deadline := e.Local + e.ValidUntil - e.T
	if i == len(c.turns) || isFar(deadline) {
		return e.Reached(c.turns[max(0, i-1):])
	}
	// The clock runs unchanged until the next change. After that, only those changes matter after
	// which it may show the deadline.
	drift := int64(0)
	if i > 0 {
		drift = c.turns[i-1].Drift
	}
	if due := reach(e.T, deadline-e.Local, drift); due <= c.turns[i].T {
		return due
	}
	for {
		i = c.shown.From(i, deadline)
		t := &c.turns[i]
		if t.Local >= deadline {
			return t.T
		}
		due := reach(t.T, deadline-t.Local, t.Drift)
		if i+1 == len(c.turns) || due <= c.turns[i+1].T {
			return due
		}
		i++
	}
}

// DeadlineReached returns ValidUntil corrected for clock changes, which must be in order of time.
// Changes of other clocks are ignored.
func (e Event) Reached(turns []Event) int64 {
	if e.ValidUntil == 0 || e.Local == 0 {
		return e.ValidUntil
	}
	deadline := e.Local + e.ValidUntil - e.T // by the client's own clock
	at, shows, drift := e.T, e.Local, int64(0)
	for _, t := range turns {
		switch {
		case t.Node != e.Process || t.Wall != e.Wall:
		case t.T <= e.T:
			drift = t.Drift
		default:
			if due := reach(at, deadline-shows, drift); due <= t.T {
				return due
			}
			at, shows, drift = t.T, t.Local, t.Drift
			if shows >= deadline {
				return at
			}
		}
	}
	return reach(at, deadline-shows, drift)
}

// elapseAt returns when a clock that runs fast by drift has advanced by span since at.
func reach(at, span, drift int64) int64 {
	if drift == 0 { // float64 can't represent days in nanoseconds exactly
		return at + span
	}
	speed := 1 + float64(drift)/1e9
	if speed <= 0 {
		return math.MaxInt64
	}
	later := math.Ceil(float64(span) / speed)
	if later > far { // the clock practically stands still
		return math.MaxInt64
	}
	return at + int64(later)
}
