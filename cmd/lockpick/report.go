package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/scenario"
	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// report is what run prints, in the order of the catalogue, each as soon as it and all
// before it are done: of a suite what was not as expected, and a summary; where scenarios
// were named, or with -v, a line for each, and drawings; and a sum.
type report struct {
	*app
	ci      *ci
	flags   *runFlags
	started time.Time

	mu       sync.Mutex
	total    int
	ended    int
	tries    int // that did not count
	keeps    int // runs made again to be kept, and those that are
	kept     int
	outcomes map[int]outcome.Outcome // those that are not printed yet
	answer   answer                  // what is printed for machines
	skipped  []outcome.Outcome
	compared comparison
	printed  int
	sum      seedSum
	tally    tally
	live     *progress // nil: there is none
	failed   func()    // told of the first run that came otherwise or failed; nil: nobody asked
	dir      string    // of the run that ended last
	page     string    // what there is to look at
	suite    *suites.Suite
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

// done takes an outcome and prints what can be printed in order.
func (r *report) done(i int, o outcome.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[i] = o
	r.ended++
	r.dir = o.Dir
	r.tries += len(o.Retried)
	for _, i := range r.compared.settle(r.outcomes, i) {
		r.code = outcome.Worse(r.code, r.outcomes[i].Code)
		r.suite.Add(r.outcomes[i])
		r.tally.add(r.outcomes[i])
		if s := r.outcomes[i].State(); r.failed != nil && (s == outcome.Unexpected || s == outcome.Failed) {
			r.failed()
		}
	}
	for {
		o, ok := r.outcomes[r.printed]
		if !ok || r.compared.waits(r.printed) {
			return
		}
		r.ci.add(o)
		delete(r.outcomes, r.printed)
		r.printed++
		if r.flags.json {
			r.live.erase()
			r.answer.add(o)
			continue
		}
		if r.flags.seeds == 1 {
			r.print(o)
			continue
		}
		r.sum.add(o)
		if r.printed%r.flags.seeds == 0 {
			r.printSeeds()
		}
	}
}

// print prints a run.
func (r *report) print(o outcome.Outcome) {
	if !r.detailed() && o.Code == outcome.ExitOK && !(r.flags.named && o.FreeOnly()) {
		return
	}
	r.live.erase()
	r.line(o)
	for _, why := range o.Retried {
		fmt.Fprintf(r.out, "    discarded, and tried again: %s\n", oneLine(why))
	}
	r.explain(o)
}

// line is a run in one line, or where that gets too long in one for each property.
func (r *report) line(o outcome.Outcome) {
	o.Scenario = oneLine(o.Scenario)
	parts := summary(o)
	if o.Code != outcome.ExitOK {
		parts = append([]string{strings.ToUpper(o.State())}, parts...)
	}
	room := cmp.Or(columns(r.out), 120) - 44
	if one := strings.Join(parts, "; "); len(one) <= room {
		parts = []string{one}
	}
	name, column := o.Scenario, 43
	if slices.ContainsFunc(parts, func(p string) bool { return len(p) > room }) { // beside the name it does not fit
		fmt.Fprintln(r.out, name)
		name, column = "", 3
	}
	for _, p := range parts {
		fmt.Fprintf(r.out, "%-*s %s\n", column, name, r.coloured(o, p))
		name = ""
	}
}

// coloured is a part of a run's line, in the colour of what it says.
func (r *report) coloured(o outcome.Outcome, part string) string {
	switch in := doubt; {
	case o.Code != outcome.ExitOK && strings.HasPrefix(part, strings.ToUpper(o.State())):
		if o.State() != outcome.Undecided {
			in = alarm
		}
		return painted(r.out, in, part)
	case strings.Contains(part, " violated"):
		return painted(r.out, in, part)
	}
	return part
}

// detailed says whether each run is told of: those that were named are, and all with -v.
func (r *report) detailed() bool { return (r.flags.named || r.flags.verbose) && !r.flags.quiet }

// explain says what a reader wants to know of a run beyond its line.
func (r *report) explain(o outcome.Outcome) {
	drawn := r.detailed() && r.flags.named && slices.ContainsFunc(o.Judgements, func(j outcome.Judgement) bool { return j.Got == checker.Violated })
	if o.Code == outcome.ExitOK && !drawn {
		return
	}
	var told []outcome.Judgement
	for _, j := range o.Judgements {
		if asked := j.Expected != "" || j.Got != checker.NotExercised; asked && j.Got != checker.Holds || !j.AsExpected {
			told = append(told, j)
		}
	}
	for _, t := range folded(told) {
		fmt.Fprintf(r.out, "    %s: %s\n", t.names(), t.because)
		for _, j := range t.js {
			if c := j.Confirmation; c != nil {
				fmt.Fprintf(r.out, "    cause %s: %s\n", c.State, oneLine(c.Why))
			}
		}
	}
	if o.Stopped != "" {
		fmt.Fprintf(r.out, "    %s\n", oneLine(o.Stopped))
	}
	if o.Error != "" {
		fmt.Fprintf(r.out, "    error: %s\n", strings.ReplaceAll(strings.TrimSpace(o.Error), "\n", "\n    "))
	}
	if o.Hint != "" {
		fmt.Fprintf(r.out, "    hint: %s\n", oneLine(o.Hint))
	}
	if o.Dir != "" {
		if text := sequenceOf(o); text != "" {
			fmt.Fprintf(r.out, "\n%s\n", strings.TrimRight(text, "\n"))
		}
		fmt.Fprintf(r.out, "\n    record:    %s\n", oneLine(o.Dir))
	}
	fmt.Fprintf(r.out, "    run again: %s\n\n", oneLine(o.Command))
}

// summary is a run in few words: what was expected of it, and what was not. A property that
// follows another adds nothing if both came out alike.
func summary(o outcome.Outcome) []string {
	var parts []string
	for _, j := range o.Judgements {
		lead := o.Of(j.Follows)
		alike := lead != nil && (j.Got == checker.Violated) == (lead.Got == checker.Violated)
		if j.Tells() && (j.Follows == "" || !j.AsExpected || !alike) {
			parts = append(parts, printable(j).String())
		}
	}
	if o.Error != "" && len(parts) == 0 {
		return strings.SplitN(o.Error, "\n", 2)[:1]
	}
	return parts
}

// finish prints the sum and what there is to look at, and settles the exit code.
func (r *report) finish(ctx context.Context) error {
	defer func() {
		if r.page != "" {
			fmt.Fprintf(r.errs, "report: %s\n", r.page)
		}
	}()
	for _, o := range r.skipped {
		r.code = outcome.Worse(r.code, o.Code)
	}
	if r.total == 0 && len(r.skipped) > 0 {
		r.code = outcome.Worse(r.code, outcome.ExitBackend)
	}
	switch why := context.Cause(ctx); {
	case why == nil:
	case why == errUnread:
		r.code = outcome.Worse(r.code, outcome.ExitBackend)
	default:
		r.code = outcome.ExitInterrupt
	}
	if ctx.Err() != nil && r.ended < r.total {
		fmt.Fprintf(r.errs, "%v after %d of %d runs; what they left is in %s\n", context.Cause(ctx), r.ended, r.total, r.flags.store)
	}
	for _, i := range slices.Sorted(maps.Keys(r.outcomes)) { // they came after one that was kept out
		r.ci.add(r.outcomes[i])
		r.late(r.outcomes[i])
	}
	for _, o := range r.skipped {
		r.ci.add(o)
	}
	if r.ended < r.total && ctx.Err() == nil {
		fmt.Fprintf(r.errs, "stopped at the first run that was not as expected: %d of %d runs are done\n", r.ended, r.total)
	}
	if err := r.keep(r.ended < r.total); err != nil {
		defer r.complain(err) // after the result, which there is all the same
		r.code = outcome.Worse(r.code, codeOf(err))
	}
	if err := r.ci.finish(r.errs); r.flags.json {
		r.code = outcome.Worse(r.code, codeOf(err))
		return cmp.Or(r.endAnswer(), err)
	} else if err != nil {
		return err
	}
	r.printSeeds() // of a scenario that was interrupted
	switch {
	case r.flags.quiet:
	case r.detailed():
		for _, o := range r.skipped {
			fmt.Fprintf(r.out, "%-43s skipped: %s\n", o.Scenario, o.Skipped)
		}
	default:
		r.printSummary()
	}
	r.printSum()
	return nil
}

// late prints a run that came after one that did not end.
func (r *report) late(o outcome.Outcome) {
	switch {
	case r.flags.json:
		r.answer.add(o)
	case r.flags.seeds == 1 && r.failed != nil:
		r.print(o)
	case r.flags.seeds > 1:
		if o.Scenario != r.sum.name {
			r.printSeeds()
		}
		r.sum.add(o)
	}
}

// endAnswer prints the rest for machines.
func (r *report) endAnswer() error {
	for _, o := range r.skipped {
		r.answer.add(o)
	}
	if r.flags.seeds > 1 {
		return r.answer.end(r.causes(), r.code)
	}
	return r.answer.end(nil, r.code)
}

// printSum prints how many runs came to what.
func (r *report) printSum() {
	var parts []string
	for _, s := range outcome.States() {
		n := r.suite.Counts[s]
		if s == outcome.Skipped {
			n = len(r.skipped)
		}
		if n > 0 || s == outcome.AsExpected && r.suite.Counts[outcome.NothingExpected] == 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	seeds := fmt.Sprintf("seed %d", r.flags.seed)
	if r.flags.seeds > 1 {
		seeds = fmt.Sprintf("seeds %d to %d", r.flags.seed, r.flags.seed+uint64(r.flags.seeds)-1)
	}
	noun, runs := "runs", r.ended+len(r.skipped)
	if runs == 1 {
		noun = "run"
	}
	in := good
	if r.code != outcome.ExitOK {
		in = alarm
	} else if r.suite.Counts[outcome.NothingExpected] > 0 {
		in = plain
	}
	if !r.flags.quiet {
		fmt.Fprintln(r.out)
	}
	fmt.Fprintf(r.out, "%s\n", painted(r.out, in, fmt.Sprintf("%d %s on %s, %s: %s%s", runs, noun, r.flags.backend, seeds, strings.Join(parts, ", "), r.discarded())))
}

// discarded says how many tries did not count; "": all did.
func (r *report) discarded() string {
	switch r.tries {
	case 0:
		return ""
	case 1:
		return "; 1 try was discarded"
	}
	return fmt.Sprintf("; %d tries were discarded", r.tries)
}
