package spans

import (
	"cmp"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
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

// NewBeliefs is the beliefs of a record.
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

// SortWindows puts windows in the order of their begin, and of equals by their end and
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
	DoubleHold int64     // true time in which a lock was held twice or more
	Each       []Overlap // of each incident, a connected component of overlapping pairs, the pair that overlaps longest
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
				cluster = true
				o.Each = append(o.Each, Overlap{})
			}
			to = min(to, end)
			o.longest(Overlap{far, w, from, to})
			o.Each[len(o.Each)-1].longest(Overlap{far, w, from, to})
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

// Meetings counts the acquires of one lock that were under way while another session
// held it, by windows in the order of their begin: each could have been answered with
// what somebody had. So could one that failed, where another client had the lock within a
// TTL. There are none if each session ends before the next acquire is called.
//
//	c1   |=========|                |=====|
//	c2        --------------------------------|  it meets both, and is one
//	c3                 ---✗                      it had failed, and might have held until c1 did, too
//
// Of the windows that had begun when an acquire returned, the one that reaches furthest
// is enough to look at, or the furthest of another session, where it is its own.
func Meetings(r *facts.Facts, l *facts.Lock, ws []Window) int {
	met := 0
	ε := int64(r.Params.StampError)
	begun, after := reach{ws: ws}, successors{ws: ws}
	var unanswered []*facts.Session // each the last of its client, which may have ended before others return
	for s := range l.Sessions() {
		if s.Acquire.Return == nil {
			unanswered = append(unanswered, s)
			continue
		}
		wait := Wait(r, s)
		if begun.meets(s, wait, ε) || s.Acquire.Outcome() == history.Fail && after.another(s, int64(r.Params.TTL)) {
			met++
		}
	}
	begun = reach{ws: ws}
	slices.SortFunc(unanswered, func(a, b *facts.Session) int { return cmp.Compare(Wait(r, a).To, Wait(r, b).To) })
	for _, s := range unanswered {
		if wait := Wait(r, s); begun.meets(s, wait, ε) {
			met++
		}
	}
	return met
}

// reach is, of the windows that had begun by an instant, the one that reaches furthest,
// and the furthest of another session.
type reach struct {
	ws         []Window // in the order of their begin; those that had not
	far, other Window
}

// meets reports whether a window of another session than s meets its wait, which does not
// end before the last that was asked about.
func (f *reach) meets(s *facts.Session, wait Span, ε int64) bool {
	for ; len(f.ws) > 0 && f.ws[0].From-ε <= wait.To; f.ws = f.ws[1:] {
		switch w := f.ws[0]; {
		case f.far.Session == w.Session:
			f.far.To = max(f.far.To, w.To)
		case f.far.Session == nil || w.To > f.far.To:
			f.far, f.other = w, f.far
		case f.other.Session == nil || w.To > f.other.To:
			f.other = w
		}
	}
	w := f.far
	if w.Session == s {
		w = f.other
	}
	return w.Session != nil && w.To >= wait.From-ε
}

// successors finds who held a lock after a failure.
type successors struct {
	ws  []Window // in the order of their begin
	run int      // up to here all are one client's, from the last place that was asked for
}

// another reports whether another client held the lock within a TTL of a failure. Failures
// come in the order of their returns.
func (a *successors) another(s *facts.Session, ttl int64) bool {
	at := s.Acquire.Return.T
	i, _ := slices.BinarySearchFunc(a.ws, at, func(w Window, t int64) int { return cmp.Compare(w.From, t) })
	if i < len(a.ws) && a.ws[i].Session.Client() == s.Client() {
		for a.run = max(a.run, i); a.run < len(a.ws) && a.ws[a.run].Session.Client() == s.Client(); a.run++ {
		}
		i = a.run
	}
	return i < len(a.ws) && a.ws[i].From <= at+ttl
}
