package suites

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

const (
	linkToIndex = `<a href="../../index.html">All results</a>`
	linkToSuite = ` <a href="../../suites/20260102T030405.000Z/suite.html">Suite of this run</a>`
)

// writeRunPage writes the page of a run that was drawn before any page that lists the run existed.
func writeRunPage(t *testing.T, dir string) string {
	t.Helper()
	page := filepath.Join(dir, runPage)
	write(t, page, "<nav><p class=\"back\" id=\"back\"></p>\n</nav><p>&lt;p class=&#34;back&#34; id=&#34;back&#34;&gt;</p>\n")
	return page
}

// A run's page links to the index, and to its suite as long as the suite exists.
func TestRunLinksToItsSuite(t *testing.T) {
	store := t.TempDir()
	write(t, filepath.Join(store, IndexFile), "an index")
	inSuite := filepath.Join(store, "pause", "20260102T030405.000Z-sim-1")
	page, other := writeRunPage(t, inSuite), writeRunPage(t, filepath.Join(store, "pause", "20260102T030406.000Z-sim-2"))
	before := read(t, page)
	s := newSuite(store)
	s.Add(storedRun(store, "pause", 1, 0, judgement(verdict.MutualExclusion, "holds", verdict.Holds, "", true)))
	dir, err := Write(s)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, page), strings.Replace(before, `id="back"></p>`, `id="back">`+linkToIndex+linkToSuite+`</p>`, 1); got != want {
		t.Errorf("the page is %q, want %q", got, want)
	}
	if got := read(t, other); got != before {
		t.Errorf("the page of a run that is not in the suite is %q, want it unchanged", got)
	}
	if err := os.Symlink(filepath.Base(inSuite), filepath.Join(store, "pause", "latest")); err != nil {
		t.Fatal(err)
	}
	for run, want := range map[string]string{inSuite: linkToIndex + linkToSuite, filepath.Join(store, "pause", "latest"): linkToIndex + linkToSuite, filepath.Dir(other): linkToIndex} {
		if got := string(BackLinks(run)); got != want {
			t.Errorf("the links of %s are %q, want %q", run, got, want)
		}
	}
	if err := Remove(store, []Excess{{Dir: Folder + "/" + filepath.Base(dir)}}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, page); !strings.Contains(got, `id="back">`+linkToIndex+`</p>`) {
		t.Errorf("after its suite was removed, the page is %q", got)
	}
}

// A suite merged from shards is newer than its runs.
func TestRunLinksToMergedSuite(t *testing.T) {
	store := t.TempDir()
	run := filepath.Join(store, "pause", "20251231T000000.000Z-sim-1")
	writeRunPage(t, run)
	s := newSuite(store)
	o := storedRun(store, "pause", 1, 0, judgement(verdict.MutualExclusion, "holds", verdict.Holds, "", true))
	o.Dir = run
	s.Add(o)
	for range 3 { // the last two refer to it as well
		if _, err := Write(s); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(BackLinks(run)); got != strings.TrimSpace(linkToSuite) {
		t.Errorf("links are %q, want the oldest suite", got)
	}
}

// The run of a scorecard links to the scorecards. A run elsewhere has no links.
func TestLinksOfOtherRuns(t *testing.T) {
	store := t.TempDir()
	cards := filepath.Join(store, ScoreFolder, "20260102T030405.000Z")
	run := filepath.Join(cards, RunFolder, "1-1-pause")
	page := writeRunPage(t, run)
	write(t, filepath.Join(cards, ScoreFile), "scorecards")
	write(t, filepath.Join(store, IndexFile), "an index")
	if err := LinkRun(run); err != nil {
		t.Fatal(err)
	}
	want := `id="back"><a href="../../../../index.html">All results</a> <a href="../../../../scores/20260102T030405.000Z/score.html">Scorecards of this run</a></p>`
	if got := read(t, page); !strings.Contains(got, want) {
		t.Errorf("the page is %q, want %q in it", got, want)
	}
	if got := BackLinks(t.TempDir()); got != "" {
		t.Errorf("the links of a directory outside a store are %q", got)
	}
	if err := LinkRun(filepath.Join(store, "gone")); err != nil {
		t.Errorf("a run that was removed: %v", err)
	}
}

// A run that an assessment shows links to it. gc does not remove the run before the assessment, nor an
// assessment in progress.
func TestRunLinksToItsAssessment(t *testing.T) {
	store := t.TempDir()
	run := filepath.Join(store, "pause", "20260102T030405.000Z-sim-1")
	page := writeRunPage(t, run)
	writeRunPage(t, filepath.Join(store, "pause", "20260102T030406.000Z-sim-1"))
	folder := filepath.Join(store, AssessmentFolder, "20260102T030404.000Z")
	for _, dir := range []string{folder, filepath.Join(store, AssessmentFolder, "20260101T030404.000Z")} { // the second is in progress
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a := &outcome.Assessment{RandomPlans: []outcome.RandomRuns{{Dir: "../../pause/20260102T030405.000Z-sim-1"}}}
	if err := WriteAssessment(folder, a); err != nil {
		t.Fatal(err)
	}
	link := `<a href="../../assessments/20260102T030404.000Z/assess.html">Assessment with this run</a>`
	if got := read(t, page); !strings.Contains(got, link) || string(BackLinks(run)) != link {
		t.Errorf("the page is %q and its links %q, want %q", got, BackLinks(run), link)
	}
	excess, err := FindExcess(store, Retention{MaxCount: 1})
	if err != nil || len(excess) > 0 {
		t.Errorf("to remove: %v, %v, want nothing", excess, err)
	}
	excess, err = FindExcess(store, Retention{MaxBytes: 1})
	if err != nil || len(excess) == 0 || excess[0].Dir != AssessmentFolder+"/20260102T030404.000Z" {
		t.Fatalf("to remove: %v, %v, want the assessment first", excess, err)
	}
	if err := Remove(store, excess[:1]); err != nil {
		t.Fatal(err)
	}
	if got := read(t, page); strings.Contains(got, "assess") {
		t.Errorf("after the assessment was removed, the page is %q", got)
	}
}
