package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/lock/kinds"
	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// makeScorecards runs lockpick scorecard, and returns the folder, the scorecards and the exit code.
func makeScorecards(t *testing.T, args ...string) (dir string, book suites.Scorecards, code int) {
	t.Helper()
	store := filepath.Join(t.TempDir(), "store")
	cmd := exec.Command("lockpick", append(args, "--store", store, "--json")...)
	var exit *exec.ExitError
	out, err := cmd.Output()
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &book); err != nil {
		t.Fatalf("lockpick %v: exit %d: %v\n%s", args, code, err, out)
	}
	return filepath.Join(store, "scores", "latest"), book, code
}

// onlyCard returns the only card of a scorecard command that was not interrupted and did not fail.
func onlyCard(t *testing.T, book suites.Scorecards, code int) *outcome.Card {
	t.Helper()
	if code != outcome.ExitOK && code != outcome.ExitUnexpected && code != outcome.ExitUndecided || len(book.Cards) != 1 {
		t.Fatalf("exit code %d, %d cards", code, len(book.Cards))
	}
	return book.Cards[0]
}

// checkRealRuns checks that a card has results on a real backend, and that violations of required
// properties were tried again.
func checkRealRuns(t *testing.T, c *outcome.Card) {
	t.Helper()
	if c.Runs == 0 || c.Backend != "process" || c.RetryBackend != "process" || len(c.Errors) > 0 {
		t.Errorf("%d runs on %s, tried on %s: %v", c.Runs, c.Backend, c.RetryBackend, c.Errors)
	}
	if len(c.Servers) != 1 || !strings.HasSuffix(c.Servers[0], " on process") {
		t.Errorf("servers %q, want one on process", c.Servers)
	}
	for _, f := range c.Findings {
		for _, h := range f.Violations {
			if h.Required && h.Reproduction == nil {
				t.Errorf("%s: %s was not tried again", f.Scenario, h.Property)
			}
		}
	}
}

// TestScorecardIsReproducible checks that a repeated command makes the same card, byte for byte,
// and that replaying each counterexample gives the same history, with the card's verdict and cause.
func TestScorecardIsReproducible(t *testing.T) {
	args := []string{"scorecard", "redislock", "--tag", "score"}
	dir, book, code := makeScorecards(t, args...)
	secondDir, _, _ := makeScorecards(t, args...)
	for _, name := range []string{suites.CardPage, suites.CardText, suites.CardJSON} {
		text1, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if text2, err := os.ReadFile(filepath.Join(secondDir, name)); err != nil || string(text2) != string(text1) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	if n := replayCounterexamples(t, dir, book); n == 0 || code != outcome.ExitUnexpected {
		t.Errorf("%d counterexamples, exit code %d", n, code)
	}
}

// replayCounterexamples replays the simulated counterexamples on cards, and returns their number.
func replayCounterexamples(t *testing.T, dir string, book suites.Scorecards) (n int) {
	t.Helper()
	for _, c := range book.Cards {
		for _, f := range c.Findings {
			n++
			run := filepath.Join(dir, f.Run)
			if f.Run == "" && strings.Contains(c.Lock, "caching=yes") { // this lock is not fully deterministic
				continue
			}
			if f.Backend == simulation && !strings.Contains(c.Lock, "caching=yes") {
				lockpick(t, "replay", run)
			}
			for _, h := range f.Violations {
				if !hasViolation(t, run, h.Property, h.Cause) {
					t.Errorf("%s: the run in %s does not show %s (%s)", c.Lock, f.Run, h.Property, h.Cause)
				}
			}
			if f.ConfirmingRun != "" && !slices.ContainsFunc(f.Violations, func(h outcome.Violation) bool {
				return h.Reproduction != nil && h.Reproduction.State == outcome.ReproductionConfirmed && hasViolation(t, filepath.Join(dir, f.ConfirmingRun), h.Property, h.Reproduction.Cause)
			}) {
				t.Errorf("%s: the run in %s does not show what it confirmed", c.Lock, f.ConfirmingRun)
			}
		}
	}
	return n
}

// hasViolation reports whether a stored run violates a property with the given cause.
func hasViolation(t *testing.T, run, property, cause string) bool {
	t.Helper()
	var v verdict.Verdict
	out, _ := exec.Command("lockpick", "check", run, "--json").Output()
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(run, err)
	}
	r := v.Result(property)
	return r != nil && r.Outcome == verdict.Violated && r.Cause == cause
}

// TestSetups checks that KIND:* selects the kind with its defaults and with each value of each
// option, and includes options that the value needs.
func TestSetups(t *testing.T) {
	f := &scorecardFlags{jobs: 1}
	got, err := f.chooseLocks([]string{"redislock", "redsync:*", "rueidis:*", "redsync"})
	want := []string{"redislock", "redsync", "redsync:driver=defaults", "redsync:driver=context-timeout", "redsync:fail-fast=yes", "redsync:set-nx-on-extend=yes",
		"rueidis", "rueidis:caching=yes", "rueidis:caching=yes,no-loop=no"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	allFlags := &scorecardFlags{jobs: 1, allLocks: true}
	all, err := allFlags.chooseLocks(nil)
	for _, kind := range kinds.Names() {
		if err != nil || slices.Contains(all, kind) == (kind == "broken") {
			t.Errorf("--all: %q, %v", all, err)
		}
	}
}

// TestClaims checks that the quotes from the locks' documentation refer to existing kinds and
// properties.
func TestClaims(t *testing.T) {
	for kind, claims := range kinds.Claims {
		if _, known := kinds.All[kind]; !known {
			t.Errorf("no kind %s", kind)
		}
		for property, quote := range claims {
			if !slices.Contains(checker.Properties(), property) || quote == "" {
				t.Errorf("%s: %s: %q", kind, property, quote)
			}
		}
	}
}

// TestScoreTag checks that the tag score includes a scenario for each type of fault that tier every
// covers.
func TestScoreTag(t *testing.T) {
	all, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	coveredBy := map[string]bool{}
	for _, p := range all {
		if column := outcome.CardColumn(p.Scenario); p.Tier == "every" {
			coveredBy[column] = coveredBy[column] || slices.Contains(p.Tags, "score")
		}
	}
	for column, covered := range coveredBy {
		if !covered {
			t.Errorf("no scenario of tier every with tag score for %s", column)
		}
	}
}

// TestInterruptedScorecard checks that an interrupted scorecard command stores the completed cards
// with the runs of their findings, and prints how many cards there are.
func TestInterruptedScorecard(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	cmd := exec.Command("lockpick", "scorecard", "redislock", "redsync:*", "rueidis:*", "single", "redlock", "--tag", "score", "--store", store, "--json")
	var out strings.Builder
	cmd.Stdout = &out
	errs, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var output string
	for lines := bufio.NewScanner(errs); lines.Scan(); output += lines.Text() + "\n" {
		if strings.Contains(lines.Text(), " done: 2 of ") {
			cmd.Process.Signal(os.Interrupt)
		}
	}
	cmd.Wait()
	var book suites.Scorecards
	if err := json.Unmarshal([]byte(out.String()), &book); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if n := len(book.Cards); n < 2 || cmd.ProcessState.ExitCode() != outcome.ExitInterrupt || book.Code != outcome.ExitInterrupt ||
		!strings.Contains(output, fmt.Sprintf("interrupted after %d of ", n)) || strings.Contains(output, fmt.Sprintf("interrupted after %d of %[1]d ", n)) {
		t.Errorf("%d cards, code %d, %v:\n%s", n, book.Code, cmd.ProcessState, output)
	}
	dir := filepath.Join(store, "scores", "latest")
	if text, err := os.ReadFile(filepath.Join(dir, suites.CardJSON)); err != nil || string(text) != out.String() {
		t.Errorf("%s differs from the output: %v", suites.CardJSON, err)
	}
	var runs []string
	for _, c := range book.Cards {
		for _, f := range c.Findings {
			runs = append(runs, f.Run)
			if f.Run != "" && !hasViolation(t, filepath.Join(dir, f.Run), f.Violations[0].Property, f.Violations[0].Cause) {
				t.Errorf("%s does not show %s", f.Run, f.Violations[0].Property)
			}
		}
	}
	runDirs, err := os.ReadDir(filepath.Join(dir, suites.RunFolder))
	for _, e := range runDirs {
		if !slices.Contains(runs, suites.RunFolder+"/"+e.Name()) {
			t.Errorf("%s belongs to no card", e.Name())
		}
	}
	if err != nil || len(runs) == 0 {
		t.Errorf("%d findings, %v", len(runs), err)
	}
}
