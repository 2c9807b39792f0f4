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
func checkSameCauses(t *testing.T, binary string, realOutcomes []outcome.Outcome) {
	t.Helper()
	_, all := outcomes(t, binary, "run")
	simCauses := map[string]string{}
	for _, o := range all {
		simCauses[o.Scenario] = mutualExclusionCause(o)
	}
	var table strings.Builder
	numBoth := 0
	for _, o := range realOutcomes {
		realCause, simCause := mutualExclusionCause(o), simCauses[o.Scenario]
		if realCause == "" && simCause == "" {
			continue
		}
		fmt.Fprintf(&table, "%-45s %-22s %s\n", o.Scenario, simCause, realCause)
		if realCause == "" || simCause == "" {
			continue // the simulation's cause is random, or checkOutcomes reports the difference
		}
		if numBoth++; realCause != simCause {
			t.Errorf("%s: cause %s on %s, %s in the simulation", o.Scenario, realCause, o.Backend, simCause)
		}
	}
	t.Logf("causes of mutual-exclusion violations in the simulation and on this backend (%d on both):\n%s", numBoth, table.String())
	if numBoth < 10 {
		t.Errorf("only %d runs violate mutual exclusion on both backends", numBoth)
	}
}

// mutualExclusionCause returns the cause of the run's violation of mutual exclusion, or "" if there is none.
func mutualExclusionCause(o outcome.Outcome) string {
	i := slices.IndexFunc(o.Judgements, func(j outcome.Judgement) bool {
		return j.Property == verdict.MutualExclusion && j.Got == verdict.Violated
	})
	if i < 0 {
		return ""
	}
	return o.Judgements[i].Cause
}
