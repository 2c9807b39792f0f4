package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/scenario"
	"lockpick/reports"
	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// report collects the outcomes of runs, reports them in the order of the catalog, and shows
// progress.
type report struct {
	*app
	ci        *ci
	flags     *runFlags
	startTime time.Time

	mu                sync.Mutex
	numRuns           int
	numEnded          int
	numExamples       int // number of example runs to store
	numStoredExamples int
	recentEnds        []time.Time             // end times of the latest runs, for timeLeft
	pendingOutcomes   map[int]outcome.Outcome // outcomes not yet reported, by index of the run
	nextRun           int                     // index of the next run to report
	stateCounts       map[string]int          // number of ended runs by state
	skippedOutcomes   []outcome.Outcome
	comparer          campaign.VariantComparer
	console           suites.Console
	progress          *display.Progress // may be nil
	onFailure         func()            // called after an unexpected or failed run; may be nil
	lastRunDir        string            // directory of the run that ended last
	pagePath          string            // path that finish prints
	suite             *suites.Suite
}

// newReport returns a report for the chosen scenarios. names are the command-line arguments.
func newReport(a *app, f *runFlags, ci *ci, picks []pick, names []string) *report {
	r := &report{app: a, ci: ci, flags: f, startTime: time.Now(), pendingOutcomes: map[int]outcome.Outcome{}, stateCounts: map[string]int{}}
	r.suite = f.newSuite(picks, names, r.startTime)
	r.console = suites.Console{W: a.out, Suite: r.suite, Named: f.named, Verbose: f.verbose, Quiet: f.quiet, JSON: f.json, Diagram: diagram,
		Erase: func() { r.progress.Erase() }}
	return r
}

func (r *report) addSkipped(s scenario.Scenario, missing []harness.Capability) {
	o := outcome.Outcome{Schema: 1, Scenario: s.ID(), Backend: r.flags.backend, Skipped: campaign.MissingReasons(missing)}
	if r.isRequired(missing) || slices.ContainsFunc(missing, func(c harness.Capability) bool { return c.Unknown }) {
		o.Code = outcome.ExitBackend
	}
	r.skippedOutcomes = append(r.skippedOutcomes, o)
}

func (r *report) isRequired(missing []harness.Capability) bool {
	if missing[0].Name == campaign.LockUnsupported || missing[0].Name == campaign.NodesUnsuitable { // on every machine
		return false
	}
	return slices.Contains(r.flags.requiredCapabilities, "all") || slices.ContainsFunc(missing, func(c harness.Capability) bool {
		return slices.Contains(r.flags.requiredCapabilities, c.Name)
	})
}

// addOutcome adds the outcome of the i-th run, and reports all outcomes whose predecessors in the
// catalog have been reported.
func (r *report) addOutcome(i int, o outcome.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pendingOutcomes[i] = o
	r.numEnded++
	r.recentEnds = append(r.recentEnds[max(0, len(r.recentEnds)-recentRuns+1):], time.Now())
	r.lastRunDir = o.Dir
	for _, i := range r.comparer.Settle(r.pendingOutcomes, i) {
		r.code = outcome.WorseCode(r.code, r.pendingOutcomes[i].Code)
		s := r.pendingOutcomes[i].State()
		r.stateCounts[s]++
		if r.onFailure != nil && (s == outcome.StateUnexpected || s == outcome.StateFailed) {
			r.onFailure()
		}
	}
	for {
		o, ok := r.pendingOutcomes[r.nextRun]
		if !ok || r.comparer.IsWaiting(r.nextRun) {
			return
		}
		delete(r.pendingOutcomes, r.nextRun)
		r.nextRun++
		r.suite.Add(o)
		r.emit(o)
	}
}

func (r *report) emit(o outcome.Outcome) {
	r.ci.tally.Add(o)
	r.console.Add(o)
}

// diagram returns a run's stored sequence diagram. For other than the default width, it redraws it.
func diagram(o outcome.Outcome, width int) string {
	text := sequenceText(o)
	if text != "" && width != display.DefaultWidth {
		if s, err := campaign.OpenStored(o.Dir, storedNames()); err == nil {
			return sequence.Text(sequence.ForVerdict(s.History, checker.Check(s.History)), width)
		}
	}
	return text
}

// finish prints the result, writes the files, and sets the exit code.
func (r *report) finish(ctx context.Context) error {
	cause := context.Cause(ctx)
	defer func() {
		if r.pagePath != "" && context.Cause(ctx) != errOutputClosed {
			fmt.Fprintf(r.errOut, "report: %s\n", r.pagePath)
		}
	}()
	for _, o := range r.skippedOutcomes {
		r.code = outcome.WorseCode(r.code, o.Code)
	}
	if r.numRuns == 0 && len(r.skippedOutcomes) > 0 {
		r.code = outcome.WorseCode(r.code, outcome.ExitBackend)
	}
	switch {
	case cause == errOutputClosed:
		r.code = outcome.WorseCode(r.code, outcome.ExitBackend)
	case cause != nil:
		r.code = outcome.ExitInterrupt
		fmt.Fprintf(r.errOut, "%v after %d of %d runs; completed runs are in %s\n", cause, r.numEnded-r.stateCounts[outcome.StateInterrupted], r.numRuns, r.flags.store)
	case r.numEnded < r.numRuns:
		fmt.Fprintf(r.errOut, "stopped after the first unexpected run: %d of %d runs done\n", r.numEnded, r.numRuns)
	}
	for _, i := range slices.Sorted(maps.Keys(r.pendingOutcomes)) { // outcomes of runs after one that did not end
		if !r.comparer.IsWaiting(i) {
			r.suite.Add(r.pendingOutcomes[i])
		}
		r.emit(r.pendingOutcomes[i])
	}
	for _, o := range r.skippedOutcomes {
		r.emit(o)
	}
	if err := r.ci.render(); err != nil {
		return err
	}
	if err := r.store(r.numEnded < r.numRuns || r.stateCounts[outcome.StateInterrupted] > 0); err != nil {
		defer r.printError(err) // after the result, which is not affected
		r.code = outcome.WorseCode(r.code, exitCode(err))
	}
	err := r.ci.finish(r.errOut)
	if r.code = outcome.WorseCode(r.code, exitCode(err)); err != nil && !r.flags.json {
		return err
	}
	return cmp.Or(r.console.Finish(r.code), err)
}

// progressText returns how many runs are done and an estimate of the remaining time.
func (r *report) progressText(elapsed time.Duration) string {
	if r.numExamples > 0 {
		return fmt.Sprintf("%d runs done, %.0f s, %d of %d examples stored", r.numEnded, elapsed.Seconds(), r.numStoredExamples, r.numExamples)
	}
	parts := []string{fmt.Sprintf("%d of %d runs done", r.numEnded, r.numRuns)}
	for _, state := range []string{outcome.StateUnexpected, outcome.StateUndecided, outcome.StateFailed, outcome.StateInterrupted} {
		if n := r.stateCounts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome.StateText(state)))
		}
	}
	parts = append(parts, fmt.Sprintf("%.0f s", elapsed.Seconds()))
	if remaining, ok := r.timeLeft(time.Now()); ok {
		parts = append(parts, fmt.Sprintf("about %.0f s left", remaining.Seconds()))
	}
	return strings.Join(parts, ", ")
}

// recentRuns is the number of runs from which timeLeft estimates the remaining time.
const recentRuns = 20

// timeLeft estimates the remaining time from the durations of recent runs and the time since the
// last one ended.
func (r *report) timeLeft(now time.Time) (time.Duration, bool) {
	n := len(r.recentEnds)
	if n < 2 {
		return 0, false
	}
	perRun := r.recentEnds[n-1].Sub(r.recentEnds[0]) / time.Duration(n-1)
	perRun = max(perRun, now.Sub(r.recentEnds[0])/time.Duration(n)) // if no run has ended for longer than usual
	return perRun * time.Duration(r.numRuns-r.numEnded), true
}

// newSuite returns a suite that lists all chosen scenarios, so that its page includes those without
// an outcome.
func (f *runFlags) newSuite(picks []pick, names []string, started time.Time) *suites.Suite {
	s := &suites.Suite{Backend: f.backend, FirstSeed: f.seed, Seeds: f.seeds, StartTime: started.UTC(), Command: f.suiteCommand(names), Version: version(),
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Overrides: f.settings, Store: f.store}
	for _, p := range picks {
		c := &suites.Scenario{Name: p.Name, Variant: p.Variant, Claim: p.Claim, Source: p.Source, Tags: p.Tags}
		for _, property := range checker.Properties() {
			if e, ok := p.Expect[property]; ok && e.LeadProperty == "" {
				c.Expect = append(c.Expect, property+" "+e.String())
			}
		}
		s.Scenarios = append(s.Scenarios, c)
	}
	return s
}

func (f *runFlags) suiteCommand(names []string) string {
	c := "lockpick run"
	for _, n := range names {
		c += " " + quote(n)
	}
	for _, t := range f.tags {
		c += " --tag " + quote(t)
	}
	c += fmt.Sprintf(" --seed %d", f.seed)
	if f.seeds > 1 {
		c += fmt.Sprintf(" --seeds %d", f.seeds)
	}
	return c + f.overrideFlags()
}

// store writes the suite, if it has more than one run, updates the store's index, and removes old
// runs.
func (r *report) store(interrupted bool) error {
	s := r.suite
	if len(s.Scenarios) > 1 || s.Seeds > 1 {
		s.Seconds, s.Code, s.PlannedRuns, s.Interrupted = time.Since(r.startTime).Seconds(), r.code, r.numRuns, interrupted
		for _, o := range r.skippedOutcomes {
			s.Add(o)
		}
		dir, err := suites.Write(s, suites.File{Name: reports.JUnitFile, Text: r.ci.junit.Bytes()})
		if err != nil {
			return storeError(err)
		}
		r.pagePath = dir + "/" + suites.PageFile
	} else if r.lastRunDir != "" {
		r.pagePath = r.lastRunDir + "/" + reports.PageFile
	}
	if err := suites.Index(r.flags.store); err != nil {
		return storeError(err)
	}
	if r.flags.maxStoredRuns == 0 {
		return nil
	}
	return gc(io.Discard, r.flags.store, suites.Retention{MaxCount: r.flags.maxStoredRuns}, false)
}
