//go:build processes && !windows

package main

import (
	"path/filepath"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/scenarios/campaign"
)

// TestCatalogOnProcesses runs the catalog on real redis-servers. Regular runs cover only the
// scenarios tagged ci. Every run must have the expected result, and a scenario may be skipped only
// if real servers can't run it.
func TestCatalogOnProcesses(t *testing.T) {
	needRedis(t)
	start := time.Now()
	code, all := outcomes(t, build(t), append([]string{"run", "--backend", "process", "--jobs", "4"}, tagFlags()...)...)
	t.Logf("%d runs in %v", len(all), time.Since(start).Round(time.Second))
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	all = notSkipped(t, all, simulatedScenarios, containerScenarios)
	checkOutcomes(t, all)
	logRetries(t, all)
	if night {
		checkSameCauses(t, build(t), all)
	}
	for _, o := range all {
		h, err := history.ReadFile(filepath.Join(o.Dir, campaign.PackedFile))
		if err != nil {
			t.Fatal(err)
		}
		if _, problem := countGrants(h); h.Params.Lock == "redlock" && problem != "" {
			t.Errorf("%s: %s", o.Scenario, problem)
		}
	}
}
