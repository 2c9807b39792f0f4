package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

// answered are outcomes as a program reads them.
func answered(t *testing.T, all []outcome.Outcome) (read struct {
	Schema   int
	Outcomes []outcome.Outcome
	Rates    []rate
	Causes   []broke
	Code     int
}) {
	t.Helper()
	var out strings.Builder
	a := answer{to: &out, backend: simulation}
	for _, o := range all {
		a.add(o)
	}
	if err := a.end([]broke{}, outcome.ExitUnexpected); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(out.String()))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil || d.More() {
		t.Fatal(err, out.String())
	}
	if read.Schema != 1 || read.Outcomes == nil || read.Causes == nil || read.Code != outcome.ExitUnexpected {
		t.Errorf("%+v", read)
	}
	return read
}

// What a program reads of none, one, or several scenarios' outcomes is what there was.
func TestAnswersAreWhole(t *testing.T) {
	var all []outcome.Outcome
	for n := range 5 {
		var want []rate
		read := answered(t, all)
		for i := range n {
			want = append(want, rate{Scenario: fmt.Sprint("s", i), Property: verdict.MutualExclusion, Runs: 30, Violated: 30, Rate: 1})
			for k := range 30 {
				if o := read.Outcomes[30*i+k]; o.Scenario != want[i].Scenario || o.Seed != uint64(k) || o.Error != "<\n>" {
					t.Errorf("%d scenarios: %+v", n, o)
				}
			}
		}
		for i := range read.Rates {
			read.Rates[i].Low, read.Rates[i].High = 0, 0
		}
		if len(read.Outcomes) != 30*n || !slices.Equal(read.Rates, want) {
			t.Errorf("%d scenarios: %d outcomes, rates %+v", n, len(read.Outcomes), read.Rates)
		}
		for k := range uint64(30) {
			all = append(all, outcome.Outcome{Schema: 1, Scenario: fmt.Sprint("s", n), Seed: k, Error: "<\n>", Judgements: []outcome.Judgement{
				{Property: verdict.MutualExclusion, Expected: "holds", Got: verdict.Violated}}})
		}
	}
}

// Rates are over the seeds that exercised a property: the others say nothing of it.
func TestRatesAreOverSeedsThatExercised(t *testing.T) {
	var all []outcome.Outcome
	for seed := range uint64(40) {
		j := outcome.Judgement{Property: verdict.DeadlockFreedom, Expected: "holds", Got: verdict.Holds, AsExpected: true}
		switch {
		case seed < 15:
			j.Got = verdict.NotExercised
		case seed < 17:
			j.Got, j.AsExpected = verdict.Undecided, false
		case seed < 19:
			j.Got, j.AsExpected = verdict.Violated, false
		}
		all = append(all, outcome.Outcome{Scenario: "a", Seed: seed, Judgements: []outcome.Judgement{j}})
	}
	rates := answered(t, all).Rates
	if len(rates) != 1 {
		t.Fatalf("%d rates", len(rates))
	}
	if r := rates[0]; r.Runs != 23 || r.Violated != 2 || r.Idle != 15 || fmt.Sprintf("%.4f", r.Rate) != "0.0870" {
		t.Errorf("%+v", r)
	}
	var out strings.Builder
	r := report{app: &app{out: &out}, flags: &runFlags{backend: simulation, named: true}}
	for _, o := range all {
		r.sum.Add(o)
	}
	r.printSeeds(r.sum)
	if want := "deadlock-freedom violated in 2 of 23 (8.7 %, 95 %: 2.4–26.8 %); 15 did not exercise it\n"; !strings.Contains(out.String(), want) {
		t.Errorf("want %s in %s", want, out.String())
	}
	if len(answered(t, all[:30]).Rates) != 0 {
		t.Error("there is a rate of too few runs that decided")
	}
}
