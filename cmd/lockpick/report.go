package main

import (
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

// report is what run prints: one line for each scenario in the order of the
// catalogue as soon as it and all before it are done, drawings where they are
// wanted, and a sum.
type report struct {
	*app
	ci      *ci
	flags   *runFlags
	started time.Time

	mu       sync.Mutex
	total    int
	ended    int
	tries    int                     // that did not count
	outcomes map[int]outcome.Outcome // those that are not printed yet, or all for JSON
	skipped  []outcome.Outcome
	compared comparison
	printed  int
	sum      seedSum
	suite    *suites.Suite
}

func (r *report) skip(s scenario.Scenario, lacks []harness.Capability) {
	o := outcome.Outcome{Schema: 1, Scenario: s.ID(), Backend: r.flags.backend, Skipped: reasons(lacks)}
	if r.required(lacks) {
		o.Code = outcome.ExitBackend
	}
	r.skipped = append(r.skipped, o)
}

func (r *report) required(lacks []harness.Capability) bool {
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
	r.tries += len(o.Retried)
	for _, i := range r.compared.settle(r.outcomes, i) {
		r.code = outcome.Worse(r.code, r.outcomes[i].Code)
		r.suite.Add(r.outcomes[i])
	}
	for {
		o, ok := r.outcomes[r.printed]
		if !ok || r.compared.waits(r.printed) {
			return
		}
		r.ci.add(o)
		r.printed++
		if r.flags.json {
			continue
		}
		delete(r.outcomes, r.printed-1)
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
	r.line(o)
	for _, why := range o.Retried {
		fmt.Fprintf(r.out, "    discarded, and tried again: %s\n", why)
	}
	r.explain(o)
}

// line is a run in one line, or where that gets too long in one for each property.
func (r *report) line(o outcome.Outcome) {
	parts := summary(o)
	if o.Code != outcome.ExitOK {
		parts = append([]string{strings.ToUpper(o.State())}, parts...)
	}
	if one := strings.Join(parts, "; "); len(one) <= 76 {
		parts = []string{one}
	}
	name := o.Scenario
	for _, p := range parts {
		fmt.Fprintf(r.out, "%-43s %s\n", name, p)
		name = ""
	}
}

// explain says what a reader wants to know of a run beyond its line.
func (r *report) explain(o outcome.Outcome) {
	drawn := r.flags.named && slices.ContainsFunc(o.Judgements, func(j outcome.Judgement) bool { return j.Got == checker.Violated })
	if o.Code == outcome.ExitOK && !drawn {
		return
	}
	for _, j := range o.Judgements {
		if told := j.Expected != "" || j.Got != checker.NotExercised; told && j.Got != checker.Holds || !j.AsExpected {
			fmt.Fprintf(r.out, "    %s: %s\n", j.Property, j.Because)
		}
		if c := j.Confirmation; c != nil {
			fmt.Fprintf(r.out, "    cause %s: %s\n", c.State, c.Why)
		}
	}
	if o.Stopped != "" {
		fmt.Fprintf(r.out, "    %s\n", o.Stopped)
	}
	if o.Error != "" {
		fmt.Fprintf(r.out, "    error: %s\n", strings.ReplaceAll(strings.TrimSpace(o.Error), "\n", "\n    "))
	}
	if o.Hint != "" {
		fmt.Fprintf(r.out, "    hint: %s\n", o.Hint)
	}
	if o.Dir != "" {
		if text := sequenceOf(o); text != "" {
			fmt.Fprintf(r.out, "\n%s\n", strings.TrimRight(text, "\n"))
		}
		fmt.Fprintf(r.out, "\n    record:    %s\n", o.Dir)
	}
	fmt.Fprintf(r.out, "    run again: %s\n\n", o.Command)
}

// summary is a run in few words: what was expected of it, and what was not.
func summary(o outcome.Outcome) []string {
	var parts []string
	for _, j := range o.Judgements {
		if news := j.Follows == "" || !j.AsExpected; news && j.Tells() {
			parts = append(parts, j.String())
		}
	}
	if o.Error != "" && len(parts) == 0 {
		return strings.SplitN(o.Error, "\n", 2)[:1]
	}
	return parts
}

// finish prints the sum and settles the exit code.
func (r *report) finish(ctx context.Context) error {
	for _, o := range r.skipped {
		r.code = outcome.Worse(r.code, o.Code)
	}
	if r.total == 0 && len(r.skipped) > 0 {
		r.code = outcome.Worse(r.code, outcome.ExitBackend)
	}
	if ctx.Err() != nil {
		r.code = outcome.ExitInterrupt
		fmt.Fprintf(r.errs, "interrupted after %d of %d runs; what they left is in %s\n", r.ended, r.total, r.flags.store)
	}
	for _, i := range slices.Sorted(maps.Keys(r.outcomes)) {
		if i >= r.printed { // it came after one that an interrupt kept out
			r.ci.add(r.outcomes[i])
		}
	}
	for _, o := range r.skipped {
		r.ci.add(o)
	}
	if err := r.keep(ctx.Err() != nil); err != nil {
		defer r.complain(err) // after the result, which there is all the same
		r.code = outcome.Worse(r.code, codeOf(err))
	}
	if err := r.ci.finish(r.errs); err != nil {
		return err
	}
	if r.flags.json {
		all := []outcome.Outcome{}
		for _, i := range slices.Sorted(maps.Keys(r.outcomes)) {
			all = append(all, r.outcomes[i])
		}
		all = append(all, r.skipped...)
		answer := map[string]any{"schema": 1, "code": r.code, "outcomes": all}
		if rates := ratesOf(all, r.flags.backend); len(rates) > 0 {
			answer["rates"] = rates
		}
		return printJSON(r.out, answer)
	}
	r.printSeeds() // of a scenario that was interrupted
	for _, o := range r.skipped {
		fmt.Fprintf(r.out, "%-44s %-12s %s\n", o.Scenario, "skipped", o.Skipped)
	}
	var parts []string
	for _, s := range outcome.States() {
		n := r.suite.Counts[s]
		if s == outcome.Skipped {
			n = len(r.skipped)
		}
		if n > 0 || s == outcome.AsExpected || s == outcome.Skipped {
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
	fmt.Fprintf(r.out, "\n%d %s on %s, %s: %s%s\n", runs, noun, r.flags.backend, seeds, strings.Join(parts, ", "), r.discarded())
	return nil
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

// progress tells on stderr how far a run is that takes over a second.
func (r *report) progress() (stop func()) {
	t := time.NewTicker(time.Second)
	over := make(chan struct{})
	go func() {
		for seconds := 1; ; seconds++ {
			select {
			case <-t.C:
				if seconds > 1 && seconds%5 != 0 {
					continue
				}
				r.mu.Lock()
				fmt.Fprintf(r.errs, "%d of %d runs done, %.0f s\n", r.ended, r.total, time.Since(r.started).Seconds())
				r.mu.Unlock()
			case <-over:
				return
			}
		}
	}()
	return func() { t.Stop(); close(over) }
}
