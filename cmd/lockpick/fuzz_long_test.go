//go:build long && !windows

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"lockpick/scenarios/campaign"
)

// fuzzCommand returns a fuzz command that uses the given store and prints JSON.
func fuzzCommand(t *testing.T, store string) *exec.Cmd {
	t.Helper()
	c := exec.Command("lockpick", "fuzz", "restart-forgets/", "--seeds", "40", "--store", store, "--json", "--expect", "mutual-exclusion=holds")
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	return c
}

// findingCounts extracts how often each finding occurred, and the number of runs, from the JSON output of
// fuzz.
func findingCounts(t *testing.T, text []byte) map[string]int {
	t.Helper()
	var h campaign.FuzzState
	if err := json.Unmarshal(text, &h); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	n := map[string]int{"runs": h.Runs, "next": h.FirstUnfinished}
	for _, f := range h.Findings {
		n[f.Bug.String()] = f.Runs
		if f.Minimized == nil || !f.Settled || f.Dir == "" {
			t.Errorf("%s was not minimized or not stored: %+v", f.Bug, f)
		}
	}
	return n
}

// TestFuzzResumes repeatedly interrupts or kills lockpick fuzz and starts it again. The findings and
// counts must be the same as without interruptions.
func TestFuzzResumes(t *testing.T) {
	wantOutput, err := fuzzCommand(t, t.TempDir()).Output()
	if code := err.(*exec.ExitError).ExitCode(); code != 1 {
		t.Fatalf("exit code %d: %s", code, wantOutput)
	}
	want := findingCounts(t, wantOutput)
	if want["runs"] != 40 || len(want) < 4 {
		t.Fatalf("undisturbed: %v", want)
	}
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		store := t.TempDir()
		done := 0
		for range 3 {
			c := fuzzCommand(t, store)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			waitForRuns(t, store, done+1)
			if err := c.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			err := c.Wait()
			done = waitForRuns(t, store, 0) // more runs may have ended before the process did
			if c.ProcessState.Success() || s == syscall.SIGINT && c.ProcessState.ExitCode() != 130 {
				t.Fatalf("%v: the process ended with %v", s, err)
			}
		}
		if done >= 40 {
			t.Errorf("%v: the run had already finished", s)
		}
		text, _ := fuzzCommand(t, store).Output()
		if got := findingCounts(t, text); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %v, want %v", s, got, want)
		}
	}
}

// waitForRuns waits until hunt.json records at least minRuns runs, and returns the number of runs.
func waitForRuns(t *testing.T, store string, minRuns int) int {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		paths, _ := filepath.Glob(filepath.Join(store, "hunts", "*", "hunt.json"))
		for _, path := range paths {
			var h campaign.FuzzState
			if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &h) == nil && h.Runs >= minRuns {
				return h.Runs
			}
		}
	}
	t.Fatalf("timeout before %d runs were done", minRuns)
	return 0
}
