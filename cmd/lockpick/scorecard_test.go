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

// scored makes scorecards, and returns their folder and the exit code.
func scored(t *testing.T, args ...string) (dir string, book suites.Scorecards, code int) {
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

// onlyCard is the one of a book whose score came to its end, whatever it says of the lock.
func onlyCard(t *testing.T, book suites.Scorecards, code int) *outcome.Card {
	t.Helper()
	if code != outcome.ExitOK && code != outcome.ExitUnexpected && code != outcome.ExitUndecided || len(book.Cards) != 1 {
		t.Fatalf("exit code %d, %d cards", code, len(book.Cards))
	}
	return book.Cards[0]
}

// fromServers sees that a card is of real runs, and that what its lock is held to was tried again
// where it failed.
func fromServers(t *testing.T, c *outcome.Card) {
	t.Helper()
	if c.Runs == 0 || c.Backend != "process" || c.Tried != "process" || len(c.Errors) > 0 {
		t.Errorf("%d runs on %s, tried on %s: %v", c.Runs, c.Backend, c.Tried, c.Errors)
	}
	for _, f := range c.Findings {
		for _, h := range f.Harms {
			if h.Held && h.Try == nil {
				t.Errorf("%s: %s was not tried again", f.Scenario, h.Property)
			}
		}
	}
}

// The same call gives the same card, byte for byte, and each counterexample on it runs again:
// the same history, with the verdict and the cause that the card names.
func TestScorecardAgain(t *testing.T) {
	args := []string{"scorecard", "redislock", "--tag", "score"}
	dir, book, code := scored(t, args...)
	again, _, _ := scored(t, args...)
	for _, name := range []string{suites.CardPage, suites.CardText, suites.CardJSON} {
		one, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if two, err := os.ReadFile(filepath.Join(again, name)); err != nil || string(two) != string(one) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	if n := replayed(t, dir, book); n == 0 || code != outcome.ExitUnexpected {
		t.Errorf("%d counterexamples, exit code %d", n, code)
	}
}

// replayed runs the simulated counterexamples of cards again, and says how many there are.
func replayed(t *testing.T, dir string, book suites.Scorecards) (n int) {
	t.Helper()
	for _, c := range book.Cards {
		for _, f := range c.Findings {
			n++
			run := filepath.Join(dir, f.Run)
			if f.Run == "" && strings.Contains(c.Lock, "caching=yes") { // it is not always the same twice
				continue
			}
			if f.Backend == simulation && !strings.Contains(c.Lock, "caching=yes") {
				lockpick(t, "replay", run)
			}
			for _, h := range f.Harms {
				if !violates(t, run, h.Property, h.Cause) {
					t.Errorf("%s: the run in %s does not show %s (%s)", c.Lock, f.Run, h.Property, h.Cause)
				}
			}
			if f.Elsewhere != "" && !slices.ContainsFunc(f.Harms, func(h outcome.Harm) bool {
				return h.Try != nil && h.Try.State == outcome.StateConfirmed && violates(t, filepath.Join(dir, f.Elsewhere), h.Property, h.Try.Cause)
			}) {
				t.Errorf("%s: the run in %s shows nothing that it confirmed", c.Lock, f.Elsewhere)
			}
		}
	}
	return n
}

// violates says whether a stored run violates a property by a cause.
func violates(t *testing.T, run, property, cause string) bool {
	t.Helper()
	var v verdict.Verdict
	out, _ := exec.Command("lockpick", "check", run, "--json").Output()
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(run, err)
	}
	r := v.Result(property)
	return r != nil && r.Outcome == verdict.Violated && r.Cause == cause
}

// KIND:* is the kind as it comes, and with each value of each option, with what that takes.
func TestSetups(t *testing.T) {
	f := &scoreFlags{jobs: 1}
	got, err := f.locks([]string{"redislock", "redsync:*", "rueidis:*", "redsync"})
	want := []string{"redislock", "redsync", "redsync:driver=defaults", "redsync:driver=context-timeout", "redsync:fail-fast=yes", "redsync:set-nx-on-extend=yes",
		"rueidis", "rueidis:caching=yes", "rueidis:caching=yes,no-loop=no"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	every := &scoreFlags{jobs: 1, all: true}
	all, err := every.locks(nil)
	for _, kind := range kinds.Names() {
		if err != nil || slices.Contains(all, kind) == (kind == "broken") {
			t.Errorf("--all is %q, %v", all, err)
		}
	}
}

// Documentation is cited of kinds and properties that there are.
func TestClaims(t *testing.T) {
	for kind, claims := range kinds.Claims {
		if _, known := kinds.All[kind]; !known {
			t.Errorf("no kind %s", kind)
		}
		for property, words := range claims {
			if !slices.Contains(checker.Properties(), property) || words == "" {
				t.Errorf("%s: %s: %q", kind, property, words)
			}
		}
	}
}

// What is tagged score has a scenario of each sort of failure that the tier of every lock has.
func TestScoreTag(t *testing.T) {
	all, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, p := range all {
		if column := outcome.CardColumn(p.Scenario); p.Tier == "every" {
			has[column] = has[column] || slices.Contains(p.Tags, "score")
		}
	}
	for column, tagged := range has {
		if !tagged {
			t.Errorf("no scenario of tier every that is tagged score is about %s", column)
		}
	}
}

// A score that is interrupted keeps the cards that are whole, with the runs of their findings, and
// says how many they are.
func TestScoreIsInterrupted(t *testing.T) {
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
	var said string
	for lines := bufio.NewScanner(errs); lines.Scan(); said += lines.Text() + "\n" {
		if strings.Contains(lines.Text(), " is scored: 2 of ") {
			cmd.Process.Signal(os.Interrupt)
		}
	}
	cmd.Wait()
	var book suites.Scorecards
	if err := json.Unmarshal([]byte(out.String()), &book); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if n := len(book.Cards); n < 2 || cmd.ProcessState.ExitCode() != outcome.ExitInterrupt || book.Code != outcome.ExitInterrupt ||
		!strings.Contains(said, fmt.Sprintf("interrupted after %d of ", n)) || strings.Contains(said, fmt.Sprintf("interrupted after %d of %[1]d ", n)) {
		t.Errorf("%d cards, code %d, %v:\n%s", n, book.Code, cmd.ProcessState, said)
	}
	dir := filepath.Join(store, "scores", "latest")
	if text, err := os.ReadFile(filepath.Join(dir, suites.CardJSON)); err != nil || string(text) != out.String() {
		t.Errorf("%s is not what was printed: %v", suites.CardJSON, err)
	}
	var runs []string
	for _, c := range book.Cards {
		for _, f := range c.Findings {
			runs = append(runs, f.Run)
			if f.Run != "" && !violates(t, filepath.Join(dir, f.Run), f.Harms[0].Property, f.Harms[0].Cause) {
				t.Errorf("%s does not show %s", f.Run, f.Harms[0].Property)
			}
		}
	}
	left, err := os.ReadDir(filepath.Join(dir, suites.RunFolder))
	for _, e := range left {
		if !slices.Contains(runs, suites.RunFolder+"/"+e.Name()) {
			t.Errorf("%s is no run of a card", e.Name())
		}
	}
	if err != nil || len(runs) == 0 {
		t.Errorf("%d findings, %v", len(runs), err)
	}
}
