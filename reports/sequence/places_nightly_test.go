//go:build nightly

package sequence

import (
	"bytes"
	"slices"
	"testing"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios"
)

// TestCatalogPictures checks the picture of each run of the catalog.
func TestNothingOfTheCatalogueIsCutOrCrossed(t *testing.T) { nothingIsCut(t, catalogue, 150) }

// catalog calls f with the diagram of each run of the catalog that the simulation supports.
func catalogue(t *testing.T, f func(name string, d Diagram)) {
	t.Helper()
	backend := sim.New(kinds.All)
	lacks := func(s scenario.Scenario) bool {
		return slices.ContainsFunc(backend.Probe(t.Context()), func(c harness.Capability) bool { return !c.Available && slices.Contains(s.Needs(), c.Name) })
	}
	all, _, err := scenarios.Choose(nil, nil, known(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if lacks(s.Scenario) {
			continue
		}
		var record bytes.Buffer
		if err := harness.Run(t.Context(), backend, s.Scenario, 1, history.NewRecorder(&record)); err != nil {
			t.Fatal(err)
		}
		h, err := history.Read(&record)
		if err != nil {
			t.Fatal(err)
		}
		f(s.ID(), Tell(h, checker.Check(h)))
	}
}
