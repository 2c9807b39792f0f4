package scenarios_test

import (
	"testing"

	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
)

// choose returns the scenarios with the given names, or the whole catalog if there are none.
func choose(t *testing.T, names ...string) []scenarios.Found {
	t.Helper()
	all, _, err := scenarios.Choose(names, nil, campaign.KnownLocks(kinds.All), scenario.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// canSimulate reports whether the simulation can run a scenario.
func canSimulate(t *testing.T, s scenario.Scenario) bool {
	t.Helper()
	return len(campaign.Probe(t.Context(), sim.New(kinds.All)).Missing(s, kinds.All)) == 0
}
