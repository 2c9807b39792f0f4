//go:build (processes || nightly) && linux

package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	adapters "lockpick/harness/lock/exec"
)

// installAdapters installs a set of adapters and their libraries, and returns the folder of all
// sets. If they are unavailable, it skips the test.
func installAdapters(t *testing.T, set string) (folder string) {
	t.Helper()
	needRedis(t)
	out, err := exec.Command("../../.ci/adapters", set).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 75 {
		t.Skip(strings.TrimSpace(string(out)))
	}
	switch {
	case err != nil && night:
		t.Fatalf("install the libraries of %s: %v\n%s", set, err, out)
	case err != nil: // regular runs must not need a network
		t.Skipf("the libraries of %s are not available: %v\n%s", set, err, out)
	}
	folder, err = filepath.Abs(filepath.Join("../..", adapters.AdapterFolder))
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestScorecardsOfAdapters makes scorecards of libraries in other languages from real runs. Regular
// runs cover one library and a scenario for each type of fault; nightly runs cover all libraries
// and scenarios. Each violation must have been tried again, and each counterexample must show it.
func TestScorecardsOfAdapters(t *testing.T) {
	t.Parallel() // this test mostly waits
	scoreFlags := []string{"--tag", "score"}
	if night {
		scoreFlags = nil
	}
	for _, s := range adapters.Libraries {
		if !night && s.Name != "python-redis-lock" { // the fastest one
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			command := s.Command(installAdapters(t, s.Set))
			t.Parallel()
			dir, book, code := makeScorecards(t, append([]string{"scorecard", "--adapter", command, "--seeds", "0", "--jobs", "4"}, scoreFlags...)...)
			c := onlyCard(t, book, code)
			checkRealRuns(t, c)
			t.Logf("exit code %d, %d runs, %d counterexamples", code, c.Runs, replayCounterexamples(t, dir, book))
		})
	}
}
