package scenarios_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// Every scenario in the corpus is small and still shows the violation that the fuzzer found.
func TestCorpus(t *testing.T) {
	paths, err := filepath.Glob("corpus/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	b := sim.New(kinds.All)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all, err := scenario.Parse(path, text, campaign.KnownLocks(kinds.All))
		if err != nil {
			t.Error(err)
			continue
		}
		name, seed := strings.TrimSuffix(filepath.Base(path), ".yaml"), uint64(1)
		if _, number, hasSeed := strings.Cut(name, "-seed-"); hasSeed {
			if seed, err = strconv.ParseUint(number, 10, 64); err != nil {
				t.Error(path, err)
			}
		}
		if all[0].Name != name {
			t.Errorf("%s contains the name %s", path, all[0].Name)
		}
		if o := campaign.Execute(t.Context(), b, campaign.Job{Scenario: all[0], Seed: seed, Backend: b.Name(), Keep: campaign.KeepNone}); o.Code != outcome.ExitOK {
			t.Errorf("%s no longer reproduces its violation: %v %s", path, o.Judgements, o.Error)
		}
		if len(all[0].Plan) > 3 || len(all[0].Clients) > 2 {
			t.Errorf("%s is not small: %d steps, %d clients", path, len(all[0].Plan), len(all[0].Clients))
		}
	}
}
