//go:build long && nightly && !windows

package main

import (
	"testing"

	"lockpick/harness/lock/kinds"
	"lockpick/scenarios/outcome"
)

// TestEveryLockUnderTheCatalog runs every kind of lock through the catalog. Each scenario must run
// or be skipped with a reason, and the lock's violations must be the only problems.
func TestEveryLockUnderTheCatalog(t *testing.T) {
	all, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds.Names() {
		if kind == "broken" {
			continue
		}
		code, got := outcomes(t, "lockpick", "run", "--lock", kind, "--reports", "none")
		if code != outcome.ExitOK && (code != outcome.ExitUnexpected || kind == "redlock") || len(got) != len(all) {
			t.Errorf("%s: exit %d, %d outcomes of %d scenarios", kind, code, len(got), len(all))
		}
		states := map[string]int{}
		for _, o := range got {
			states[o.State()]++
			for _, j := range o.Judgements {
				if !j.AsExpected {
					t.Logf("%s under %s: %s", kind, o.Scenario, j)
				}
			}
		}
		t.Logf("%s: %v", kind, states)
	}
}
