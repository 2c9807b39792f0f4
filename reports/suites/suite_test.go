package suites

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func judgement(property, expected string, got verdict.Outcome, cause string, asExpected bool) outcome.Judgement {
	return outcome.Judgement{Property: property, Expected: expected, Got: got, Cause: cause, Because: "because of " + property, AsExpected: asExpected}
}

// storedRun returns the outcome of a run with a directory in the store.
func storedRun(store, id string, seed uint64, code int, js ...outcome.Judgement) outcome.Outcome {
	return outcome.Outcome{Schema: 1, Scenario: id, Backend: "sim", Seed: seed, Code: code, Judgements: js,
		Dir: filepath.Join(store, strings.ReplaceAll(id, "/", "+"), "20260102T030405.000Z-sim-1"), Command: "lockpick run " + id}
}

func newSuite(store string) *Suite {
	return &Suite{Backend: "sim", Seed: 1, Seeds: 1, StartTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Seconds: 1.25, PlannedRuns: 7,
		Command: "lockpick run --seed 1", Version: "v1.2.3", Go: "go1.26", OS: "linux", Arch: "amd64", CPUs: 2, Store: store}
}

// fullSuite returns a suite with every kind of result: as expected, unexpected, inconclusive, failed,
// skipped, and not run.
func fullSuite(store string) *Suite {
	s := newSuite(store)
	add := func(name, variant, claim string) {
		s.Scenarios = append(s.Scenarios, &Scenario{Name: name, Variant: variant, Claim: claim, Source: "a source",
			Expect: []string{"resource-safety holds"}})
	}
	add("pause", "", "A paused client writes after its lease.")
	add("pause", "fenced", "A fence rejects the write.")
	add("clean", "", "Nothing happens.")
	add("clean", "flawed", "A broken lock violates mutual exclusion.")
	add("surprise", "", "Clocks don't matter.")
	add("vacuous", "", "No client acquires the lock.")
	add("drawn", "", "The random plan may omit the fault.")
	add("named", "", "A client dies.")
	add("broken", "", "The run fails.")
	add("lacking", "", "The nodes lose power.")
	add("late", "", "The suite ends first.")
	const me, rs = verdict.MutualExclusion, verdict.ResourceSafety
	s.Add(storedRun(store, "clean", 1, 0, judgement(me, "holds", verdict.Holds, "", true), judgement(rs, "holds", verdict.Holds, "", true)))
	s.Add(storedRun(store, "pause", 1, 0, judgement(me, "holds", verdict.Holds, "", true), judgement(rs, "violated: overrun", verdict.Violated, "overrun", true)))
	s.Add(storedRun(store, "pause/fenced", 1, 0, judgement(me, "holds", verdict.Holds, "", true), judgement(rs, "holds", verdict.Holds, "", true)))
	s.Add(storedRun(store, "clean/flawed", 1, 0, judgement(me, "violated", verdict.Violated, "never-set", true), judgement(rs, "any", verdict.Violated, "lock-broken", true)))
	s.Add(storedRun(store, "surprise", 1, 1, judgement(me, "holds", verdict.Violated, "expired-early", false), judgement(rs, "violated: overrun", verdict.Holds, "", false)))
	vacuous := storedRun(store, "vacuous", 1, 2, judgement(me, "holds", verdict.Undecided, "", false))
	vacuous.RetryReasons = []string{"mutual-exclusion is inconclusive: no client acquired (" + store + "/vacuous/20260102T030404.000Z-sim-1)"}
	s.Add(vacuous)
	s.Add(storedRun(store, "drawn", 1, 0, judgement(me, "holds", verdict.Holds, "", true), judgement(rs, "holds", verdict.NotExercised, "", true)))
	s.Add(storedRun(store, "named", 1, 2, judgement(me, "holds", verdict.Holds, "", true), judgement(rs, "holds", verdict.NotExercised, "", false)))
	broken := storedRun(store, "broken", 1, 70)
	broken.Error = "panic: index out of range\ngoroutine 1"
	s.Add(broken)
	s.Add(outcome.Outcome{Schema: 1, Scenario: "lacking", Backend: "sim", Skipped: "power-loss: not supported by this backend"})
	s.Code, s.Interrupted = 70, true
	return s
}

// storeReports writes reports on runs into a store.
func storeReports(t *testing.T, store string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		dir := filepath.Join(store, strings.ReplaceAll(id, "/", "+"), "20260102T030405.000Z-sim-1")
		write(t, filepath.Join(dir, runPage), "<!doctype html>"+id)
		write(t, filepath.Join(dir, "sequence.svg"), "<svg xmlns='http://www.w3.org/2000/svg'/>")
		write(t, filepath.Join(dir, OutcomeFile), fmt.Sprintf("{\n\"schema\": 1, \"scenario\": %q, \"backend\": \"sim\", \"seed\": 1, \"code\": 1,\n\"judgements\": []}", id))
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		write(t, path, string(got))
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs: check the change and, if it is right, run with -update:\n%s", name, got)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// body returns a page without styles and scripts, because these may change without affecting the content.
func body(page string) []byte {
	return []byte(page[strings.Index(page, "<body>"):strings.Index(page, "<script>")])
}

// TestGolden compares the report on a suite with every kind of result to golden files.
func TestGolden(t *testing.T) {
	store := t.TempDir()
	storeReports(t, store, "pause", "pause/fenced", "surprise")
	dir, err := Write(fullSuite(store))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "suite.md", []byte(read(t, filepath.Join(dir, TextFile))))
	page := read(t, filepath.Join(dir, PageFile))
	golden(t, "suite.html", body(page))
	golden(t, "outcome.json", []byte(read(t, filepath.Join(dir, OutcomeFile))))
	for _, word := range []string{"is safe", "proven", store} {
		if strings.Contains(page, word) {
			t.Errorf("the page contains %q", word)
		}
	}
	if redrawn, err := Redraw(dir); err != nil || redrawn.Headline() != fullSuite(store).Headline() {
		t.Errorf("after Redraw, the headline differs: %v", err)
	}
	if read(t, filepath.Join(dir, PageFile)) != page {
		t.Error("Redraw changed the page")
	}
}

// The report does not depend on the order of the outcomes.
func TestReportIsIndependentOfOrder(t *testing.T) {
	store := t.TempDir()
	a, b := newSuite(store), newSuite(store)
	a.Seeds, b.Seeds = 40, 40
	for _, s := range []*Suite{a, b} {
		for _, name := range []string{"one", "two"} {
			s.Scenarios = append(s.Scenarios, &Scenario{Name: name, Claim: "Mutual exclusion holds."})
		}
	}
	var all []outcome.Outcome
	for seed := range uint64(40) {
		for _, name := range []string{"one", "two"} {
			got, code := verdict.Holds, 0
			if seed%8 == 3 {
				got, code = verdict.Violated, 1
			}
			all = append(all, storedRun(store, name, seed, code, judgement(verdict.MutualExclusion, "holds", got, "", code == 0)))
		}
	}
	for i := range all {
		a.Add(all[i])
		b.Add(all[len(all)-1-i])
	}
	none := func(string) bool { return false }
	var x, y bytes.Buffer
	writeMarkdown(&x, newView(a, nil, none))
	writeMarkdown(&y, newView(b, nil, none))
	if x.String() != y.String() {
		t.Errorf("the report depends on the order of the outcomes:\n%s\n%s", x.String(), y.String())
	}
	if want := markdown("violated in " + outcome.Rate(5, 40) + "; not as expected in 5 of 40"); !strings.Contains(x.String(), want) {
		t.Errorf("the report does not contain %q:\n%s", want, x.String())
	}
	if len(a.Outcomes) > 2*outcome.MaxQuoted {
		t.Errorf("suite contains %d of 80 outcomes, want at most %d", len(a.Outcomes), 2*outcome.MaxQuoted)
	}
}

// The report includes the latest suite of another backend, with links to its runs.
func TestReportIncludesOtherBackends(t *testing.T) {
	store := t.TempDir()
	storeReports(t, store, "pause")
	real := newSuite(store)
	real.Backend, real.StartTime = "process", real.StartTime.Add(-time.Hour)
	o := storedRun(store, "pause", 1, 0, judgement(verdict.ResourceSafety, "holds", verdict.Holds, "", true))
	o.Backend = "process"
	real.Add(o)
	real.Add(outcome.Outcome{Schema: 1, Scenario: "other", Backend: "process", Skipped: "no power loss"})
	if _, err := Write(real); err != nil {
		t.Fatal(err)
	}
	dir, err := Write(fullSuite(store))
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, filepath.Join(dir, TextFile))
	for _, want := range []string{"| scenario | backend |", "| [pause](../../pause/20260102T030405.000Z-sim-1/report.html\\#verdict) | process |", "The rows for process are from its suite started 2026-01-02 02:04:05 UTC"} {
		if !strings.Contains(text, strings.ReplaceAll(want, `\#`, "#")) {
			t.Errorf("the report does not contain %q:\n%s", want, text)
		}
	}
}

// Text in outcome.json is untrusted and must be escaped.
func TestSuiteEscapesText(t *testing.T) {
	store := t.TempDir()
	evil := "<script>alert(1)</script>|`\x1b[31m\u202e\"'\xff](javascript:alert(2))" + strings.Repeat("x", 1<<20)
	s := newSuite(store)
	s.Scenarios = []*Scenario{{Name: evil, Claim: evil, Source: evil}, {Name: "b"}}
	o := outcome.Outcome{Schema: 1, Scenario: evil, Code: 1, Error: evil, Command: evil, RetryReasons: []string{evil},
		Judgements: []outcome.Judgement{{Property: verdict.MutualExclusion, Expected: evil, Got: verdict.Violated, Cause: evil, Node: evil, Because: evil}}}
	s.Scenarios[0].Dir = "javascript:alert(3)//"
	s.Add(o)
	s.Scenarios[0].Dir = "../../x/../../../etc"
	s.Command, s.Version, s.Backend = evil, evil, evil
	dir, err := Write(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{PageFile, TextFile} {
		text := read(t, filepath.Join(dir, file))
		for _, bad := range []string{"<script>alert", "\x1b", "\u202e", "\xff", `href="javascript:`, "etc/"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s contains %q", file, bad)
			}
		}
		if len(text) > 1<<18 {
			t.Errorf("%s has %d bytes, want at most 256 KiB", file, len(text))
		}
	}
	for line := range strings.Lines(read(t, filepath.Join(dir, TextFile))) {
		if strings.HasPrefix(line, "| ") && strings.Contains(line, "script") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") > 9 {
			t.Errorf("an unescaped pipe adds a cell: %.200s", line)
		}
	}
}

// The report states that the suite was interrupted. If writing to the store fails, the error suggests a
// remedy.
func TestInterruptedSuite(t *testing.T) {
	store := t.TempDir()
	s := newSuite(store)
	s.Scenarios, s.Interrupted = []*Scenario{{Name: "a"}, {Name: "b"}}, true
	dir, err := Write(s)
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, filepath.Join(dir, TextFile))
	if !strings.Contains(text, "Interrupted after 0 of 7 runs") || strings.Contains(text, "no violation found") || !strings.Contains(text, "2 not run on sim: the suite ended earlier: a, b") {
		t.Errorf("the report does not describe the interruption:\n%s", text)
	}
	file := filepath.Join(store, "file")
	write(t, file, "")
	s.Store = file
	if _, err := Write(s); err == nil || !strings.Contains(err.Error(), "--store") {
		t.Errorf("Write into a file: error is %v, want it to mention --store", err)
	}
	for _, bad := range []string{"{}", "{\"schema\": 1}", "[", "{\"schema\": 1, \"scenarios\": [null]}"} {
		write(t, filepath.Join(dir, OutcomeFile), bad)
		if _, err := Open(dir); err == nil {
			t.Errorf("Open accepted %s", bad)
		}
	}
}

// The report on a suite with many seeds has images of the results by seed and of the violation rates.
func TestSeedImages(t *testing.T) {
	s := &Suite{Store: t.TempDir(), Seed: 7, Seeds: 3, Scenarios: []*Scenario{{Name: "a", Variant: "b"}}}
	for seed, got := range map[uint64]verdict.Outcome{9: verdict.Violated, 7: verdict.Holds} {
		s.Add(outcome.Outcome{Schema: 1, Scenario: "a/b", Seed: seed, Judgements: []outcome.Judgement{
			{Property: verdict.MutualExclusion, Expected: "any", Got: got, AsExpected: true}}})
	}
	dir, err := Write(s)
	if err != nil {
		t.Fatal(err)
	}
	if want := ". v"; s.Scenarios[0].States != want {
		t.Errorf("seed states are %q, want %q", s.Scenarios[0].States, want)
	}
	for name, mark := range map[string]string{"seeds-a+b.svg": `class="grid"`, "rates-mutual-exclusion.svg": "rates-"} {
		if !strings.Contains(read(t, filepath.Join(dir, name)), "</svg>") || !strings.Contains(read(t, filepath.Join(dir, PageFile)), mark) {
			t.Errorf("%s is missing or not on the page", name)
		}
	}
	redrawn, err := Redraw(dir)
	if err != nil || len(redrawn.Rates) != 1 || redrawn.Scenarios[0].Seeds == "" {
		t.Errorf("after Redraw, images are missing: %v, %v", redrawn, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "rates-resource-safety.svg")); err == nil {
		t.Error("there is an image for a property that was not judged")
	}
}
