//go:build nightly && linux

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockpick/harness/real/proc"
)

// TestStoresUnderTheCatalog tests the repository's adapters for locks on other stores. Each must
// pass "adapter check", and get a scorecard from real runs of the scenarios tagged score. Scenarios
// that the store does not support must be skipped with a reason.
func TestStoresUnderTheCatalog(t *testing.T) {
	needRedis(t)
	bin := t.TempDir()
	build := exec.Command("go", "build", "-C", "../../harness/lock/exec/adapters/go", "-o", bin+"/", "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, server := range proc.Stores {
		t.Run(server.Name, func(t *testing.T) {
			if _, err := exec.LookPath(server.Program); err != nil {
				t.Skipf("%s is not on PATH: %s", server.Program, server.Remedy)
			}
			adapter := filepath.Join(bin, server.Name)
			if out, err := exec.Command("lockpick", "adapter", "check", adapter).Output(); err != nil {
				t.Fatalf("adapter check: %v\n%s", err, out)
			}
			_, book, code := makeScorecards(t, "scorecard", "--adapter", adapter, "--tag", "score", "--seeds", "0", "--jobs", "2")
			c := onlyCard(t, book, code)
			checkRealRuns(t, c)
			missing := false
			for _, s := range c.Skipped {
				missing = missing || strings.Contains(s.Why, "the nodes run "+server.Name+", but only Redis supports ")
			}
			if !missing {
				t.Errorf("nothing that needs Redis was skipped: %+v", c.Skipped)
			}
			// The lock holds under faults within its assumptions, so the exit code is 0.
			out, err := exec.Command("lockpick", "run", "baseline/", "delayed-write/", "minority-down/", "--backend", "process", "--adapter", adapter,
				"--store", filepath.Join(t.TempDir(), "store"), "-v").CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if !strings.Contains(string(out), "1 skipped") {
				t.Errorf("messages to a store can't be held:\n%s", out)
			}
		})
	}
}
