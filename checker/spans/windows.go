// Package windows finds where windows of two sessions of a lock overlap.
//
// A Window is a span in which a session held its lock, by whatever evidence. Beliefs is the
// belief windows of a record's locks (facts.Window), Overlaps what some windows have in
// common, and Meetings counts the acquires that a window was in the way of (meetings.go).
//
// Deliberately missing: what an overlap means, and whose fault it is.
package spans

import (
	"cmp"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history/facts"
)

// Window is a facts.Window without the events that prove it, for there may be millions.
type Window struct {
	From, To int64
	Session  *facts.Session
}

// Beliefs is the belief windows of a record. Locks share their memory, one after the other.
type Beliefs struct {
	r     *facts.Facts
	of    *facts.Lock
	list  []Window
	found *Overlaps // memo of Overlaps
}

// New is the beliefs of a record.
func NewBeliefs(r *facts.Facts) *Beliefs { return &Beliefs{r: r} }

// Of is the belief windows of a lock's sessions in the order of their
// begin, each shrunk at both ends by the error of the stamps, so that only what is
// certain is left. They are good until the next call.
func (b *Beliefs) Of(l *facts.Lock) []Window {
	if b.of == l {
		return b.list
	}
	ε := int64(b.r.Params.StampError)
	ws := b.Memory()
	for s := range l.Sessions() {
		for w := range b.r.Windows(s) {
			if ε == 0 && b.r.Open(w) { // it goes on: the instant of the last event is in it
				w.To++
			}
			if w.From+ε < w.To-ε {
				ws = append(ws, Window{From: w.From + ε, To: w.To - ε, Session: s})
			}
		}
	}
	b.of, b.list = l, ws
	SortWindows(ws)
	return ws
}

// Memory is an empty list with room for a window of each grant. What Of has returned is no
// longer good.
func (b *Beliefs) Memory() []Window {
	b.of, b.list = nil, slices.Grow(b.list[:0], b.r.Grants)
	return b.list
}

// Overlaps is the overlaps of a record, found once. O(n log n).
func (b *Beliefs) Overlaps() Overlaps {
	if b.found == nil {
		b.found = &Overlaps{}
		for _, l := range b.r.Locks {
			b.found.Sweep(b.Of(l), b.r.End)
		}
	}
	return *b.found
}

// Each is the incidents of a record that Overlaps counts.
func (b *Beliefs) Each() []Overlap {
	o := Overlaps{List: true}
	for _, l := range b.r.Locks {
		o.Sweep(b.Of(l), b.r.End)
	}
	return o.Each
}

// Sort puts windows in the order of their begin, and of equals by their end and
// then by their acquire's call. Mostly they are already.
func SortWindows(ws []Window) {
	order := func(a, b Window) int {
		if a.From != b.From {
			return cmp.Compare(a.From, b.From)
		}
		return cmp.Or(cmp.Compare(a.To, b.To), verdict.ByTime(a.Session.Acquire.Call, b.Session.Acquire.Call))
	}
	if !slices.IsSortedFunc(ws, order) {
		slices.SortFunc(ws, order)
	}
}

// Overlap is what two windows have in common.
type Overlap struct {
	A, B     Window // A begins first
	From, To int64
}

// Overlaps is what the windows of some locks have in common.
type Overlaps struct {
	Overlap              // of the pair that overlaps longest; of equals the earliest
	Incidents  int       // connected components of overlapping pairs
	DoubleHold int64     // true time in which a lock was held twice or more
	List       bool      // whether each incident is kept
	Each       []Overlap // of each incident its pair that overlaps longest
}

// longest keeps the longer of two overlaps.
func (o *Overlap) longest(x Overlap) {
	if than := o.To - o.From; o.A.Session == nil || x.To-x.From > than || x.To-x.From == than && x.From < o.From {
		*o = x
	}
}

// Sweep takes one lock's windows in the order of their begin, up to the record's end. The
// one that reaches furthest so far is the one that overlaps the next longest, so one
// look at each window is enough. A session's own windows are disjoint and never
// meet here.
func (o *Overlaps) Sweep(ws []Window, end int64) {
	counted := int64(-facts.Never) // double hold is counted up to here
	cluster := false               // the furthest window's component is counted already
	furthest := 0
	for i := 1; i < len(ws); i++ {
		far, w := ws[furthest], ws[i]
		from, to := w.From, min(w.To, far.To)
		if from < to {
			if !cluster {
				o.Incidents++
				cluster = true
				if o.List {
					o.Each = append(o.Each, Overlap{})
				}
			}
			to = min(to, end)
			o.longest(Overlap{far, w, from, to})
			if o.List {
				o.Each[len(o.Each)-1].longest(Overlap{far, w, from, to})
			}
			o.DoubleHold += max(0, to-max(from, counted))
			counted = max(counted, to)
		} else {
			cluster = false
		}
		if w.To > far.To {
			furthest = i
		}
	}
}
