package main

import (
	"fmt"
	"strings"

	"lockpick/checker"
	"lockpick/reports/suites"
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
	if s.Runs == 0 {
		return
	}
	fmt.Fprintf(r.out, "%-44s %d seeds: %s\n", s.name, s.Runs, strings.Join(outcome.Counted(s.Counts), ", "))
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
	if more := s.Runs - s.Counts["as expected"] - len(s.shown); more > 0 {
		fmt.Fprintf(r.out, "    … and %d more\n", more)
	}
}
