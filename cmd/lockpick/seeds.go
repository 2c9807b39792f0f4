package main

import (
	"fmt"
	"strings"

	"lockpick/checker"
	"lockpick/scenarios/suite"
)

// seedSum is what came of many seeds of one scenario.
type seedSum struct {
	scenario string
	runs     int
	count    map[string]int
	shown    []suite.Outcome  // the first that were not as expected
	tally    map[string]tally // by property
}

// tally is how often a property was decided, and how often it was violated.
type tally struct {
	decided, violated int
	told              bool // something was expected of it, or it was violated
}

const (
	mostShown = 5
	leastRuns = 20 // of which a rate says anything
)

func (s *seedSum) add(o suite.Outcome) {
	if s.runs == 0 {
		*s = seedSum{scenario: o.Scenario, count: map[string]int{}, tally: map[string]tally{}}
	}
	s.runs++
	s.count[state(o)]++
	if o.Code != suite.ExitOK && len(s.shown) < mostShown {
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
		}
		s.tally[j.Property] = t
	}
}

// rates says how often each property was violated, where there are runs enough.
// Real backends try a run again that missed its violation, so there they would
// not be what they seem.
func (s *seedSum) rates(backend string) []string {
	var lines []string
	for _, name := range checker.Properties() {
		if t := s.tally[name]; t.told && t.decided >= leastRuns && backend == simulation {
			lines = append(lines, name+" violated in "+suite.Rate(t.violated, t.decided))
		}
	}
	return lines
}

// printSeeds prints the sum of a scenario, and begins another.
func (r *report) printSeeds() {
	s := r.sum
	r.sum = seedSum{}
	if s.runs == 0 {
		return
	}
	var parts []string
	for _, name := range states {
		if s.count[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", s.count[name], name))
		}
	}
	fmt.Fprintf(r.out, "%-44s %d seeds: %s\n", s.scenario, s.runs, strings.Join(parts, ", "))
	for _, rate := range s.rates(r.flags.backend) {
		fmt.Fprintf(r.out, "    %s\n", rate)
	}
	for _, o := range s.shown {
		fmt.Fprintf(r.out, "    seed %d: %s\n    run again: %s\n", o.Seed, strings.Join(summary(o), "; "), o.Command)
	}
	if more := s.runs - s.count["as expected"] - len(s.shown); more > 0 {
		fmt.Fprintf(r.out, "    … and %d more\n", more)
	}
}
