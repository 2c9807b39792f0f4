package checker

import (
	"cmp"
	"slices"

	"lockpick/harness/history/peaks"
)

// callers is a lock's sessions in the order of their calls, so that those that were trying
// to acquire it in a span are found without a look at each client.
type callers struct {
	sessions []*session
	place    map[string]int // of a client among contest.names
	ended    peaks.Peaks    // when each acquire had ended
	until    peaks.Peaks    // until when its client was trying
}

func (r *record) callers(c *contest) *callers {
	if c.waited != nil {
		return c.waited
	}
	w := &callers{place: map[string]int{}}
	var ended, until []int64
	for s := range r.calls(c) {
		w.sessions = append(w.sessions, s)
		ended, until = append(ended, s.Acquire.Ended()), append(until, r.wait(s).to)
	}
	r.of(c)
	for i, name := range c.names {
		w.place[name] = i
	}
	w.ended, w.until = peaks.Of(ended), peaks.Of(until)
	c.waited = w
	return w
}

// clients is those with an acquire that was called by one instant and lasted beyond
// another, in the order of their first call.
func (w *callers) clients(called int64, lasted peaks.Peaks, beyond int64) []string {
	n := firstOf(w.sessions, func(s *session) bool { return s.Acquire.Call.T > called })
	seen := map[string]bool{}
	var names []string
	for i := lasted.From(0, beyond+1); i < n; i = lasted.From(i+1, beyond+1) {
		if name := w.sessions[i].Client(); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(w.place[a], w.place[b]) })
	return names
}
