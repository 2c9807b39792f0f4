package campaign

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/internal/files"
	"lockpick/scenarios/outcome"
)

var scenarioNames = []string{"a", "a/b", "c"}

func openTestFuzz(t *testing.T, folder string) *FuzzState {
	t.Helper()
	h, err := openFuzz(folder, "this", scenarioNames, 5)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// testOutcome returns the outcome of run i. Every seventh run violates one property and every fifth
// another.
func testOutcome(i int) outcome.Outcome {
	o := outcome.Outcome{Command: fmt.Sprintf("run %d", i)}
	add := func(property, cause, expected string) {
		o.Judgements = append(o.Judgements, outcome.Judgement{Property: property, Cause: cause, Got: verdict.Violated, Expected: expected, Length: 100 - i})
	}
	if i%7 == 0 {
		add(verdict.MutualExclusion, "flushed", "holds")
	}
	if i%5 == 0 {
		add(verdict.ResourceSafety, "overrun", "any")
	}
	return o
}

// Run numbers go through all scenarios before the next seed, and each is assigned once.
func TestNextRun(t *testing.T) {
	h := openTestFuzz(t, t.TempDir())
	for i := range 10 {
		if got := h.nextRun(); got != i {
			t.Fatalf("next run is %d, want %d", got, i)
		}
	}
	if s, seed := h.runOf(7); s != 1 || seed != 7 {
		t.Errorf("run 7 is scenario %d with seed %d", s, seed)
	}
}

// A search that is killed and resumed counts each run once and ends with the same findings as an
// uninterrupted search.
func TestKilledSearchCountsRunsOnce(t *testing.T) {
	const total = 300
	r := rand.New(rand.NewPCG(3, 4))
	folder := t.TempDir()
	h := openTestFuzz(t, folder)
	var running []int // assigned runs that are not done
	kills := 0
	for h.Runs < total {
		switch {
		case r.IntN(40) == 0: // runs since the last save and runs in progress are lost
			kills++
			h, running = openTestFuzz(t, folder), nil
		case r.IntN(6) == 0:
			if err := h.save(); err != nil {
				t.Fatal(err)
			}
		case len(running) < 8:
			if i := h.nextRun(); i < total {
				running = append(running, i)
				continue
			}
			fallthrough
		default:
			if len(running) == 0 {
				continue
			}
			k := r.IntN(len(running))
			i := running[k]
			running = append(running[:k], running[k+1:]...)
			h.record(i, testOutcome(i))
			h.record(i, testOutcome(i)) // a run that is recorded twice counts once
		}
	}
	if kills < 5 || h.FirstUnfinished != total || h.Runs != total || len(h.OutOfOrder) != 0 {
		t.Errorf("after %d kills: first unfinished run %d, %d runs done, %d out of order", kills, h.FirstUnfinished, h.Runs, len(h.OutOfOrder))
	}
	uninterrupted := openTestFuzz(t, t.TempDir())
	for i := range total {
		uninterrupted.record(uninterrupted.nextRun(), testOutcome(i))
	}
	for _, f := range uninterrupted.Findings {
		found := false
		for _, g := range h.Findings {
			if g.Bug == f.Bug {
				found = true
				if g.Runs != f.Runs || g.Required != f.Required || g.ShortestRun != f.ShortestRun {
					t.Errorf("%s: killed search %+v, uninterrupted search %+v", f.Bug, g, f)
				}
			}
		}
		if !found {
			t.Errorf("the killed search did not find %s", f.Bug)
		}
	}
	if len(uninterrupted.Findings) != 2 || len(h.Findings) != 2 {
		t.Errorf("%d and %d findings, want 2 each", len(uninterrupted.Findings), len(h.Findings))
	}
}

func TestRecordReturnsNewFindings(t *testing.T) {
	h := openTestFuzz(t, t.TempDir())
	for i, want := range []int{2, 0, 0, 0, 0, 0, 0, 0} {
		if newFindings, _ := h.record(h.nextRun(), testOutcome(i)); len(newFindings) != want {
			t.Errorf("run %d: %d new findings, want %d", i, len(newFindings), want)
		}
	}
	if f := h.Findings[0]; !f.Required || f.Runs != 2 || f.FirstRun.Seed != 5 || f.ShortestRun.Events != 93 {
		t.Errorf("%+v", f)
	}
}

// A violation of a required property is reported every time, even if the finding is not new.
func TestRecordReportsRequiredViolations(t *testing.T) {
	h := openTestFuzz(t, t.TempDir())
	for i, expected := range []string{"any", "holds", "any", "holds"} {
		o := outcome.Outcome{Judgements: []outcome.Judgement{{Property: verdict.FencingOrder, Cause: "holder-refused", Got: verdict.Violated, Expected: expected}}}
		if newFindings, requiredViolated := h.record(h.nextRun(), o); requiredViolated != (expected == "holds") || len(newFindings) > 0 != (i == 0) {
			t.Errorf("run %d, expected %s: required violation %v, %d new findings", i, expected, requiredViolated, len(newFindings))
		}
	}
}

// An unfinished session is resumed. A finished one is followed by a new session.
func TestSessions(t *testing.T) {
	folder := t.TempDir()
	h := openTestFuzz(t, folder)
	h.record(h.nextRun(), testOutcome(0))
	h.Session.Seconds = 3
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	if h = openTestFuzz(t, folder); !h.resumes() || h.Session.RunsBefore != 0 {
		t.Errorf("session is not resumed: %+v", h.Session)
	}
	h.Session.Done = true
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	if h = openTestFuzz(t, folder); h.resumes() || h.Session.RunsBefore != 1 || h.Runs != 1 {
		t.Errorf("session is resumed: %+v", h.Session)
	}
}

func TestOpenFuzzRejectsInvalidState(t *testing.T) {
	folder := t.TempDir()
	h := openTestFuzz(t, folder)
	for i := range 3 {
		h.record(h.nextRun(), testOutcome(i))
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(folder, fuzzFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range [][3]string{
		{`"next": 3`, `"next": 2`, "runs is 3, but 2 runs are marked as done"},
		{`"next": 3`, `"next": 2, "ahead": [1]`, "run 1 is counted twice"},
		{`"next": 3`, `"next": 1, "ahead": [2, 2]`, "run 2 is counted twice"},
		{`"schema": 1`, `"schema": 7`, "schema 7 is not supported"},
		{`"of": "this"`, `"of": "that"`, "it belongs to another search"},
		{`"seed": 5`, `"seed": `, "invalid character"},
		{`"begun": 0`, `"begun": 9`, "leg: "},
	} {
		text := strings.Replace(string(good), x[0], x[1], 1)
		if text == string(good) {
			t.Fatalf("no %s in %s", x[0], good)
		}
		if err := os.WriteFile(filepath.Join(folder, fuzzFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := openFuzz(folder, "this", scenarioNames, 5); err == nil || !strings.Contains(err.Error(), x[2]) {
			t.Errorf("%s: %v, want %s", x[1], err, x[2])
		}
	}
}

// A search whose owner has exited can be resumed.
func TestSearchOwner(t *testing.T) {
	self, err := files.CurrentOwner()
	if err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	h := openTestFuzz(t, folder)
	parent := self
	parent.PID, parent.Start = os.Getppid(), 0
	for _, x := range []struct {
		owner files.Owner
		taken bool
	}{{self, false}, {parent, false}} { // a running process, but it did not start at that time
		h.Owner = x.owner.String()
		if err := h.save(); err != nil {
			t.Fatal(err)
		}
		if _, err := openFuzz(folder, "this", scenarioNames, 5); errors.Is(err, errFuzzInUse) != x.taken {
			t.Errorf("%s: %v", x.owner, err)
		}
	}
}

// An accepted state file can be resumed.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema": 1, "of": "this", "scenarios": ["a"], "seed": 1, "next": 2, "ahead": [3], "runs": 3, "finds": [{"property": "p", "held": true, "runs": 1, "first": {"scenario": 0, "seed": 1}, "shortest": {}}], "leg": {"begun": 0}}`))
	f.Add([]byte(`{"schema": 1, "scenarios": ["a"], "finds": [null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := parseFuzz(text)
		if err != nil {
			return
		}
		before := h.Runs
		i := h.nextRun()
		h.record(i, testOutcome(35))
		if h.Runs != before+1 {
			t.Errorf("run %d was assigned although it is done: %s", i, text)
		}
	})
}

func TestClipName(t *testing.T) {
	long := strings.Repeat("extension-", 8)
	a, b := clipName(long+"a", 64), clipName(long+"b", 64)
	if a == b || len(a) > 64 || !strings.HasPrefix(a, "extension-extension-") || clipName("short", 64) != "short" {
		t.Error(a, b)
	}
}
