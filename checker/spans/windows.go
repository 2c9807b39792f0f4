package spans

import (
	"cmp"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Window is a facts.Window without the events that prove it. There may be millions of windows.
type Window struct {
	From, To int64
	Session  *facts.Session
}

// Beliefs computes a record's belief windows one lock at a time, and reuses the memory.
type Beliefs struct {
	r        *facts.Facts
	lock     *facts.Lock
	windows  []Window
	overlaps *Overlaps // cached result of Overlaps
}

func NewBeliefs(r *facts.Facts) *Beliefs { return &Beliefs{r: r} }

// Windows returns the belief windows of a lock's sessions, sorted by From. Both ends of each window
// are moved inward by the timestamp uncertainty, so that only the certain part is left. The slice is
// valid until the next call.
func (b *Beliefs) Windows(l *facts.Lock) []Window {
	if b.lock == l {
		return b.windows
	}
	uncertainty := int64(b.r.Params.TimestampUncertainty)
	ws := b.EmptyWindows()
	for s := range l.Sessions() {
		for w := range b.r.Windows(s) {
			if uncertainty == 0 && b.r.StillOpen(w) { // include the last event's instant
				w.To++
			}
			if w.From+uncertainty < w.To-uncertainty {
				ws = append(ws, Window{From: w.From + uncertainty, To: w.To - uncertainty, Session: s})
			}
		}
	}
	b.lock, b.windows = l, ws
	SortWindows(ws)
	return ws
}

// EmptyWindows returns an empty slice with room for one window per grant. It invalidates the slice
// that Windows returned.
func (b *Beliefs) EmptyWindows() []Window {
	b.lock, b.windows = nil, slices.Grow(b.windows[:0], b.r.Grants)
	return b.windows
}

// Overlaps returns the overlaps of all locks. It takes O(n log n) time the first time it is called.
func (b *Beliefs) Overlaps() Overlaps {
	if b.overlaps == nil {
		b.overlaps = &Overlaps{}
		for _, l := range b.r.Locks {
			b.overlaps.Sweep(b.Windows(l), b.r.End)
		}
	}
	return *b.overlaps
}

// SortWindows sorts windows by From, then by To, then by the acquire's call. Usually they are
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

// Overlaps summarizes how the windows of several locks overlap.
type Overlaps struct {
	Overlap              // the longest overlap of two windows; the earliest if several are equally long
	DoubleHold int64     // true time during which two or more sessions held a lock
	Incidents  []Overlap // the longest overlap in each incident (connected component of overlapping pairs)
}

// keepLonger replaces o with x if x is longer, or equally long and earlier.
func (o *Overlap) keepLonger(x Overlap) {
	if length := o.To - o.From; o.A.Session == nil || x.To-x.From > length || x.To-x.From == length && x.From < o.From {
		*o = x
	}
}

// Sweep adds one lock's windows, which must be sorted by From, and ignores time after the record's
// end. Of the windows so far, the one with the largest To has the longest overlap with the next
// window, so one pass is enough. A session's own windows are disjoint, so they never overlap here.
func (o *Overlaps) Sweep(ws []Window, end int64) {
	countedUntil := int64(-facts.Never) // DoubleHold includes all time until then
	inCluster := false                  // Incidents has an entry for the component of the furthest window
	furthestIndex := 0
	for i := 1; i < len(ws); i++ {
		furthestWindow, w := ws[furthestIndex], ws[i]
		from, to := w.From, min(w.To, furthestWindow.To)
		if from < to {
			if !inCluster {
				inCluster = true
				o.Incidents = append(o.Incidents, Overlap{})
			}
			to = min(to, end)
			o.keepLonger(Overlap{furthestWindow, w, from, to})
			o.Incidents[len(o.Incidents)-1].keepLonger(Overlap{furthestWindow, w, from, to})
			o.DoubleHold += max(0, to-max(from, countedUntil))
			countedUntil = max(countedUntil, to)
		} else {
			inCluster = false
		}
		if w.To > furthestWindow.To {
			furthestIndex = i
		}
	}
}

// Meetings counts the acquires of one lock that were in progress while another session held the
// lock. Any of them might have been granted wrongly. A failed acquire also counts if another client
// held the lock within its own TTL after it. The count is zero if each session ends before the next
// acquire is called. ws must be sorted by From.
//
//	c1   |=========|                |=====|
//	c2        --------------------------------|  meets both windows, counts once
//	c3                 ---✗                      failed; a grant could have overlapped c1
//
// Of the windows that had begun when an acquire returned, it is enough to look at the one with the
// largest To, or at the runner-up if the first belongs to the session itself.
func Meetings(r *facts.Facts, l *facts.Lock, ws []Window) int {
	count := 0
	uncertainty := int64(r.Params.TimestampUncertainty)
	startedWindows, nextHolders := reach{ws: ws}, successors{ws: ws}
	var unansweredSessions []*facts.Session // each is its client's last; the client may have died before other acquires returned
	for s := range l.Sessions() {
		if s.Acquire.Return == nil {
			unansweredSessions = append(unansweredSessions, s)
			continue
		}
		wait := Wait(r, s)
		if startedWindows.meets(s, wait, uncertainty) || s.Acquire.Outcome() == history.Fail && nextHolders.hasOtherClient(s, int64(r.Params.TTLOf(s.Client()).TTL)) {
			count++
		}
	}
	startedWindows = reach{ws: ws}
	slices.SortFunc(unansweredSessions, func(a, b *facts.Session) int { return cmp.Compare(Wait(r, a).To, Wait(r, b).To) })
	for _, s := range unansweredSessions {
		if wait := Wait(r, s); startedWindows.meets(s, wait, uncertainty) {
			count++
		}
	}
	return count
}

// reach finds the window with the largest To among the windows that have begun by an instant, and
// the window with the next largest To among the other sessions' windows.
type reach struct {
	ws                      []Window // not begun yet, sorted by From
	farthest, farthestOther Window
}

// meets reports whether wait overlaps a window of a session other than s. Successive calls must be
// ordered by wait.To.
func (f *reach) meets(s *facts.Session, wait Span, uncertainty int64) bool {
	for ; len(f.ws) > 0 && f.ws[0].From-uncertainty <= wait.To; f.ws = f.ws[1:] {
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
	return w.Session != nil && w.To >= wait.From-uncertainty
}

// successors finds the next holders after a failed acquire.
type successors struct {
	ws     []Window // sorted by From
	runEnd int      // all windows between the last position and this index belong to one client
}

// hasOtherClient reports whether another client held the lock within a TTL after a failed acquire.
// Successive calls must be ordered by the returns of the failed acquires.
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
