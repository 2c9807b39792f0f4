package checker

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

// TestKeySpansAgainstScan compares the index of keys with a scan of all commands; see
// histories.Compare.
func TestKeySpansAgainstScan(t *testing.T) {
	histories.Compare(t, func(h *history.History) (*usage, bool) { r := facts.Read(h); return newUsage(r), r.Defect == "" }, map[string]func(*rand.Rand, *usage) (got, want string){
		"keys": compareKeySpans,
	})
}

func compareKeySpans(rng *rand.Rand, r *usage) (got, want string) {
	at := rng.Int64N(r.End + 1)
	for _, n := range r.Params.Nodes {
		liveKeys := map[string]bool{}
		for _, e := range r.LockCommands {
			switch {
			case e.Node != n || e.Type != history.OK || facts.AppliedAt(e) > at:
			case e.Op == history.OpRelease:
				delete(liveKeys, e.Key)
			case facts.AppliedAt(e)+cmp.Or(e.TTL, int64(r.Params.TTLOf(facts.Sender(e)).TTL)) >= at:
				liveKeys[e.Key] = true
			}
		}
		got += fmt.Sprint(r.keySpans(n).Meets(spans.New(at, at)), " ")
		want += fmt.Sprint(len(liveKeys) > 0, " ")
	}
	return got, want
}
