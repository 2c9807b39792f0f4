//go:build nightly

package figures

import (
	"bytes"
	"slices"
	"testing"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock/broken"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios"
)

func TestCatalogFigures(t *testing.T) {
	count := 0
	eachCatalogRun(t, func(name string, h *history.History) { checkFigures(t, &count, name, newMeasurements(h).figures()...) })
	t.Logf("%d figures", count)
	if count < 500 {
		t.Errorf("%d figures, want at least 500", count)
	}
}

// eachCatalogRun simulates each supported scenario in the catalog and calls f with its history.
func eachCatalogRun(t *testing.T, f func(name string, h *history.History)) {
	t.Helper()
	known := scenario.KnownNames{Properties: checker.Properties(), Causes: verdict.Causes(), Numbers: checker.Numbers()}.WithKinds(kinds.All)
	for _, m := range broken.Mistakes() {
		known.Mistakes = append(known.Mistakes, m.Name)
	}
	backend := sim.New(kinds.All)
	unsupported := func(s scenario.Scenario) bool {
		return slices.ContainsFunc(backend.Probe(t.Context()), func(c harness.Capability) bool {
			return !c.Available && slices.Contains(s.RequiredCapabilities(), c.Name)
		})
	}
	all, _, err := scenarios.Choose(nil, nil, known, scenario.ParseOptions{})
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
		f(s.ID(), h)
	}
}
