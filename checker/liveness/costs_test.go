package liveness

import (
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// A record may declare a fault's impact. Without a valid declaration, an unknown kind of fault has
// the full impact.
func TestFaultImpact(t *testing.T) {
	for _, c := range []struct {
		kind, costs string
		want        impact
	}{
		{"earthquake", "", impactAll}, {"earthquake", history.ImpactNone, impactNone}, {"earthquake", history.ImpactMessages, impactMessages},
		{"earthquake", history.ImpactAnswers, impactAnswers}, {"earthquake", "invalid", impactAll}, {"pause", "", impactAnswers}, {"touch", "", impactMessages},
	} {
		r := facts.Read(&history.History{Params: history.Params{Steps: []history.PlannedStep{{Step: 1, Fault: c.kind, Impact: c.costs}}}})
		if got := impactOf(r, nodesWithoutFailover(r), &facts.Fault{Kind: c.kind, Step: 1}); got != c.want {
			t.Errorf("%s with declared impact %q has impact %v, want %v", c.kind, c.costs, got, c.want)
		}
	}
}
