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
	losses, out := findLosses(events), WithClockDeadlines(events)
	if losses == nil {
		return out
	}
	if len(out) > 0 && &out[0] == &events[0] {
		out = slices.Clone(events)
	}
	for i := range out {
		losses.endAtLoss(out, i)
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
			e.ValidUntil = clocks[clockID{e.Process, e.WallClock}].clockDeadline(e)
		}
	}
	return out
}

type holdID struct{ client, session string }

// lossEvents contains the indexes of each hold's loss events, and records which holds have begun.
type lossEvents struct {
	indexes  map[holdID][]int
	hasBegun map[holdID]bool
}

// findLosses returns the loss events, or nil if there are none.
func findLosses(events []Event) *lossEvents {
	var losses *lossEvents
	for i := range events {
		e := &events[i]
		if e.Op != OpLost {
			continue
		}
		if losses == nil {
			losses = &lossEvents{map[holdID][]int{}, map[holdID]bool{}}
		}
		h := holdID{e.Process, e.Session}
		losses.indexes[h] = append(losses.indexes[h], i)
	}
	return losses
}

// endAtLoss moves a deadline to the next loss of the same hold if that comes first and the event is
// the return of an acquire or extension. An extension without a deadline leaves the previous
// deadline in effect, unless the hold begins with that extension.
func (l *lossEvents) endAtLoss(events []Event, index int) {
	e := &events[index]
	if e.Type != OK || e.Op != OpAcquire && e.Op != OpExtend {
		return
	}
	h := holdID{e.Process, e.Session}
	first := !l.hasBegun[h]
	l.hasBegun[h] = true
	i, _ := slices.BinarySearch(l.indexes[h], index)
	if i == len(l.indexes[h]) {
		return
	}
	switch at := max(events[l.indexes[h][i]].T, 1); { // 0 would mean no deadline
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
	changes     []Event
	sorted      bool    // the changes are in chronological order, as they always are in events that were read
	upperBounds MaxTree // for each change, an upper bound on the clock's readings until the next change
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
		c := clocks[clockID{e.Node, e.WallClock}]
		if c == nil {
			c = &clock{}
			clocks[clockID{e.Node, e.WallClock}] = c
		}
		c.changes = append(c.changes, *e)
	}
	for _, c := range clocks {
		c.sorted = slices.IsSortedFunc(c.changes, func(a, b Event) int { return cmp.Compare(a.T, b.T) })
		upperBounds := make([]int64, len(c.changes))
		for i := range c.changes {
			upperBounds[i] = c.maxReading(i)
		}
		c.upperBounds = NewMaxTree(upperBounds)
	}
	return clocks
}

// maxInstant is the largest time or clock reading used in sums, so that they can't overflow.
const maxInstant = 1 << 61

func outOfRange(instant int64) bool { return instant > maxInstant || instant < -maxInstant }

// maxReading returns an upper bound on the clock's readings between change i and the next.
func (c *clock) maxReading(i int) int64 {
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
	advance := float64(next.T-t.T) * max(0, 1+float64(t.Drift)/1e9)
	if advance > maxInstant {
		return math.MaxInt64
	}
	return t.Local + int64(advance*(1+1e-12)) + 2 // rounding
}

// clockDeadline returns e.ClockDeadline(c.changes) without scanning all changes. c may be nil.
func (c *clock) clockDeadline(e *Event) int64 {
	switch {
	case c == nil:
		return e.ClockDeadline(nil)
	case !c.sorted:
		return e.ClockDeadline(c.changes)
	}
	i := sort.Search(len(c.changes), func(i int) bool { return c.changes[i].T > e.T })
	deadline := e.Local + e.ValidUntil - e.T
	if i == len(c.changes) || outOfRange(deadline) {
		return e.ClockDeadline(c.changes[max(0, i-1):])
	}
	// The clock is not changed before change i. From there on, skip changes unless the clock may
	// show the deadline before the next one.
	drift := int64(0)
	if i > 0 {
		drift = c.changes[i-1].Drift
	}
	if instant := instantAfter(e.T, deadline-e.Local, drift); instant <= c.changes[i].T {
		return instant
	}
	for {
		i = c.upperBounds.Next(i, deadline)
		t := &c.changes[i]
		if t.Local >= deadline {
			return t.T
		}
		instant := instantAfter(t.T, deadline-t.Local, t.Drift)
		if i+1 == len(c.changes) || instant <= c.changes[i+1].T {
			return instant
		}
		i++
	}
}

// ClockDeadline returns ValidUntil corrected for clock changes, which must be in chronological
// order. It ignores changes to other clocks.
func (e Event) ClockDeadline(changes []Event) int64 {
	if e.ValidUntil == 0 || e.Local == 0 {
		return e.ValidUntil
	}
	deadline := e.Local + e.ValidUntil - e.T // on the client's own clock
	at, reading, drift := e.T, e.Local, int64(0)
	for _, t := range changes {
		switch {
		case t.Node != e.Process || t.WallClock != e.WallClock:
		case t.T <= e.T:
			drift = t.Drift
		default:
			if instant := instantAfter(at, deadline-reading, drift); instant <= t.T {
				return instant
			}
			at, reading, drift = t.T, t.Local, t.Drift
			if reading >= deadline {
				return at
			}
		}
	}
	return instantAfter(at, deadline-reading, drift)
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
	elapsed := math.Ceil(float64(span) / speed)
	if elapsed > maxInstant { // the clock has practically stopped
		return math.MaxInt64
	}
	return at + int64(elapsed)
}
