package checker

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// tenure is how long a session held a lock, or may have held it:
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
type tenure struct {
	interval
	since    int64          // acquire was over: returned, or its client was gone
	believed int64          // the client's own belief ended then, or had never begun
	last     *history.Event // the last key that was set for it, nil if that isn't known
	lapse    int64          // when the last of its keys has lapsed at the latest
}

// tenancy is a tenure from when acquire was over, and whose. There may be millions.
type tenancy struct {
	interval
	set     int64 // the tenure's own begin
	session *session
}

// tenure is what a session may have held, and whether it may have held anything.
func (r *record) tenure(s *session, w *wire) (tenure, bool) {
	t := tenure{since: r.wait(s).to}
	t.believed = ever
	for b := range r.Windows(s) {
		t.believed = b.To
	}
	switch outcome := s.Acquire.Outcome(); {
	case outcome == history.Fail && t.believed == ever: // an extension may have been granted all the same
		return t, false
	case outcome == history.Info:
		t.from = s.Acquire.Call.T
	default:
		t.from = s.Acquire.Return.T
	}
	t.believed = max(t.believed, t.from)
	at := t.from
	if w != nil {
		a := w.Last[s]
		if a == nil && !s.Granted() {
			return t, false // it died before it asked
		}
		at = t.set(s, a, w.Extended[s])
	} else if !s.Granted() {
		at = never
	}
	t.lapse = r.lapse(at)
	t.to = max(t.believed, min(t.lapse, s.Released(), r.freed(s, w, t.lapse)))
	return t, t.from < t.to
}

// set looks at the keys of a session's last attempt, and returns when the last
// was set or extended.
func (t *tenure) set(s *session, a *attempt, extended int64) int64 {
	if a == nil {
		return cmp.Or(extended, t.from)
	}
	at := max(extended, a.From)
	if !s.Granted() {
		t.from = a.From
	}
	for _, e := range a.Sets {
		t.from = min(t.from, facts.Applied(e))
		at = max(at, facts.Applied(e))
		if t.last == nil || facts.Applied(e) > facts.Applied(t.last) {
			t.last = e
		}
	}
	return at
}

// tenancies is all tenures of a lock, in the order in which their acquires were over.
func (r *record) tenancies(c *contest) []tenancy {
	if c.tenures != nil {
		return c.tenures
	}
	c.tenures = []tenancy{}
	for s := range r.calls(c) {
		if t, ok := r.tenure(s, c.wire); ok {
			c.tenures = append(c.tenures, tenancy{interval{max(t.from, t.since), t.to}, t.from, s})
		}
	}
	begin := func(a, b tenancy) int { return cmp.Compare(a.from, b.from) }
	if !slices.IsSortedFunc(c.tenures, begin) {
		slices.SortStableFunc(c.tenures, begin)
	}
	return c.tenures
}

// held is where somebody held a lock, or may have held it, or was getting it.
func (r *record) held(c *contest) []interval {
	var spans []interval
	for _, t := range r.tenancies(c) {
		spans = append(spans, interval{t.set, t.to})
	}
	return union(spans)
}

// life is how long a key lives at the longest.
func (r *record) life() int64 {
	if r.Params.TTL == 0 {
		return never
	}
	return int64(float64(r.Params.TTL) * (1 + r.Params.Rate))
}

func plus(at, by int64) int64 {
	if at > never-by {
		return never
	}
	return at + by
}
