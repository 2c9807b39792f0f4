package main

import (
	"fmt"
	"strings"

	"lockpick/checker"
	"lockpick/scenarios/outcome"
)

// seedSum is what came of many seeds of one scenario.
type seedSum struct {
	scenario string
	runs     int
	count    map[string]int
	shown    []outcome.Outcome // the first that were not as expected
	tally    map[string]tally  // by property
}

// tally is how often a property was decided, and how often it was violated.
type tally struct {
	decided, violated int
	idle              int  // runs that gave no occasion to violate it
	told              bool // something was expected of it, or it was violated
}

const (
	mostShown = 5
	leastRuns = 20 // of which a rate says anything
)

func (s *seedSum) add(o outcome.Outcome) {
	if s.runs == 0 {
		*s = seedSum{scenario: o.Scenario, count: map[string]int{}, tally: map[string]tally{}}
	}
	s.runs++
	s.count[o.State()]++
	if o.Code != outcome.ExitOK && len(s.shown) < mostShown {
		s.shown = append(s.shown, o)
	}
	for _, j := range o.Judgements {
		t := s.tally[j.Property]
		t.told = t.told || j.Expected != ""
		switch j.Got {
		case checker.Violated:
			t.violated++
			t.told = true
			fallthrough
		case checker.Holds:
			t.decided++
		case checker.NotExercised:
			t.idle++
		}
		s.tally[j.Property] = t
	}
}

// rates says how often each property was violated, where there are runs enough.
// Real backends try a run again that missed its violation, so there they would
// not be what they seem.
func (s *seedSum) rates(backend string) []rate {
	var rates []rate
	for _, name := range checker.Properties() {
		if t := s.tally[name]; t.told && t.decided >= leastRuns && backend == simulation {
			low, high := outcome.Wilson(t.violated, t.decided)
			rates = append(rates, rate{s.scenario, name, t.decided, t.violated, t.idle, float64(t.violated) / float64(t.decided), low, high})
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

// ratesOf sums outcomes up, of which each scenario's are together.
func ratesOf(outcomes []outcome.Outcome, backend string) []rate {
	var rates []rate
	var sum seedSum
	for i, o := range outcomes {
		if i > 0 && o.Scenario != outcomes[i-1].Scenario {
			rates, sum = append(rates, sum.rates(backend)...), seedSum{}
		}
		sum.add(o)
	}
	return append(rates, sum.rates(backend)...)
}

// printSeeds prints the sum of a scenario, and begins another.
func (r *report) printSeeds() {
	s := r.sum
	r.sum = seedSum{}
	if s.runs == 0 {
		return
	}
	var parts []string
	for _, name := range outcome.States() {
		if s.count[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", s.count[name], name))
		}
	}
	fmt.Fprintf(r.out, "%-44s %d seeds: %s\n", s.scenario, s.runs, strings.Join(parts, ", "))
	for _, rate := range s.rates(r.flags.backend) {
		idle := ""
		if rate.Idle > 0 {
			idle = fmt.Sprintf("; %d did not exercise it", rate.Idle)
		}
		fmt.Fprintf(r.out, "    %s violated in %s%s\n", rate.Property, outcome.Rate(rate.Violated, rate.Runs), idle)
	}
	for _, o := range s.shown {
		fmt.Fprintf(r.out, "    seed %d: %s\n    run again: %s\n", o.Seed, strings.Join(summary(o), "; "), o.Command)
	}
	if more := s.runs - s.count["as expected"] - len(s.shown); more > 0 {
		fmt.Fprintf(r.out, "    … and %d more\n", more)
	}
}
