package main

import (
	"fmt"
	"strings"
	"testing"

	"lockpick/checker"
	"lockpick/scenarios/outcome"
)

// Rates are over the seeds that exercised a property: the others say nothing of it.
func TestRatesAreOverSeedsThatExercised(t *testing.T) {
	var all []outcome.Outcome
	for seed := range uint64(40) {
		j := outcome.Judgement{Property: checker.DeadlockFreedom, Expected: "holds", Got: checker.Holds, AsExpected: true}
		switch {
		case seed < 15:
			j.Got = checker.NotExercised
		case seed < 17:
			j.Got, j.AsExpected = checker.Undecided, false
		case seed < 19:
			j.Got, j.AsExpected = checker.Violated, false
		}
		all = append(all, outcome.Outcome{Scenario: "a", Seed: seed, Judgements: []outcome.Judgement{j}})
	}
	rates := ratesOf(all, simulation)
	if len(rates) != 1 {
		t.Fatalf("%d rates", len(rates))
	}
	if r := rates[0]; r.Runs != 23 || r.Violated != 2 || r.Idle != 15 || fmt.Sprintf("%.4f", r.Rate) != "0.0870" {
		t.Errorf("%+v", r)
	}
	var out strings.Builder
	r := report{app: &app{out: &out}, flags: &runFlags{backend: simulation, named: true}}
	for _, o := range all {
		r.sum.add(o)
	}
	r.printSeeds()
	if want := "deadlock-freedom violated in 2 of 23 (8.7 %, 95 %: 2.4–26.8 %); 15 did not exercise it\n"; !strings.Contains(out.String(), want) {
		t.Errorf("want %s in %s", want, out.String())
	}
	if len(ratesOf(all[:30], simulation)) != 0 {
		t.Error("there is a rate of too few runs that decided")
	}
}
