//go:build long

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lockpick/reports"
	"lockpick/reports/suites"
)

// axe-core finds accessibility problems in a page.
const (
	axeFile = "testdata/axe/axe.min.js"
	axeSum  = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
)

// shortenHistory removes all but the first rows of the history, which are similar, because axe examines
// every row. It expands collapsed sections.
const shortenHistory = `document.querySelectorAll('#events tbody tr:nth-child(n+60)').forEach((r) => r.remove()),
	document.querySelectorAll('#unfold:not([hidden])').forEach((b) => b.click()), document.querySelectorAll('details').forEach((d) => { d.open = true; })`

// overflowingElements lists elements that extend beyond the window and that a user can't scroll to.
const overflowingElements = `((width) => [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > width + 1 && !e.closest('nav,.wide,.scroll,pre,svg,.timeline,.plots[tabindex],.skip,thead')).map(e => e.outerHTML.slice(0, 120)).join())(%d)`

// axeScript stores axe's findings, with rules and elements, in window.axed.
const axeScript = `axe.run(document, { resultTypes: ['violations'] }).then((r) => { window.axed = r.violations.map((v) =>
	v.id + ' (' + v.help + '): ' + v.nodes.slice(0, 5).map((n) => n.target.join(' ') + ' ' + n.html.slice(0, 120) + ' ' + n.any.map((c) => c.message).join('; ')).join('\n    ')); }, (e) => { window.axed = [String(e)]; }), 0`

// testAxe checks pages with axe. The function modes selects the window sizes and color schemes.
func testAxe(t *testing.T, browser context.Context, pages map[string]string) {
	script, err := os.ReadFile(axeFile)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(script)); got != axeSum {
		t.Fatalf("%s has the SHA-256 %s, want %s", axeFile, got, axeSum)
	}
	for i, name := range slices.Sorted(maps.Keys(pages)) {
		file := pages[name]
		for _, m := range modes(i) {
			width, scheme := m.width, m.scheme
			t.Run(fmt.Sprintf("%s/%d/%s", name, width, scheme), func(t *testing.T) {
				t.Parallel()
				b := newTab(t, browser)
				b.setWindow(width, 900, scheme)
				b.openFile(file, "")
				b.expectValue(fmt.Sprintf(overflowingElements, width), "")
				b.expectValue(`document.documentElement.scrollWidth`, width)
				b.screenshot(fmt.Sprintf("axe-%s-%d-%s", name, width, scheme), true)
				b.evaluate(shortenHistory)
				b.evaluate(string(script) + ";0")
				b.evaluate(axeScript)
				b.waitUntil(`window.axed`)
				for _, violation := range b.evaluate(`window.axed`).([]any) {
					t.Error(violation)
				}
			})
		}
	}
}

// TestPageAccessibility checks a report of each outcome, a suite, a sweep, an index and an export with axe.
func TestPageAccessibility(t *testing.T) {
	browser := startBrowser(t)
	store, sweepStore := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "dice")
	wrongFile, undecidedFile := filepath.Join(t.TempDir(), "wrong.yaml"), filepath.Join(t.TempDir(), "never-comes.yaml")
	must(t, os.WriteFile(undecidedFile, []byte(undecidedRun), 0o644))
	must(t, os.WriteFile(wrongFile, []byte(unexpectedRun), 0o644))
	lockpickExits(t, 1, "run", "--store", store, "--reports", "all", wrongFile, undecidedFile, "gc-pause-after-acquire", "gc-like-pauses/", "lost-packets", "baseline", "clock-jump",
		"restart-forgets", "delayed-restart", "failover-loses-lock")
	lockpick(t, "run", "--store", sweepStore, "random-faults/", "--seeds", "20")
	suite, sweep := suites.SuiteDirs(store)[0]+"/"+suites.PageFile, filepath.Join(sweepStore, suites.Folder, "latest", suites.PageFile)
	lockpickExits(t, 1, "scorecard", "--store", store, "--tag", "score", "redislock", "rueidis")
	lockpickExits(t, 1, "assess", "--store", store, "--lock", "redlock", "--nodes", "3", "--hazard", "pause,restart,partition", "--compare", "ttl=30s", "--seeds", "2")
	assessments, err := filepath.Glob(filepath.Join(store, suites.AssessmentFolder, "*", suites.AssessmentPage))
	if err != nil || len(assessments) != 1 {
		t.Fatal(assessments, err)
	}
	export := filepath.Join(t.TempDir(), "export.html")
	lockpick(t, "export", filepath.Dir(suite), "-o", export)
	for range 2 { // more runs than a page of the index lists
		lockpick(t, "run", "--store", store, "baseline", "--quiet")
	}
	pages := map[string]string{"assessment": assessments[0], "export": export, "suite": suite, "sweep": sweep, "index": filepath.Join(store, suites.IndexFile), "scorecards": filepath.Join(store, suites.ScoreFolder, "latest", suites.ScoreFile)}
	reportNames := []string{"failover-loses-lock", "never-comes", "wrong"}
	if night {
		reportNames = append(reportNames, "gc-like-pauses") // a long page
	}
	for _, name := range reportNames {
		pages["report-"+name] = filepath.Join(store, name, "latest", reports.PageFile)
	}
	t.Run("axe", func(t *testing.T) { testAxe(t, browser, pages) })
	t.Run("filters", func(t *testing.T) { testSuiteFilters(t, browser, suite) })
	t.Run("pages", func(t *testing.T) { testIndexPages(t, browser, filepath.Join(store, suites.IndexFile)) })
	t.Run("export", func(t *testing.T) { testExport(t, browser, export) })
	t.Run("seeds", func(t *testing.T) { testSeeds(t, browser, sweep) })
}

// unexpectedRun is a scenario with one expected violation that does not occur and one unexpected
// violation that does.
const unexpectedRun = `
name: wrong
claim: A client that is paused between its validity check and its write does no damage.
source: the harness itself
topology: {nodes: 5, persistence: none}
lock: {kind: redlock, ttl: 10s, drift: 1%, timeout: 50ms, retry: 50ms..250ms}
clients: 2
workload: {kind: read-modify-write, keys: 1, fence: none, think: 50ms..500ms, hold: 100ms..2s, for: 30s}
plan:
  - when: {client: c1, point: between-check-and-write, nth: 2}
    fault: {kind: pause, targets: [c1], for: 15s}
expect: {mutual-exclusion: violated, resource-safety: holds}
`
