package liveness

import (
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// What a fault takes from those who contend, the record may say; of a kind that nobody has
// heard of it takes everything, unless the record says so.
func TestCostsAreAsTheRecordSays(t *testing.T) {
	for _, c := range []struct {
		kind, costs string
		want        taken
	}{
		{"earthquake", "", all}, {"earthquake", history.CostsNothing, none}, {"earthquake", history.CostsLittle, little},
		{"earthquake", history.CostsAnswers, answers}, {"earthquake", "the moon", all}, {"pause", "", answers}, {"touch", "", little},
	} {
		r := facts.Read(&history.History{Params: history.Params{Steps: []history.PlannedStep{{Step: 1, Fault: c.kind, Costs: c.costs}}}})
		if got := takenBy(r, ownClocks(r), &facts.Fault{Kind: c.kind, Step: 1}); got != c.want {
			t.Errorf("%s that costs %q takes %v, want %v", c.kind, c.costs, got, c.want)
		}
	}
}
