package liveness

import (
	"cmp"
	"iter"
	"slices"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// hold is how long a session held a lock, or may have held it:
//
//	first key set      acquire returned      belief ends       release done, or the last key has lapsed
//	     |----------------------|=================|=====================|
//	    from                  since            believed                 to
//
// While acquire is under way its client holds nothing yet, however long that takes: who
// has set keys and goes on asking has not got the lock, nor has anybody else.
//
// A release that got no definite answer, or that is still under way, gives the lock back
// when the nodes have (freed.go). Else it may be held until the last key that was set or
// extended for it has lapsed, TTL·(1+ρ) later. So it may be by a client that died, or that
// never got an answer. A failed attempt holds nothing, whatever keys it leaves behind.
type hold struct {
	spans.Span
	since    int64          // acquire was over: returned, or its client was gone
	believed int64          // the client's own belief ended then, or had never begun
	last     *history.Event // the last key that was set for it, nil if that isn't known
	lapse    int64          // when the last of its keys has lapsed at the latest
}

// holder is a hold from when acquire was over, and whose. There may be millions.
type holder struct {
	spans.Span
	set     int64 // the hold's own begin
	session *facts.Session
}

// holdOf is what a session may have held, and whether it may have held anything.
func holdOf(r *facts.Facts, keys lapses, s *facts.Session, w *facts.Wire) (hold, bool) {
	t := hold{since: spans.Wait(r, s).To}
	t.believed = spans.Ever
	for b := range r.Windows(s) {
		t.believed = b.To
	}
	switch outcome := s.Acquire.Outcome(); {
	case outcome == history.Fail && t.believed == spans.Ever: // an extension may have been granted all the same
		return t, false
	case outcome == history.Info:
		t.From = s.Acquire.Call.T
	default:
		t.From = s.Acquire.Return.T
	}
	t.believed = max(t.believed, t.From)
	at := t.From
	if w != nil {
		a := w.Last[s]
		if a == nil && !s.Granted() {
			return t, false // it died before it asked
		}
		at = t.set(s, a, w.Extended[s])
	} else if !s.Granted() {
		at = facts.Never
	}
	t.lapse = keys.of(at)
	t.To = max(t.believed, min(t.lapse, s.Released(), freed(r, s, w, t.lapse)))
	return t, t.From < t.To
}

// set looks at the keys of a session's last attempt, and returns when the last
// was set or extended.
func (t *hold) set(s *facts.Session, a *facts.Attempt, extended int64) int64 {
	if a == nil {
		return cmp.Or(extended, t.From)
	}
	at := max(extended, a.From)
	if !s.Granted() {
		t.From = a.From
	}
	for _, e := range a.Sets {
		t.From = min(t.From, facts.Applied(e))
		at = max(at, facts.Applied(e))
		if t.last == nil || facts.Applied(e) > facts.Applied(t.last) {
			t.last = e
		}
	}
	return at
}

// overBy is when a session surely held nothing any more, as its client knows or the nodes.
func overBy(r *facts.Facts, s *facts.Session, w *facts.Wire, lapse int64) int64 {
	if s.Acquire.Outcome() == history.Fail {
		return spans.Ever
	}
	at := freed(r, s, w, lapse)
	for x := range s.Releases() {
		if x.Outcome() != history.Info {
			at = min(at, x.Return.T)
		}
	}
	return at
}

// holdersOf is all holds of a lock, in the order in which their acquires were over.
func holdersOf(r *facts.Facts, keys lapses, called iter.Seq[*facts.Session], w *facts.Wire) []holder {
	all := []holder{}
	for s := range called {
		if t, ok := holdOf(r, keys, s, w); ok {
			all = append(all, holder{spans.Of(max(t.From, t.since), t.To), t.From, s})
		}
	}
	begin := func(a, b holder) int { return cmp.Compare(a.From, b.From) }
	if !slices.IsSortedFunc(all, begin) {
		slices.SortStableFunc(all, begin)
	}
	return all
}

// heldBy is where somebody held a lock, or may have held it, or was getting it.
func heldBy(holders []holder) []spans.Span {
	var list []spans.Span
	for _, t := range holders {
		list = append(list, spans.Of(t.set, t.To))
	}
	return spans.Union(list)
}
