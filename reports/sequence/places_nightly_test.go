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

func TestCatalogPictures(t *testing.T) { checkLayouts(t, eachCatalogRun, 150) }

// eachCatalogRun simulates each supported scenario in the catalog and calls f with its diagram.
func eachCatalogRun(t *testing.T, f func(name string, d Diagram)) {
	t.Helper()
	backend := sim.New(kinds.All)
	unsupported := func(s scenario.Scenario) bool {
		return slices.ContainsFunc(backend.Probe(t.Context()), func(c harness.Capability) bool {
			return !c.Available && slices.Contains(s.RequiredCapabilities(), c.Name)
		})
	}
	all, _, err := scenarios.Choose(nil, nil, knownNames(), scenario.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if unsupported(s.Scenario) {
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
		f(s.ID(), ForVerdict(h, checker.Check(h)))
	}
}
