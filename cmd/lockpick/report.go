package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/scenario"
	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// report collects what came of the runs, passes it on in the order of the catalogue, and says how far
// they are.
type report struct {
	*app
	ci      *ci
	flags   *runFlags
	started time.Time

	mu       sync.Mutex
	total    int
	ended    int
	keeps    int // runs made again to be kept, and those that are
	kept     int
	recent   []time.Time             // when the last runs ended, for the time that is left
	outcomes map[int]outcome.Outcome // those that are not passed on yet
	passed   int
	skipped  []outcome.Outcome
	compared campaign.Comparison
	console  suites.Console
	live     *display.Progress // nil: there is none
	failed   func()            // told of the first run that came otherwise or failed; nil: nobody asked
	dir      string            // of the run that ended last
	page     string            // what there is to look at
	suite    *suites.Suite
}

// newReport is the report of scenarios that are chosen, and that names have chosen.
func newReport(a *app, f *runFlags, ci *ci, chosen []pick, names []string) *report {
	r := &report{app: a, ci: ci, flags: f, started: time.Now(), outcomes: map[int]outcome.Outcome{}}
	r.suite = f.suiteOf(chosen, names, r.started)
	r.console = suites.Console{W: a.out, Suite: r.suite, Named: f.named, Verbose: f.verbose, Quiet: f.quiet, JSON: f.json, Diagram: diagram,
		Erase: func() { r.live.Erase() }}
	return r
}

func (r *report) skip(s scenario.Scenario, lacks []harness.Capability) {
	o := outcome.Outcome{Schema: 1, Scenario: s.ID(), Backend: r.flags.backend, Skipped: reasons(lacks)}
	if r.required(lacks) || slices.ContainsFunc(lacks, func(c harness.Capability) bool { return c.Unknown }) {
		o.Code = outcome.ExitBackend
	}
	r.skipped = append(r.skipped, o)
}

func (r *report) required(lacks []harness.Capability) bool {
	if lacks[0].Name == lockLack { // no machine has it
		return false
	}
	return slices.Contains(r.flags.require, "all") || slices.ContainsFunc(lacks, func(c harness.Capability) bool {
		return slices.Contains(r.flags.require, c.Name)
	})
}

// done takes an outcome, and passes on those whose turn it is.
func (r *report) done(i int, o outcome.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[i] = o
	r.ended++
	r.recent = append(r.recent[max(0, len(r.recent)-recentRuns+1):], time.Now())
	r.dir = o.Dir
	for _, i := range r.compared.Settle(r.outcomes, i) {
		r.code = outcome.Worse(r.code, r.outcomes[i].Code)
		r.suite.Add(r.outcomes[i])
		if s := r.outcomes[i].State(); r.failed != nil && (s == outcome.Unexpected || s == outcome.Failed) {
			r.failed()
		}
	}
	for {
		o, ok := r.outcomes[r.passed]
		if !ok || r.compared.Waits(r.passed) {
			return
		}
		delete(r.outcomes, r.passed)
		r.passed++
		r.pass(o)
	}
}

func (r *report) pass(o outcome.Outcome) {
	r.ci.tally.Add(o)
	r.console.Add(o)
}

// diagram is a run's sequence diagram: as it stands in the store, or drawn anew for another width.
func diagram(o outcome.Outcome, width int) string {
	text := sequenceOf(o)
	if text != "" && width != display.DefaultWidth {
		if s, err := campaign.OpenStored(o.Dir, stored()); err == nil {
			return sequence.Text(sequence.Tell(s.History, checker.Check(s.History)), width)
		}
	}
	return text
}

// finish prints the result, and settles the exit code.
func (r *report) finish(ctx context.Context) error {
	cause := context.Cause(ctx)
	defer func() {
		if r.page != "" && context.Cause(ctx) != errUnread {
			fmt.Fprintf(r.errs, "report: %s\n", r.page)
		}
	}()
	for _, o := range r.skipped {
		r.code = outcome.Worse(r.code, o.Code)
	}
	if r.total == 0 && len(r.skipped) > 0 {
		r.code = outcome.Worse(r.code, outcome.ExitBackend)
	}
	switch {
	case cause == errUnread:
		r.code = outcome.Worse(r.code, outcome.ExitBackend)
	case cause != nil:
		r.code = outcome.ExitInterrupt
		fmt.Fprintf(r.errs, "%v after %d of %d runs; what they left is in %s\n", cause, r.ended-r.suite.Counts[outcome.Interrupted], r.total, r.flags.store)
	case r.ended < r.total:
		fmt.Fprintf(r.errs, "stopped at the first run that was not as expected: %d of %d runs are done\n", r.ended, r.total)
	}
	for _, i := range slices.Sorted(maps.Keys(r.outcomes)) { // they came after one that did not end
		r.pass(r.outcomes[i])
	}
	for _, o := range r.skipped {
		r.pass(o)
	}
	if err := r.ci.render(); err != nil {
		return err
	}
	if err := r.keep(r.ended < r.total || r.suite.Counts[outcome.Interrupted] > 0); err != nil {
		defer r.complain(err) // after the result, which there is all the same
		r.code = outcome.Worse(r.code, codeOf(err))
	}
	err := r.ci.finish(r.errs)
	if r.code = outcome.Worse(r.code, codeOf(err)); err != nil && !r.flags.json {
		return err
	}
	return cmp.Or(r.console.Finish(r.code), err)
}
