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

// hunting is a hunt that is begun in a store, and what it prints in the end.
func hunting(t *testing.T, store string) *exec.Cmd {
	t.Helper()
	c := exec.Command("lockpick", "fuzz", "restart-forgets/", "--seeds", "40", "--store", store, "--json", "--expect", "mutual-exclusion=holds")
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	return c
}

// counts are how often each thing was found, and in how many runs.
func counts(t *testing.T, text []byte) map[string]int {
	t.Helper()
	var h campaign.Fuzz
	if err := json.Unmarshal(text, &h); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	n := map[string]int{"runs": h.Runs, "next": h.Next}
	for _, f := range h.Finds {
		n[f.Bug.String()] = f.Runs
		if f.Small == nil || !f.Settled || f.Dir == "" {
			t.Errorf("%s was not made small, or is not kept: %+v", f.Bug, f)
		}
	}
	return n
}

// A hunt that is interrupted or killed in the middle keeps what it found, goes on when it is
// begun again, and counts each seed once: in the end it has what one has that nobody touched.
func TestHuntsGoOn(t *testing.T) {
	whole, err := hunting(t, t.TempDir()).Output()
	if code := err.(*exec.ExitError).ExitCode(); code != 1 {
		t.Fatalf("exit code %d: %s", code, whole)
	}
	want := counts(t, whole)
	if want["runs"] != 40 || len(want) < 4 {
		t.Fatalf("a whole hunt: %v", want)
	}
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		store := t.TempDir()
		done := 0
		for range 3 {
			c := hunting(t, store)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			someDone(t, store, done+1)
			if err := c.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			err := c.Wait()
			done = someDone(t, store, 0) // it may have done more before it ended
			if c.ProcessState.Success() || s == syscall.SIGINT && c.ProcessState.ExitCode() != 130 {
				t.Fatalf("%v: it ended by %v", s, err)
			}
		}
		if done >= 40 {
			t.Errorf("%v: it was over before", s)
		}
		text, _ := hunting(t, store).Output()
		if got := counts(t, text); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: in the end %v, want %v", s, got, want)
		}
	}
}

// someDone waits until a hunt's file says that so many runs are done, and how many they are.
func someDone(t *testing.T, store string, least int) int {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		paths, _ := filepath.Glob(filepath.Join(store, "hunts", "*", "hunt.json"))
		for _, path := range paths {
			var h campaign.Fuzz
			if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &h) == nil && h.Runs >= least {
				return h.Runs
			}
		}
	}
	t.Fatalf("%d runs were never done", least)
	return 0
}
