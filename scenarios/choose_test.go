package scenarios_test

import (
	"testing"

	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
)

// choose returns the scenarios with these names, or the whole catalog if there are none.
func choose(t *testing.T, names ...string) []scenarios.Found {
	t.Helper()
	all, _, err := scenarios.Choose(names, nil, campaign.KnownLocks(kinds.All), scenario.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// simulates reports whether the simulation can run a scenario.
func simulates(t *testing.T, s scenario.Scenario) bool {
	t.Helper()
	return len(campaign.Probe(t.Context(), sim.New(kinds.All)).Missing(s, kinds.All)) == 0
}
