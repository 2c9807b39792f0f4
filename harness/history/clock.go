package history

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// CameTrue returns the events with each ValidUntil as it came true, which is as it was Reckoned,
// or less: a client whose lock tells it of a loss (OpLost) stops believing there, if it believed
// until then.
//
// Events are in the order of time. They are not changed: without turned clocks and losses
// they are returned as they are, otherwise they are copied.
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

// Reckoned returns the events with each ValidUntil as the clocks let it come true. A client
// reckons it from what its clock shows when it gets the lock, as if that clock were
// right from then on. It stops believing at the first instant at which its clock
// shows the deadline, also if it steps back later; where clocks were turned
// (OpClock), that is another one:
//
//	clock shows     set back          deadline
//	     |-------------|\                |
//	                     \---------------|--->  later
//
// Events are in the order of time, and not changed: without turned clocks they are returned as
// they are, otherwise they are copied.
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

// hold is what losses are of.
type hold struct{ client, session string }

// toldLost is where holds were told of as lost, by the places of these events, and which
// ones began.
type toldLost struct {
	at    map[hold][]int
	begun map[hold]bool
}

// losses is what clients were told of theirs; nil: nothing.
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

// end lets what the return at a place promises end where the hold is lost next. An extension
// that names no deadline moves none, unless nothing was held before.
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
	switch at := max(events[l.at[h][i]].T, 1); { // 0 would be no deadline
	case e.ValidUntil > at, e.ValidUntil == 0 && (first || e.Op == OpAcquire):
		e.ValidUntil = at
	}
}

type clockOf struct {
	client string
	wall   bool
}

// clock is how one was turned, in the order of time.
type clock struct {
	turns  []Event
	sorted bool  // as events are that were read
	shown  Peaks // what it shows before the next turn, or somewhat more
}

// turned is the clocks of clients that were turned.
func turned(events []Event) map[clockOf]*clock {
	nodes := map[string]bool{} // no client believes in their clocks
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

// far is further than a clock is read: beyond it sums may overflow.
const far = 1 << 61

func isFar(instant int64) bool { return instant > far || instant < -far }

// most is at least the latest deadline that the clock shows after a turn and before the
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
	return t.Local + int64(by*(1+1e-12)) + 2 // it may be rounded
}

// reached is what e.Reached says, without a look at each turn. Nil: there are none.
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
	// Up to the next turn it runs as it did. From then on only those turns count after
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

// Reached is ValidUntil as it came true after the turns of clocks, in the order
// of time; those of other clocks don't count.
func (e Event) Reached(turns []Event) int64 {
	if e.ValidUntil == 0 || e.Local == 0 {
		return e.ValidUntil
	}
	deadline := e.Local + e.ValidUntil - e.T // by its own clock
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

// reach is when a clock that runs drift fast has gone on by span since at.
func reach(at, span, drift int64) int64 {
	if drift == 0 { // a float64 is too coarse for nanoseconds of days
		return at + span
	}
	speed := 1 + float64(drift)/1e9
	if speed <= 0 {
		return math.MaxInt64
	}
	later := math.Ceil(float64(span) / speed)
	if later > far { // it all but stands still
		return math.MaxInt64
	}
	return at + int64(later)
}
