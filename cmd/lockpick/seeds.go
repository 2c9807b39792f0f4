package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// seedSum is what came of many seeds of one scenario.
type seedSum struct {
	suites.Scenario
	name  string
	shown []outcome.Outcome // the first that were not as expected
}

const mostShown = 5

func (s *seedSum) add(o outcome.Outcome) {
	s.name = o.Scenario
	s.Add(o)
	s.Note(o)
	if o.Code != outcome.ExitOK && len(s.shown) < mostShown {
		s.shown = append(s.shown, o)
	}
}

// rates says how often each property was violated, where that is a rate.
func (s *seedSum) rates(backend string) []rate {
	var rates []rate
	for _, name := range checker.Properties() {
		if c := s.Cell(name); c != nil && (c.Expected != "" || c.Violated > 0) && c.Rated(backend) {
			low, high := outcome.Wilson(c.Violated, c.Decided)
			rates = append(rates, rate{s.name, name, c.Decided, c.Violated, c.Idle, float64(c.Violated) / float64(c.Decided), low, high})
		}
	}
	return rates
}

// rate is how often a property of a scenario was violated, with its 95 % interval.
type rate struct {
	Scenario string  `json:"scenario"`
	Property string  `json:"property"`
	Runs     int     `json:"runs"` // that decided it
	Violated int     `json:"violated"`
	Idle     int     `json:"notExercised,omitempty"` // runs that gave no occasion to violate it
	Rate     float64 `json:"rate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// showSeeds notes what came of a scenario's seeds, if there is something to say, and begins another.
func (r *report) showSeeds() {
	s := r.sum
	r.sum = seedSum{}
	harm := slices.ContainsFunc(s.Cells, func(c suites.Cell) bool {
		return c.Violated > 0 && (c.Expected == "" || c.Expected == outcome.AnyOutcome)
	})
	if s.Runs == 0 || !r.printer().detailed() && outcome.Fine(s.Counts) == s.Runs && !harm {
		return
	}
	if r.flags.verbose {
		r.live.erase()
		r.printSeeds(s)
		return
	}
	r.sums = append(r.sums, s)
}

// printSeeds prints what came of a scenario's seeds.
func (r *report) printSeeds(s seedSum) {
	fmt.Fprintf(r.out, "%-44s %d seeds: %s\n", s.name, s.Runs, strings.Join(outcome.Counted(s.Counts), ", "))
	rates := s.rates(r.flags.backend)
	causes := s.causes(width(r.out))
	for _, property := range checker.Properties() {
		if i := slices.IndexFunc(rates, func(x rate) bool { return x.Property == property }); i >= 0 {
			fmt.Fprintln(r.out, "    "+rates[i].said(r.out))
		} else if c := s.Cell(property); c != nil && c.Violated > 0 {
			fmt.Fprintln(r.out, "    "+painted(r.out, doubt, fmt.Sprintf("%s violated in %d of %d", property, c.Violated, c.Decided)))
		}
		for i, c := range s.Causes {
			if c.Property == property {
				fmt.Fprintln(r.out, causes[i])
			}
		}
	}
	for _, o := range s.shown {
		fmt.Fprintf(r.out, "    seed %d: %s\n    run again: %s\n", o.Seed, strings.Join(summary(o), "; "), o.Command)
	}
	if more := s.Runs - outcome.Fine(s.Counts) - len(s.shown); more > 0 {
		fmt.Fprintf(r.out, "    … and %d more\n", more)
	}
}

// said is a rate as a sentence, for w.
func (x rate) said(w io.Writer) string {
	text := fmt.Sprintf("%s violated in %s", x.Property, outcome.Rate(x.Violated, x.Runs))
	if x.Violated > 0 {
		text = painted(w, doubt, text)
	}
	if x.Idle > 0 {
		text += fmt.Sprintf("; %d did not exercise it", x.Idle)
	}
	return text
}

// causes are what broke, in how many seeds, and the command that shows it soonest.
func (s *seedSum) causes(width int) []string {
	t := table{{"", "", ""}}
	for _, c := range s.Causes {
		t = append(t, []string{c.Cause, fmt.Sprint(c.Runs), c.Shortest.Command})
	}
	return t.lines("      ", width)[1:]
}

// examples makes the runs again that are named for what they show, to keep them with their
// reports: the same seed gives the same run. Those of other backends are in the store.
func (r *report) examples(ctx context.Context, chosen []pick) {
	if r.flags.seeds == 1 || r.flags.backend != simulation {
		return
	}
	var jobs []campaign.Job
	for _, c := range r.suite.Scenarios {
		i := slices.IndexFunc(chosen, func(p pick) bool { return p.ID() == c.ID() })
		for _, seed := range c.Examples() {
			j := r.flags.job(chosen[i], int(seed-r.flags.seed))
			j.Keep = campaign.KeepAll
			if r.flags.reports != reportsNone {
				j.Reports = campaign.KeepAll
			}
			jobs = append(jobs, j)
		}
	}
	r.mu.Lock()
	r.keeps, r.ci.kept = len(jobs), map[string]string{}
	r.mu.Unlock()
	workers(r.flags.patience, r.flags.store).Run(ctx, len(jobs), func(i int) campaign.Job { return jobs[i] }, func(_ int, o outcome.Outcome) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.kept++
		r.suite.Keep(o)
		r.ci.kept[o.Command] = o.Dir
	})
}

// broke is a cause of a scenario, for machines.
type broke struct {
	Scenario string `json:"scenario"`
	suites.Cause
}

// causes are what broke in many seeds of each scenario.
func (r *report) causes() []broke {
	all := []broke{}
	for _, c := range r.suite.Scenarios {
		for _, x := range c.Causes {
			all = append(all, broke{c.ID(), x})
		}
	}
	return all
}
