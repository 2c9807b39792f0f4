package scenarios_test

import (
	"slices"
	"testing"

	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
)

// choose returns the scenarios of these names, or the whole catalogue.
func choose(t *testing.T, names ...string) []scenarios.Found {
	t.Helper()
	all, _, err := scenarios.Choose(names, nil, campaign.KnownLocks(kinds.All), nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// simulates reports whether the simulation has all that a scenario needs.
func simulates(t *testing.T, s scenario.Scenario) bool {
	t.Helper()
	needs := s.NeedsOf(kinds.All[s.Lock.Kind])
	for _, c := range sim.New(kinds.All).Probe(t.Context()) {
		if i := slices.Index(needs, c.Name); i >= 0 && c.Available {
			needs = slices.Delete(needs, i, i+1)
		}
	}
	return len(needs) == 0
}
