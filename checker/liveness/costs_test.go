package liveness

import (
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// A record may declare the impact of a fault. Without a valid declaration, an unknown kind of fault
// has the full impact.
func TestCostsAreAsTheRecordSays(t *testing.T) {
	for _, c := range []struct {
		kind, costs string
		want        taken
	}{
		{"earthquake", "", all}, {"earthquake", history.CostsNothing, none}, {"earthquake", history.CostsLittle, little},
		{"earthquake", history.CostsAnswers, answers}, {"earthquake", "invalid", all}, {"pause", "", answers}, {"touch", "", little},
	} {
		r := facts.Read(&history.History{Params: history.Params{Steps: []history.PlannedStep{{Step: 1, Fault: c.kind, Costs: c.costs}}}})
		if got := takenBy(r, ownClocks(r), &facts.Fault{Kind: c.kind, Step: 1}); got != c.want {
			t.Errorf("%s with costs %q has impact %v, want %v", c.kind, c.costs, got, c.want)
		}
	}
}
