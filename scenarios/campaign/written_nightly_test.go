//go:build nightly

package campaign

import (
	"bytes"
	"strings"
	"testing"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios"
)

// recordText returns the history of a run without the first event, which contains the scenario's
// prose. It fails if the simulation does not support the scenario.
func recordText(t *testing.T, s scenario.Scenario, seed uint64) (string, error) {
	var text bytes.Buffer
	err := harness.Run(t.Context(), sim.New(kinds.All), s, seed, history.NewRecorder(&text))
	_, events, _ := strings.Cut(text.String(), "\n")
	return events, err
}

// A scenario written to a file with its drawn plan gives the same history byte for byte, for the
// whole catalog.
func TestWrittenScenariosRepeatTheRun(t *testing.T) {
	all, err := scenarios.Find("*", knownKinds, scenario.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unwritten, unsupported := 0, 0
	for _, f := range all {
		seeds := uint64(1)
		if strings.HasPrefix(f.Name, "random-") {
			seeds = 10
		}
		for seed := uint64(1); seed <= seeds; seed++ {
			drawn := f.WithRandomPlan(seed)
			text, err := scenario.Write(drawn, "", knownKinds)
			if err != nil {
				t.Logf("%s, seed %d: %v", f.ID(), seed, err)
				unwritten++
				continue
			}
			reparsed, err := scenario.Parse("written.yaml", text, knownKinds)
			if err != nil {
				t.Errorf("%s, seed %d: %v\n%s", f.ID(), seed, err, text)
				continue
			}
			want, err := recordText(t, drawn, seed)
			if err != nil {
				unsupported++
				continue
			}
			if got, err := recordText(t, reparsed[0], seed); got != want || err != nil {
				t.Errorf("%s, seed %d: the history differs if run from\n%s%v", f.ID(), seed, text, err)
			}
		}
	}
	t.Logf("%d files and variants; the simulation can't run %d of them", len(all), unsupported)
	if unwritten > 0 || unsupported > len(all)/10 {
		t.Errorf("%d could not be written, %d could not run", unwritten, unsupported)
	}
}
