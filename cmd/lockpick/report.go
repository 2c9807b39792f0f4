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
	ci      *ci
	flags   *runFlags
	started time.Time

	mu             sync.Mutex
	total          int
	ended          int
	examplesTotal  int // number of example runs to store
	examplesStored int
	recent         []time.Time             // end times of the latest runs, for timeLeft
	outcomes       map[int]outcome.Outcome // outcomes not yet reported, by index of the run
	passed         int                     // index of the next run to report
	states         map[string]int          // number of ended runs by state
	skipped        []outcome.Outcome
	compared       campaign.VariantComparer
	console        suites.Console
	live           *display.Progress // may be nil
	onFailure      func()            // called after an unexpected or failed run; may be nil
	dir            string            // directory of the run that ended last
	page           string            // path that finish prints
	suite          *suites.Suite
}

// newReport returns a report for the chosen scenarios. names are the command-line arguments.
func newReport(a *app, f *runFlags, ci *ci, chosen []pick, names []string) *report {
	r := &report{app: a, ci: ci, flags: f, started: time.Now(), outcomes: map[int]outcome.Outcome{}, states: map[string]int{}}
	r.suite = f.suiteOf(chosen, names, r.started)
	r.console = suites.Console{W: a.out, Suite: r.suite, Named: f.named, Verbose: f.verbose, Quiet: f.quiet, JSON: f.json, Diagram: diagram,
		Erase: func() { r.live.Erase() }}
	return r
}

func (r *report) skip(s scenario.Scenario, missing []harness.Capability) {
	o := outcome.Outcome{Schema: 1, Scenario: s.ID(), Backend: r.flags.backend, Skipped: campaign.MissingReasons(missing)}
	if r.required(missing) || slices.ContainsFunc(missing, func(c harness.Capability) bool { return c.Unknown }) {
		o.Code = outcome.ExitBackend
	}
	r.skipped = append(r.skipped, o)
}

func (r *report) required(missing []harness.Capability) bool {
	if missing[0].Name == campaign.LockUnsupported { // on every machine
		return false
	}
	return slices.Contains(r.flags.require, "all") || slices.ContainsFunc(missing, func(c harness.Capability) bool {
		return slices.Contains(r.flags.require, c.Name)
	})
}

// addOutcome adds the outcome of the i-th run, and reports all outcomes whose predecessors in the
// catalog have been reported.
func (r *report) done(i int, o outcome.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[i] = o
	r.ended++
	r.recent = append(r.recent[max(0, len(r.recent)-recentRuns+1):], time.Now())
	r.dir = o.Dir
	for _, i := range r.compared.Settle(r.outcomes, i) {
		r.code = outcome.WorseCode(r.code, r.outcomes[i].Code)
		s := r.outcomes[i].State()
		r.states[s]++
		if r.onFailure != nil && (s == outcome.Unexpected || s == outcome.Failed) {
			r.onFailure()
		}
	}
	for {
		o, ok := r.outcomes[r.passed]
		if !ok || r.compared.IsWaiting(r.passed) {
			return
		}
		delete(r.outcomes, r.passed)
		r.passed++
		r.suite.Add(o)
		r.pass(o)
	}
}

func (r *report) pass(o outcome.Outcome) {
	r.ci.tally.Add(o)
	r.console.Add(o)
}

// diagram returns a run's stored sequence diagram. For other than the default width, it redraws it.
func diagram(o outcome.Outcome, width int) string {
	text := sequenceOf(o)
	if text != "" && width != display.DefaultWidth {
		if s, err := campaign.OpenStored(o.Dir, storedNames()); err == nil {
			return sequence.Text(sequence.OfVerdict(s.History, checker.Check(s.History)), width)
		}
	}
	return text
}

// finish prints the result, writes the files, and sets the exit code.
func (r *report) finish(ctx context.Context) error {
	cause := context.Cause(ctx)
	defer func() {
		if r.page != "" && context.Cause(ctx) != errOutputClosed {
			fmt.Fprintf(r.errs, "report: %s\n", r.page)
		}
	}()
	for _, o := range r.skipped {
		r.code = outcome.WorseCode(r.code, o.Code)
	}
	if r.total == 0 && len(r.skipped) > 0 {
		r.code = outcome.WorseCode(r.code, outcome.ExitBackend)
	}
	switch {
	case cause == errOutputClosed:
		r.code = outcome.WorseCode(r.code, outcome.ExitBackend)
	case cause != nil:
		r.code = outcome.ExitInterrupt
		fmt.Fprintf(r.errs, "%v after %d of %d runs; completed runs are in %s\n", cause, r.ended-r.states[outcome.Interrupted], r.total, r.flags.store)
	case r.ended < r.total:
		fmt.Fprintf(r.errs, "stopped after the first unexpected run: %d of %d runs done\n", r.ended, r.total)
	}
	for _, i := range slices.Sorted(maps.Keys(r.outcomes)) { // outcomes of runs after one that did not end
		if !r.compared.IsWaiting(i) {
			r.suite.Add(r.outcomes[i])
		}
		r.pass(r.outcomes[i])
	}
	for _, o := range r.skipped {
		r.pass(o)
	}
	if err := r.ci.render(); err != nil {
		return err
	}
	if err := r.store(r.ended < r.total || r.states[outcome.Interrupted] > 0); err != nil {
		defer r.printError(err) // after the result, which is not affected
		r.code = outcome.WorseCode(r.code, exitCode(err))
	}
	err := r.ci.finish(r.errs)
	if r.code = outcome.WorseCode(r.code, exitCode(err)); err != nil && !r.flags.json {
		return err
	}
	return cmp.Or(r.console.Finish(r.code), err)
}

// progressText returns how many runs are done and an estimate of the remaining time.
func (r *report) progress(passed time.Duration) string {
	if r.examplesTotal > 0 {
		return fmt.Sprintf("%d runs done, %.0f s, %d of %d examples stored", r.ended, passed.Seconds(), r.examplesStored, r.examplesTotal)
	}
	parts := []string{fmt.Sprintf("%d of %d runs done", r.ended, r.total)}
	for _, state := range []string{outcome.Unexpected, outcome.Undecided, outcome.Failed, outcome.Interrupted} {
		if n := r.states[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome.StateText(state)))
		}
	}
	parts = append(parts, fmt.Sprintf("%.0f s", passed.Seconds()))
	if left, ok := r.timeLeft(time.Now()); ok {
		parts = append(parts, fmt.Sprintf("about %.0f s left", left.Seconds()))
	}
	return strings.Join(parts, ", ")
}

// recentRuns is the number of runs from which timeLeft estimates the remaining time.
const recentRuns = 20

// timeLeft estimates the remaining time from the durations of recent runs and the time since the
// last one ended.
func (r *report) timeLeft(now time.Time) (time.Duration, bool) {
	n := len(r.recent)
	if n < 2 {
		return 0, false
	}
	each := r.recent[n-1].Sub(r.recent[0]) / time.Duration(n-1)
	each = max(each, now.Sub(r.recent[0])/time.Duration(n)) // if no run has ended for longer than usual
	return each * time.Duration(r.total-r.ended), true
}

// newSuite returns a suite that lists all chosen scenarios, so that its page includes those without
// an outcome.
func (f *runFlags) suiteOf(chosen []pick, names []string, started time.Time) *suites.Suite {
	s := &suites.Suite{Backend: f.backend, Seed: f.seed, Seeds: f.seeds, Started: started.UTC(), Command: f.suiteCommand(names), Version: version(),
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Sets: f.sets, Store: f.store}
	for _, p := range chosen {
		c := &suites.Scenario{Name: p.Name, Variant: p.Variant, Claim: p.Claim, Source: p.Source, Tags: p.Tags}
		for _, property := range checker.Properties() {
			if e, ok := p.Expect[property]; ok && e.Follows == "" {
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
	return c + f.overrides()
}

// store writes the suite, if it has more than one run, updates the store's index, and removes old
// runs.
func (r *report) store(interrupted bool) error {
	s := r.suite
	if len(s.Scenarios) > 1 || s.Seeds > 1 {
		s.Seconds, s.Code, s.Planned, s.Interrupted = time.Since(r.started).Seconds(), r.code, r.total, interrupted
		for _, o := range r.skipped {
			s.Add(o)
		}
		dir, err := suites.Write(s, suites.File{Name: reports.JUnitFile, Text: r.ci.junit.Bytes()})
		if err != nil {
			return storeError(err)
		}
		r.page = dir + "/" + suites.PageFile
	} else if r.dir != "" {
		r.page = r.dir + "/" + reports.PageFile
	}
	if err := suites.Index(r.flags.store); err != nil {
		return storeError(err)
	}
	if r.flags.keepNewest == 0 {
		return nil
	}
	return gc(io.Discard, r.flags.store, suites.Retention{Newest: r.flags.keepNewest}, false)
}
