package liveness

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// callers is a lock's sessions in the order of their calls, so that those that were trying
// to acquire it in a span are found without a look at each client.
type callers struct {
	sessions []*facts.Session
	place    map[string]int // of a client among all
	ended    history.Peaks  // when each acquire had ended
	until    history.Peaks  // until when its client was trying
	ends     []int64        // when acquires ended, in the order of time
}

func callersOf(r *facts.Facts, called iter.Seq[*facts.Session], names []string) *callers {
	w := &callers{place: map[string]int{}}
	var until []int64
	for s := range called {
		w.sessions = append(w.sessions, s)
		w.ends, until = append(w.ends, s.Acquire.Ended()), append(until, spans.Wait(r, s).To)
	}
	for i, name := range names {
		w.place[name] = i
	}
	w.ended, w.until = history.PeaksOf(w.ends), history.PeaksOf(until)
	w.ends = slices.Sorted(slices.Values(w.ends))
	return w
}

// calledBy and endedBy are how many acquires were by an instant.
func (w *callers) calledBy(at int64) int { return calledBy(w.sessions, at) }
func (w *callers) endedBy(at int64) int  { return spans.UpTo(w.ends, at) }

// clients is those with an acquire that was called by one instant and lasted beyond
// another, in the order of their first call.
func (w *callers) clients(called int64, lasted history.Peaks, beyond int64) []string {
	n := calledBy(w.sessions, called)
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

// outliving is one client's sessions whose acquire had not returned at an instant.
func outliving(sessions []*facts.Session, at int64) []*facts.Session {
	return sessions[firstOf(sessions, func(s *facts.Session) bool { return s.Acquire.Ended() > at }):]
}

// calledBy is how many of some sessions, in the order of their calls, were called by an instant.
func calledBy(sessions []*facts.Session, at int64) int {
	return firstOf(sessions, func(s *facts.Session) bool { return s.Acquire.Call.T > at })
}

// firstOf is the place of the first session of which something holds that holds of
// all behind it.
func firstOf(sessions []*facts.Session, holds func(*facts.Session) bool) int {
	return sort.Search(len(sessions), func(i int) bool { return holds(sessions[i]) })
}
