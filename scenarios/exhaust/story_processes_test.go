//go:build processes && !windows

package exhaust

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"lockpick/harness/lock/kinds"
	"lockpick/harness/process"
	"lockpick/harness/real"
	"lockpick/harness/scenario"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// TestMain lets the test binary be the client program in runs on real servers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "__client" {
		if err := real.ClientMain(os.Stdin, os.Stdout, kinds.All); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// maxRetries limits the retries of a run on real servers that does not show the expected violation.
const maxRetries = 5

// runOnProcesses writes a scenario to a file, reads it back, and runs it on real servers.
func runOnProcesses(t *testing.T, s scenario.Scenario) (outcome.Outcome, string) {
	t.Helper()
	s, text := reread(t, s)
	b := process.New(process.Config{Self: []string{os.Args[0], "__client"}, Dir: t.TempDir()})
	return campaign.Execute(t.Context(), b, campaign.Job{Scenario: s.ScaledCopy(s.Scale), Seed: 1, Backend: b.Name(), Keep: campaign.KeepNone, Live: true, Retries: maxRetries}), text
}

func requireRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("redis-server is missing but required in CI: apt-get install redis-server")
		}
		t.Skip("redis-server is missing: apt-get install redis-server")
	}
}

// Counterexamples that do not require exact times occur on real servers too. The test runs a fast
// one for each cause except lost-unsynced, where servers take seconds to sync.
// TestAllStoriesOnProcesses covers that cause.
func TestStoriesOnProcesses(t *testing.T) {
	requireRedis(t)
	tested := map[string]bool{"lost-unsynced": true}
	for _, row := range knownScopes() {
		if row.Cause == "" || !row.CanRun() || tested[row.Cause] {
			continue
		}
		r, s := search(t, row.Scope, fullReductions)
		if s.Scale != paces[0].scale {
			continue
		}
		tested[row.Cause] = true
		t.Run(row.Cause, func(t *testing.T) {
			t.Parallel() // mostly idle
			o, text := runOnProcesses(t, s)
			t.Logf("%.1f s, retried: %q", o.Seconds, o.RetryReasons)
			if j := judgementOf(row.Scope, o); j.Cause != row.Cause || o.Code != outcome.ExitOK {
				t.Errorf("%s (%s), want violated (%s); code %d %s\n%s%s", j.Got, j.Cause, row.Cause, o.Code, o.Error, caption(r.Counterexample), text)
			}
		})
	}
	for _, row := range knownScopes() {
		if row.Cause != "" && row.CanRun() && !tested[row.Cause] {
			t.Errorf("no fast counterexample for cause %s", row.Cause)
		}
	}
}
