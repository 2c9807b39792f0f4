package history

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// WithActualDeadlines returns the events with each ValidUntil replaced by the time at which the
// client actually stopped considering itself the holder: its deadline, corrected for clock changes
// (see WithClockDeadlines), or the time at which the lock notified it of a loss (OpLost), whichever
// is earlier.
//
// Events must be in chronological order, and are not modified. The result is the same slice if no
// clock was changed and nothing was lost, and a copy otherwise.
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

// WithClockDeadlines returns the events with each ValidUntil corrected for clock changes (OpClock).
// The recorded ValidUntil assumes that the client's clock runs correctly after the lock was
// granted. The actual deadline is the time at which the clock first shows the deadline, even if it
// is set back later:
//
//	clock shows     set back          deadline
//	     |-------------|\                |
//	                     \---------------|--->  later
//
// Events must be in chronological order, and are not modified. The result is the same slice if no
// clock was changed, and a copy otherwise.
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

type holdID struct{ client, session string }

// lossEvents contains the indexes of each hold's loss events, and records which holds have begun.
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

// endAtLoss moves a deadline to the next loss of the same hold if that comes first and the event is
// the return of an acquire or extension. An extension without a deadline leaves the previous
// deadline in effect, unless the hold begins with that extension.
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

// clock holds the changes to one clock.
type clock struct {
	changes []Event
	sorted  bool    // the changes are in chronological order, as they always are in events that were read
	shown   MaxTree // for each change, an upper bound on the clock's readings until the next change
}

// clockChanges returns the changes to each client clock, or nil if there are none.
func clockChanges(events []Event) map[clockID]*clock {
	nodes := map[string]bool{} // the nodes' clocks don't affect the clients' deadlines
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

// maxInstant is the largest time or clock reading used in sums, so that they can't overflow.
const maxInstant = 1 << 61

func outOfRange(instant int64) bool { return instant > maxInstant || instant < -maxInstant }

// maxReading returns an upper bound on the clock's readings between change i and the next.
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

// clockDeadline returns e.ClockDeadline(c.changes) without scanning all changes. c may be nil.
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
	// The clock is not changed before change i. From there on, skip changes unless the clock may
	// show the deadline before the next one.
	drift := int64(0)
	if i > 0 {
		drift = c.changes[i-1].Drift
	}
	if due := instantAfter(e.T, deadline-e.Local, drift); due <= c.changes[i].T {
		return due
	}
	for {
		i = c.shown.Next(i, deadline)
		t := &c.changes[i]
		if t.Local >= deadline {
			return t.T
		}
		due := instantAfter(t.T, deadline-t.Local, t.Drift)
		if i+1 == len(c.changes) || due <= c.changes[i+1].T {
			return due
		}
		i++
	}
}

// ClockDeadline returns ValidUntil corrected for clock changes, which must be in chronological
// order. It ignores changes to other clocks.
func (e Event) DeadlineReached(changes []Event) int64 {
	if e.ValidUntil == 0 || e.Local == 0 {
		return e.ValidUntil
	}
	deadline := e.Local + e.ValidUntil - e.T // on the client's own clock
	at, shown, drift := e.T, e.Local, int64(0)
	for _, t := range changes {
		switch {
		case t.Node != e.Process || t.Wall != e.Wall:
		case t.T <= e.T:
			drift = t.Drift
		default:
			if due := instantAfter(at, deadline-shown, drift); due <= t.T {
				return due
			}
			at, shown, drift = t.T, t.Local, t.Drift
			if shown >= deadline {
				return at
			}
		}
	}
	return instantAfter(at, deadline-shown, drift)
}

// instantAfter returns when a clock that runs fast by drift (in parts per 10⁹) has advanced by span
// since the instant at.
func instantAfter(at, span, drift int64) int64 {
	if drift == 0 { // float64 can't represent days in nanoseconds exactly
		return at + span
	}
	speed := 1 + float64(drift)/1e9
	if speed <= 0 {
		return math.MaxInt64
	}
	later := math.Ceil(float64(span) / speed)
	if later > maxInstant { // the clock has practically stopped
		return math.MaxInt64
	}
	return at + int64(later)
}
