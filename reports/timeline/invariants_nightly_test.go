//go:build nightly

package timeline

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

func TestCatalogLayouts(t *testing.T) {
	known := scenario.KnownNames{Properties: checker.Properties(), Causes: verdict.Causes(), Numbers: checker.Numbers()}.WithKinds(kinds.All)
	for _, m := range broken.Mistakes() {
		known.Mistakes = append(known.Mistakes, m.Name)
	}
	all, _, err := scenarios.Choose(nil, nil, known, scenario.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Run(s.ID(), func(t *testing.T) {
			backend := sim.New(kinds.All)
			for _, c := range backend.Probe(t.Context()) {
				if !c.Available && slices.Contains(s.RequiredCapabilities(), c.Name) {
					t.Skip(c.Reason)
				}
			}
			var record bytes.Buffer
			if err := harness.Run(t.Context(), backend, s.Scenario, 1, history.NewRecorder(&record)); err != nil {
				t.Fatal(err)
			}
			h, err := history.Read(&record)
			if err != nil {
				t.Fatal(err)
			}
			checkLayout(t, h)
		})
	}
}
