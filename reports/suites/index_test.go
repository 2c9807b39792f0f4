package suites

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

func TestIndex(t *testing.T) {
	store := t.TempDir()
	storeReports(t, store, "pause", "pause/fenced", "<script>alert(1)<")
	if err := os.MkdirAll(filepath.Join(store, "pause", "20260102T030406.000Z-process-7"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(store, "suites", "20260102T030405.000Z-sim-1", runPage), "a scenario may be called suites")
	write(t, filepath.Join(store, "notes", "mine.txt"), "not part of the store")
	if _, err := Write(fullSuite(store)); err != nil {
		t.Fatal(err)
	}
	if err := Index(store); err != nil {
		t.Fatal(err)
	}
	page := read(t, filepath.Join(store, IndexFile))
	for _, want := range []string{
		`href="suites/20260102T030405.000Z/suite.html"`, `href="pause&#43;fenced/20260102T030405.000Z-sim-1/report.html"`,
		"1 of these runs has no report yet", "no outcome", "1 suite, 5 runs", "&lt;script&gt;alert",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the index does not contain %q:\n%s", want, page)
		}
	}
	for _, bad := range []string{"<script>alert", "mine.txt", store} {
		if strings.Contains(page, bad) {
			t.Errorf("the index contains %q", bad)
		}
	}
	golden(t, "index.html", body(page))
}

// If several processes write to a store at the same time, no suites or runs are lost and no unfinished
// files remain.
func TestConcurrentWrites(t *testing.T) {
	store := t.TempDir()
	var both sync.WaitGroup
	for who := range 2 {
		both.Go(func() {
			for n := range 20 {
				dir := filepath.Join(store, fmt.Sprintf("s%d", who), fmt.Sprintf("20260102T0304%02d.000Z-sim-%d", n, who))
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Error(err)
				}
				s := newSuite(store) // all suites start in the same millisecond
				s.Add(storedRun(store, "pause", 1, 0, judgement(verdict.MutualExclusion, "holds", verdict.Holds, "", true)))
				if _, err := Write(s); err != nil {
					t.Error(err)
				}
				if err := Index(store); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	page := read(t, filepath.Join(store, IndexFile))
	if n := strings.Count(page, `<tr data-scenario="lockpick run`); n != 40 || len(SuiteDirs(store)) != 40 {
		t.Errorf("index lists %d of 40 suites, store contains %d", n, len(SuiteDirs(store)))
	}
	if n := strings.Count(page, "data-outcome=") - 40; n != 40 {
		t.Errorf("index lists %d of 40 runs", n)
	}
	left, err := filepath.Glob(filepath.Join(store, ".new-*"))
	below, _ := filepath.Glob(filepath.Join(store, Folder, ".new-*"))
	if err != nil || len(left)+len(below) > 0 {
		t.Errorf("unfinished files remain: %v %v %v", left, below, err)
	}
	if to, err := os.Readlink(filepath.Join(store, Folder, "latest")); err != nil || !suiteDirPattern.MatchString(to) {
		t.Errorf("latest links to %q, %v", to, err)
	}
}

// If a store has more than a thousand runs, the index lists only the newest.
func TestIndexLimit(t *testing.T) {
	store := t.TempDir()
	long := strings.Repeat("x", 1<<16)
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for n := range maxRuns + 200 {
		dir := filepath.Join(store, fmt.Sprintf("s%d", n%7), begin.Add(time.Duration(n)*time.Second).Format(stampLayout)+"-sim-1")
		write(t, filepath.Join(dir, OutcomeFile), fmt.Sprintf(`{"schema": 1, "scenario": "s", "backend": "sim", "seed": 1, "code": 2, "judgements": [%q]}`, long[:1+n%len(long)]))
	}
	if err := Index(store); err != nil {
		t.Fatal(err)
	}
	page := read(t, filepath.Join(store, IndexFile))
	if n := strings.Count(page, `data-outcome="undecided"`); n != maxRuns || !strings.Contains(page, "only the newest 1000 runs are listed") {
		t.Errorf("index lists %d runs, want %d and a note", n, maxRuns)
	}
	if strings.Contains(page, formatTime(begin)) {
		t.Error("index lists the oldest run")
	}
}

// The index lists assessments, fuzzing and model checks with what they found, each at the time it ended. It
// links only to what exists.
func TestIndexListsCampaigns(t *testing.T) {
	store := fullStore(t)
	write(t, filepath.Join(store, AssessmentFolder, "20260103T000000.000Z", AssessmentPage), "a page")
	write(t, filepath.Join(store, AssessmentFolder, "20260103T000000.000Z", AssessmentJSON), `{"headline": "<b>mylock</b> is risky", "code": 1}`)
	write(t, filepath.Join(store, AssessmentFolder, "20260104T000000.000Z", AssessmentPage), "a page without data")
	write(t, filepath.Join(store, AssessmentFolder, "20260105T000000.000Z", AssessmentJSON), `{"headline": "unfinished"}`)
	found := filepath.Join("sim-late", "20260102T030405.000Z-sim-7")
	write(t, filepath.Join(store, found, runManifest), "{}")
	write(t, filepath.Join(store, found, runPage), "a page")
	write(t, filepath.Join(store, corpusFolder, "late.yaml"), "name: late")
	write(t, filepath.Join(store, fuzzFolder, "random-redsync-0123abcd", fuzzJSON), `{"scenarios": ["a", "b"], "runs": 75, "finds": [
		{"property": "mutual-exclusion", "cause": "overlap", "runs": 2, "held": true, "dir": "elsewhere/`+filepath.ToSlash(found)+`", "file": "elsewhere/corpus/late.yaml"},
		{"property": "bounded-hold", "runs": 1, "dir": "`+filepath.ToSlash(store)+`/gone/20260102T030405.000Z-sim-1", "file": "gone.yaml"}]}`)
	write(t, filepath.Join(store, fuzzFolder, "broken-0123abcd", fuzzJSON), "[")
	write(t, filepath.Join(store, modelFolder, "sim-late.yaml"), "name: sim-late")
	write(t, filepath.Join(store, modelFolder, "without-run.yaml"), "name: without-run")
	if err := Index(store); err != nil {
		t.Fatal(err)
	}
	page := read(t, filepath.Join(store, IndexFile))
	for _, want := range []string{
		`<a href="assessments/20260103T000000.000Z/assess.html">2026-01-03 00:00:00 UTC</a></th><td data-label="kind">assessment</td><td data-label="outcome" class="alarm">`, "&lt;b&gt;mylock&lt;/b&gt; is risky",
		`<a href="assessments/20260104T000000.000Z/assess.html">`, "random-redsync <span class=\"detail\">2 scenarios, 75 runs</span>",
		`<li><a href="sim-late/20260102T030405.000Z-sim-7/report.html">mutual-exclusion (overlap) in 2 runs</a> (<a href="corpus/late.yaml">minimal scenario</a>)</li><li>bounded-hold in 1 run</li>`,
		`<td data-label="kind">model check</td>`, `<a href="sim-late/20260102T030405.000Z-sim-7/report.html">the violation, replayed</a> (<a href="exhaust/sim-late.yaml">minimal scenario</a>)`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the index does not contain %q:\n%s", want, page)
		}
	}
	for _, bad := range []string{"20260105T", "without-run", "gone", "broken"} {
		if strings.Contains(page, bad) {
			t.Errorf("the index contains %q", bad)
		}
	}
	if newer, older := strings.Index(page, "20260104T"), strings.Index(page, "20260103T"); newer > older {
		t.Error("the older assessment is listed first")
	}
}

// A suite's state in the index is right even if nothing ran or the suite did not complete.
func TestSuiteState(t *testing.T) {
	for want, s := range map[string]Suite{
		outcome.StateSkipped:     {Code: outcome.ExitBackend, Counts: map[string]int{outcome.StateSkipped: 3}},
		outcome.StateFailed:      {Code: outcome.ExitBackend, Counts: map[string]int{outcome.StateSkipped: 3, outcome.StateFailed: 1}},
		outcome.StateInterrupted: {Code: outcome.ExitInterrupt, Counts: map[string]int{outcome.StateAsExpected: 1, outcome.StateInterrupted: 1}},
		outcome.StateAsExpected:  {Counts: map[string]int{outcome.StateAsExpected: 1, outcome.StateSkipped: 3}},
	} {
		s.Store, s.StartTime, s.Backend = t.TempDir(), time.Now(), "sim"
		dir, err := Write(&s)
		if err != nil {
			t.Fatal(err)
		}
		if got := readHeader(dir).state(); got != want {
			t.Errorf("with code %d and counts %v, the state is %q, want %q", s.Code, s.Counts, got, want)
		}
	}
}
