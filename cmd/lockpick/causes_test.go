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

// checkSameCauses checks that each run that violates mutual exclusion on a real backend and in the
// simulation has the same cause on both. It logs a table of the causes.
func sameCauses(t *testing.T, binary string, real []outcome.Outcome) {
	t.Helper()
	_, all := outcomes(t, binary, "run")
	simulated := map[string]string{}
	for _, o := range all {
		simulated[o.Scenario] = mutexCause(o)
	}
	var table strings.Builder
	both := 0
	for _, o := range real {
		here, there := mutexCause(o), simulated[o.Scenario]
		if here == "" && there == "" {
			continue
		}
		fmt.Fprintf(&table, "%-45s %-22s %s\n", o.Scenario, there, here)
		if here == "" || there == "" {
			continue // the simulation's cause is random, or checkOutcomes reports the difference
		}
		if both++; here != there {
			t.Errorf("%s: cause %s on %s, %s in the simulation", o.Scenario, here, o.Backend, there)
		}
	}
	t.Logf("causes of mutual-exclusion violations in the simulation and on this backend (%d on both):\n%s", both, table.String())
	if both < 10 {
		t.Errorf("only %d runs violate mutual exclusion on both backends", both)
	}
}

// mutualExclusionCause returns the cause of the run's violation of mutual exclusion, or "" if there is none.
func mutexCause(o outcome.Outcome) string {
	i := slices.IndexFunc(o.Judgements, func(j outcome.Judgement) bool {
		return j.Property == verdict.MutualExclusion && j.Got == verdict.Violated
	})
	if i < 0 {
		return ""
	}
	return o.Judgements[i].Cause
}
