package checker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

// TestStallsAgainstScan compares the effects of stalls with a scan; see histories.Compare.
func TestStallsAgainstScan(t *testing.T) {
	histories.Compare(t, func(h *history.History) (*facts.Facts, bool) { r := facts.Read(h); return r, r.Defect == "" }, map[string]func(*rand.Rand, *facts.Facts) (got, want string){
		"stalls": compareStalls,
	})
}

func compareStalls(_ *rand.Rand, r *facts.Facts) (got, want string) {
	for _, stall := range spans.Stalls(r) {
		affected := false
		for s := range r.Sessions() {
			for b := range r.Windows(s) {
				affected = affected || stall.From < b.To && b.To < stall.To
			}
		}
		for _, f := range r.Faults {
			for _, e := range f.Events() {
				affected = affected || f.Kind != history.OpStall && e.Type != history.Fail && stall.From < e.T && e.T < stall.To+int64(r.Params.Slack)
			}
		}
		got += fmt.Sprint(newStallEffects(r).affectedBy(stall), " ")
		want += fmt.Sprint(affected, " ")
	}
	return got, want
}

// An instant at an end of a span is not within it.
func TestAnyWithin(t *testing.T) {
	for _, c := range []struct {
		instants []int64
		want     bool
	}{
		{nil, false}, {[]int64{2, 9}, false}, {[]int64{3}, false}, {[]int64{7}, false}, {[]int64{3, 7}, false},
		{[]int64{4}, true}, {[]int64{6}, true}, {[]int64{3, 3, 5, 7}, true},
	} {
		if got := anyWithin(c.instants, spans.New(3, 7)); got != c.want {
			t.Errorf("anyWithin(%v, 3 to 7) = %t", c.instants, got)
		}
	}
}
