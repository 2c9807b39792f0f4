package spans

import (
	"cmp"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Window is a facts.Window without the events that prove it, because there may be millions.
type Window struct {
	From, To int64
	Session  *facts.Session
}

// Beliefs computes the belief windows of a record, one lock at a time, reusing the same memory.
type Beliefs struct {
	r        *facts.Facts
	of       *facts.Lock
	list     []Window
	overlaps *Overlaps // memo of Overlaps
}

// NewBeliefs returns the Beliefs of a record.
func NewBeliefs(r *facts.Facts) *Beliefs { return &Beliefs{r: r} }

// Of returns the belief windows of a lock's sessions, sorted by From. Each is shrunk at both ends by
// the error of the timestamps, so that only the certain part is left. The slice is valid until the next
// call.
func (b *Beliefs) Of(l *facts.Lock) []Window {
	if b.of == l {
		return b.list
	}
	ε := int64(b.r.Params.StampError)
	ws := b.Memory()
	for s := range l.Sessions() {
		for w := range b.r.Windows(s) {
			if ε == 0 && b.r.StillOpen(w) { // still open: it includes the instant of the last event
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

// Memory returns an empty slice with capacity for one window per grant. It invalidates the slice
// that Of returned.
func (b *Beliefs) Memory() []Window {
	b.of, b.list = nil, slices.Grow(b.list[:0], b.r.Grants)
	return b.list
}

// Overlaps returns the overlaps of a record and caches them. It takes O(n log n) time.
func (b *Beliefs) Overlaps() Overlaps {
	if b.overlaps == nil {
		b.overlaps = &Overlaps{}
		for _, l := range b.r.Locks {
			b.overlaps.Sweep(b.Of(l), b.r.End)
		}
	}
	return *b.overlaps
}

// SortWindows sorts windows by From, then by To, then by the call of their acquire. Mostly they are
// sorted already.
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

// Overlap is the intersection of two windows.
type Overlap struct {
	A, B     Window // A begins first
	From, To int64
}

// Overlaps summarizes how the windows of some locks overlap.
type Overlaps struct {
	Overlap              // the longest overlap of a pair; the earliest of equal ones
	DoubleHold int64     // true time in which two or more sessions held a lock
	Incidents  []Overlap // the longest overlap of each incident, that is of each connected component of overlapping pairs
}

// keepLonger replaces o with x if x is longer, or equally long and earlier.
func (o *Overlap) keepLonger(x Overlap) {
	if than := o.To - o.From; o.A.Session == nil || x.To-x.From > than || x.To-x.From == than && x.From < o.From {
		*o = x
	}
}

// Sweep adds one lock's windows, sorted by From, up to the record's end. Among the windows so far,
// the one with the largest To has the longest overlap with the next one, so one pass is enough. A
// session's own windows are disjoint, so they never overlap here.
func (o *Overlaps) Sweep(ws []Window, end int64) {
	counted := int64(-facts.Never) // DoubleHold includes everything up to here
	cluster := false               // the component of the furthest window has an entry in Each
	furthest := 0
	for i := 1; i < len(ws); i++ {
		far, w := ws[furthest], ws[i]
		from, to := w.From, min(w.To, far.To)
		if from < to {
			if !cluster {
				cluster = true
				o.Incidents = append(o.Incidents, Overlap{})
			}
			to = min(to, end)
			o.keepLonger(Overlap{far, w, from, to})
			o.Incidents[len(o.Incidents)-1].keepLonger(Overlap{far, w, from, to})
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

// Meetings counts the acquires of one lock that were in progress while another session held the
// lock; ws must be sorted by From. Each of these acquires could have been granted the lock wrongly.
// So could a failed acquire if another client held the lock within a TTL after it. The count is
// zero if each session ends before the next acquire is called.
//
//	c1   |=========|                |=====|
//	c2        --------------------------------|  meets both windows, counts once
//	c3                 ---✗                      failed; had it been granted, it could have overlapped c1
//
// Of the windows that had begun when an acquire returned, it suffices to look at the one with the
// largest To, or at the next largest if that one belongs to the session itself.
func Meetings(r *facts.Facts, l *facts.Lock, ws []Window) int {
	met := 0
	ε := int64(r.Params.StampError)
	begun, after := reach{ws: ws}, successors{ws: ws}
	var unanswered []*facts.Session // the last session of its client, which may have died before other acquires return
	for s := range l.Sessions() {
		if s.Acquire.Return == nil {
			unanswered = append(unanswered, s)
			continue
		}
		wait := Wait(r, s)
		if begun.meets(s, wait, ε) || s.Acquire.Outcome() == history.Fail && after.hasOtherClient(s, int64(r.Params.TTL)) {
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

// reach finds, among the windows that have begun by an instant, the one with the largest To, and
// the one with the largest To that belongs to another session.
type reach struct {
	ws                      []Window // sorted by From; those that have not begun
	farthest, farthestOther Window
}

// meets reports whether a window of a session other than s overlaps wait. Successive calls must be
// ordered by wait.To.
func (f *reach) meets(s *facts.Session, wait Span, ε int64) bool {
	for ; len(f.ws) > 0 && f.ws[0].From-ε <= wait.To; f.ws = f.ws[1:] {
		switch w := f.ws[0]; {
		case f.farthest.Session == w.Session:
			f.farthest.To = max(f.farthest.To, w.To)
		case f.farthest.Session == nil || w.To > f.farthest.To:
			f.farthest, f.farthestOther = w, f.farthest
		case f.farthestOther.Session == nil || w.To > f.farthestOther.To:
			f.farthestOther = w
		}
	}
	w := f.farthest
	if w.Session == s {
		w = f.farthestOther
	}
	return w.Session != nil && w.To >= wait.From-ε
}

// successors finds the next holders after a failed acquire.
type successors struct {
	ws     []Window // sorted by From
	runEnd int      // all windows from the last position up to here belong to one client
}

// hasOtherClient reports whether another client held the lock within a TTL after a failed acquire.
// Calls must be ordered by the returns of the failed acquires.
func (a *successors) hasOtherClient(s *facts.Session, ttl int64) bool {
	at := s.Acquire.Return.T
	i, _ := slices.BinarySearchFunc(a.ws, at, func(w Window, t int64) int { return cmp.Compare(w.From, t) })
	if i < len(a.ws) && a.ws[i].Session.Client() == s.Client() {
		for a.runEnd = max(a.runEnd, i); a.runEnd < len(a.ws) && a.ws[a.runEnd].Session.Client() == s.Client(); a.runEnd++ {
		}
		i = a.runEnd
	}
	return i < len(a.ws) && a.ws[i].From <= at+ttl
}
