package scenario

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// All scenarios in the catalog pass Check after scaling and drawing.
func TestCheckCatalog(t *testing.T) {
	drawn := uint64(3)
	if testing.Short() {
		drawn = 1
	}
	checkCatalog(t, drawn, 0.1)
}

// checkCatalog draws the given number of plans for each scenario with a random plan, and scales
// each scenario by its own factor and the given factors.
func checkCatalog(t *testing.T, plansPerScenario uint64, factors ...float64) {
	t.Helper()
	for _, all := range parsedCatalog(t) {
		for _, s := range all {
			for _, factor := range append([]float64{1, s.Scale}, factors...) {
				if factor == 0 {
					continue
				}
				seeds := uint64(1)
				if s.Random != nil {
					seeds = plansPerScenario
				}
				scaled := s
				if factor != 1 {
					scaled = s.ScaledCopy(factor)
				}
				if s.Random != nil { // fixed plans are checked below
					if err := scaled.Check(testNames); err != nil {
						t.Errorf("%s × %g: %v", s.ID(), factor, err)
					}
				}
				for seed := range seeds {
					stored := readBack(t, scaled.WithRandomPlan(seed))
					if err := stored.Check(testNames); err != nil {
						t.Errorf("%s × %g, seed %d: %v", s.ID(), factor, seed, err)
					}
				}
			}
		}
	}
}

// readBack returns a scenario as read back from a run.json.
func readBack(t *testing.T, s Scenario) (back Scenario) {
	t.Helper()
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", s.ID(), err))
	}
	return back
}

// The writer must not omit the section expect if all expectations have default values, because the
// section contains other keys, too.
func TestNumbersAndVacuousSurviveCheck(t *testing.T) {
	for _, expect := range []string{"{numbers: {grants: '>= 3'}}", "{vacuous: allowed}", "{vacuous: allowed, numbers: {grants: '>= 3'}}"} {
		all, err := Parse("f.yaml", []byte(requiredKeys+"expect: "+expect+"\n"), testNames)
		if err != nil {
			t.Fatal(err)
		}
		if err := all[0].Check(testNames); err != nil {
			t.Errorf("%s: %v", expect, err)
		}
	}
}

// Scenario files and stored runs of earlier versions may contain an old spelling of a cause.
func TestOldCauseIsRead(t *testing.T) {
	known := testNames
	known.CanonicalCause = func(cause string) string { return strings.Replace(cause, "told-late", "notified-late", 1) }
	const file = requiredKeys + "expect:\n  mutual-exclusion: {violated: told-late, node: n1}\n"
	want := Expectation{Want: wantViolated, Cause: "notified-late", Node: "n1"}
	all, err := Parse("f.yaml", []byte(file), known)
	if err != nil || all[0].Expect[mutualExclusion] != want {
		t.Fatalf("file: got %+v, %v", all, err)
	}
	text, err := json.Marshal(Manifest{Schema: 1, Scenario: all[0], Backend: "sim", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadManifest("run.json", []byte(strings.ReplaceAll(string(text), "notified-late", "told-late")), known)
	if err != nil || m.Scenario.Expect[mutualExclusion] != want {
		t.Errorf("run.json: got %+v, %v", m, err)
	}
}
