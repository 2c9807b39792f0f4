package spans

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

// TestMeetingsAgainstLinearSearch compares the sorted data structures with a linear search; see
// histories.Compare.
func TestMeetingsAgainstLinearSearch(t *testing.T) {
	histories.Compare(t, func(h *history.History) (*facts.Facts, bool) { r := facts.Read(h); return r, r.Defect == "" }, map[string]func(*rand.Rand, *facts.Facts) (got, want string){
		"meetings": compareMeetings,
	})
}

func compareMeetings(_ *rand.Rand, r *facts.Facts) (got, want string) {
	uncertainty := int64(r.Params.TimestampUncertainty)
	for _, l := range r.Locks {
		ws, n := NewBeliefs(r).Windows(l), 0
		for s := range l.Sessions() {
			wait := Wait(r, s)
			if slices.ContainsFunc(ws, func(w Window) bool {
				meets := w.From-uncertainty <= wait.To && w.To+uncertainty >= wait.From
				follows := s.Acquire.Outcome() == history.Fail && w.From >= wait.To && w.From <= wait.To+int64(r.Params.TTLOf(s.Client()).TTL) && w.Session.Client() != s.Client()
				return w.Session != s && (meets || follows)
			}) {
				n++
			}
		}
		got += fmt.Sprint(Meetings(r, l, ws), " ")
		want += fmt.Sprint(n, " ")
	}
	return got, want
}
