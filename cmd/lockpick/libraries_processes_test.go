//go:build processes && !windows

package main

import (
	"path/filepath"
	"testing"

	"lockpick/harness/history"
	"lockpick/scenarios/campaign"
)

// TestLibrariesOnProcesses runs each library on real redis-servers. Each client must acquire the
// lock, and no two clients may hold it at once.
func TestLibrariesOnProcesses(t *testing.T) {
	t.Parallel() // this test mostly waits
	needRedis(t)
	binary := build(t)
	for _, kind := range libraries() {
		if _, ok := setups[kind]; ok { // the binary doesn't know this name
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			code, all := outcomes(t, binary, "run", "baseline/", "--backend", "process", "--set", "lock.kind="+kind)
			if code != 0 || len(all) != 1 {
				t.Errorf("%s: exit code %d, %d runs", kind, code, len(all))
			}
			checkOutcomes(t, all)
			for _, o := range all {
				h, err := history.ReadFile(filepath.Join(o.Dir, campaign.PackedFile))
				if err != nil {
					t.Fatal(err)
				}
				holders := map[string]bool{}
				for _, e := range h.Events {
					if e.Op == history.OpAcquire && e.Type == history.OK {
						holders[e.Process] = true
					}
				}
				if len(holders) < len(h.Params.Clients) {
					t.Errorf("%s: of %d clients, %d acquired the lock", kind, len(h.Params.Clients), len(holders))
				}
			}
		})
	}
}
