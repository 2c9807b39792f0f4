//go:build (processes || containers) && !windows

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

// sameCauses holds what runs on a real backend were broken by to what the simulation says
// of the same: where both violate mutual exclusion it is for the same cause. It logs the table.
func sameCauses(t *testing.T, binary string, real []outcome.Outcome) {
	t.Helper()
	_, all := outcomes(t, binary, "run")
	simulated := map[string]string{}
	for _, o := range all {
		simulated[o.Scenario] = brokenBy(o)
	}
	var table strings.Builder
	both := 0
	for _, o := range real {
		here, there := brokenBy(o), simulated[o.Scenario]
		if here == "" && there == "" {
			continue
		}
		fmt.Fprintf(&table, "%-45s %-22s %s\n", o.Scenario, there, here)
		if here == "" || there == "" {
			continue // the cause is random there, or an expectation that complain sees to
		}
		if both++; here != there {
			t.Errorf("%s is broken by %s on %s, and by %s in the simulation", o.Scenario, here, o.Backend, there)
		}
	}
	t.Logf("mutual exclusion is broken by, in the simulation and here (%d in both):\n%s", both, table.String())
	if both < 10 {
		t.Errorf("only %d runs are broken in both", both)
	}
}

// brokenBy is the cause for which mutual exclusion was violated, or "".
func brokenBy(o outcome.Outcome) string {
	i := slices.IndexFunc(o.Judgements, func(j outcome.Judgement) bool {
		return j.Property == verdict.MutualExclusion && j.Got == verdict.Violated
	})
	if i < 0 {
		return ""
	}
	return o.Judgements[i].Cause
}
