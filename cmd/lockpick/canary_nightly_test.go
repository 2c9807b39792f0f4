//go:build nightly && !windows

package main

import (
	"os"
	"slices"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

// TestCanary runs a lock that deletes other clients' keys on each backend, with no more flags than
// for any lock. Each run must exit with 1 because of mutual-exclusion. Otherwise the results of
// that nightly run mean nothing.
func TestCanary(t *testing.T) {
	needRedis(t)
	binary := build(t)
	for _, backend := range backendNames {
		t.Run(backend, func(t *testing.T) {
			code, all := outcomes(t, binary, "run", "foreign-release/", "--backend", backend, "--set", "lock.kind=broken", "--set", "lock.mistake=plain-del")
			if code == outcome.ExitBackend && os.Getenv("CI") == "" {
				t.Skipf("this machine can't run it: %+v", all)
			}
			caught := len(all) == 1 && slices.ContainsFunc(all[0].Judgements, func(j outcome.Judgement) bool {
				return j.Property == verdict.MutualExclusion && j.Got == verdict.Violated && j.Cause == verdict.DeletedByOther && !j.AsExpected
			})
			if code != outcome.ExitUnexpected || !caught {
				t.Errorf("exit code %d, want %d for a lock that deletes others' keys; got %+v", code, outcome.ExitUnexpected, all)
			}
		})
	}
}
