//go:build long

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// TestNamedSeedsShowTheirCause reruns the seed that a sweep names for each cause. It must show that
// cause again, and its report must be in the store.
func TestNamedSeedsShowTheirCause(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	output := lockpick(t, "run", "random-faults", "--seeds", "14", "--store", store)
	s, err := suites.Open(filepath.Join(store, "suites", "latest"))
	if err != nil {
		t.Fatal(err)
	}
	causes, rerun := 0, map[string][]outcome.Judgement{}
	for _, c := range s.Scenarios {
		for _, x := range c.Causes {
			causes++
			if row := fmt.Sprintf(`(?m)^ +%s +%d\s+%s$`, x.Cause, x.Runs, x.Shortest.Command); !regexp.MustCompile(row).MatchString(output) {
				t.Errorf("%q is not printed", row)
			}
			for _, e := range []outcome.Example{x.First, x.Shortest} {
				report := filepath.Join(store, "suites", "latest", c.RunDirs[e.Seed], "report.html")
				if _, err := os.Stat(report); err != nil || c.RunDirs[e.Seed] == "" {
					t.Errorf("%s, seed %d: its report: %v", c.ID(), e.Seed, err)
				}
				if rerun[e.Command] == nil { // several causes may name one seed
					rerun[e.Command] = judgements(t, e.Command)
				}
				checkShown(t, rerun[e.Command], e, x)
			}
		}
	}
	if causes < 5 {
		t.Errorf("only %d causes in %s", causes, output)
	}
	for _, verdict := range []string{"as expected", "no violation"} {
		if strings.Contains(output, verdict) || strings.Contains(s.Headline(), verdict) {
			t.Errorf("%q printed for an informational run: %s\n%s", verdict, s.Headline(), output)
		}
	}
}

// judgements runs a command that run printed, and returns the judgements.
func judgements(t *testing.T, command string) []outcome.Judgement {
	t.Helper()
	words := strings.Fields(command)
	var answer struct{ Outcomes []outcome.Outcome }
	if err := json.Unmarshal([]byte(lockpick(t, append(words[1:], "--json", "--reports", "none", "--store", t.TempDir())...)), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Outcomes[0].Judgements
}

// checkShown checks that rerunning example e resulted in a violation with cause x after as many
// events as e says.
func checkShown(t *testing.T, all []outcome.Judgement, e outcome.Example, x outcome.Cause) {
	t.Helper()
	var found []string
	for _, j := range all {
		if j.Property == x.Property && j.Cause == x.Cause && j.Length == e.Events {
			return
		}
		found = append(found, fmt.Sprintf("%s after %d events", j, j.Length))
	}
	t.Errorf("%s: no %s (%s) after %d events, but %s", e.Command, x.Property, x.Cause, e.Events, strings.Join(found, "; "))
}
