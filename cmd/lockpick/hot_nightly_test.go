//go:build unix && nightly

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// TestEndlessRunIsStopped runs clients without think or hold time for a day of virtual time. The
// run must stop when its history reaches the size limit, and must not use too much time or memory.
func TestEndlessRunIsStopped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hot.yaml")
	must(t, os.WriteFile(file, []byte(`name: hot
claim: Clients that neither think nor hold.
source: nobody
workload: {think: 0s, hold: 0s, for: 23h}
lock: {retry: 1ms}
clients: 20
limit: 24h
`), 0o644))
	picks, err := choice{names: []string{file}}.scenarios()
	must(t, err)
	o := campaign.Execute(t.Context(), sim.New(kinds.All), campaign.Job{Scenario: picks[0].Scenario, Seed: 1, Backend: simulation, Keep: campaign.KeepNone})
	if o.Code != outcome.ExitUndecided || !strings.Contains(o.StopReason, "a run may record no more events") || o.Events < history.MaxEvents || o.Events > history.MaxEvents*11/10 {
		t.Errorf("code %d after %d events: %s %s", o.Code, o.Events, o.StopReason, o.Error)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if t.Logf("heap of %d MB", m.HeapSys>>20); m.HeapSys > 3<<30 {
		t.Error("heap too large")
	}
}
