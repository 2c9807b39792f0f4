package suites

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

// readJSON prints outcomes as JSON and parses the output.
func readJSON(t *testing.T, all []outcome.Outcome) (read struct {
	Schema   int
	Outcomes []outcome.Outcome
	Rates    []rate
	Causes   []scenarioCause
	Code     int
}) {
	t.Helper()
	var out strings.Builder
	c := Console{W: &out, JSON: true, Suite: &Suite{Backend: "sim", Seeds: 30}, Erase: func() {}}
	for _, o := range all {
		c.Add(o)
	}
	if err := c.Finish(outcome.ExitUnexpected); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(out.String()))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil || d.More() {
		t.Fatal(err, out.String())
	}
	if read.Schema != 1 || read.Outcomes == nil || read.Causes == nil || read.Code != outcome.ExitUnexpected {
		t.Errorf("unexpected JSON output: %+v", read)
	}
	return read
}

// The output contains all outcomes and rates, whatever the number of scenarios.
func TestJSONOutputIsComplete(t *testing.T) {
	var all []outcome.Outcome
	for n := range 5 {
		var want []rate
		read := readJSON(t, all)
		for i := range n {
			want = append(want, rate{Scenario: fmt.Sprint("s", i), Property: verdict.MutualExclusion, Runs: 30, Violated: 30, Rate: 1})
			for k := range 30 {
				if o := read.Outcomes[30*i+k]; o.Scenario != want[i].Scenario || o.Seed != uint64(k) || o.Error != "<\n>" {
					t.Errorf("%d scenarios: unexpected outcome %+v", n, o)
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

// Rates count only the seeds whose result for the property was conclusive.
func TestRatesCountDecidedSeeds(t *testing.T) {
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
	rates := readJSON(t, all).Rates
	if len(rates) != 1 {
		t.Fatalf("%d rates, want 1", len(rates))
	}
	if r := rates[0]; r.Runs != 23 || r.Violated != 2 || r.NotExercised != 15 || fmt.Sprintf("%.4f", r.Rate) != "0.0870" {
		t.Errorf("unexpected rate: %+v", r)
	}
	var out strings.Builder
	c := Console{W: &out, Named: true, Suite: &Suite{Backend: "sim", Seeds: len(all)}}
	for _, o := range all {
		c.Add(o)
	}
	if err := c.Finish(outcome.ExitUnexpected); err != nil {
		t.Fatal(err)
	}
	if want := "deadlock-freedom violated in 2 of 23 (8.7 %, 95 %: 2.4–26.8 %); 15 did not exercise it\n"; !strings.Contains(out.String(), want) {
		t.Errorf("output does not contain %q:\n%s", want, out.String())
	}
	if len(readJSON(t, all[:30]).Rates) != 0 {
		t.Error("got a rate with too few conclusive runs, want none")
	}
}

// A summary with all seven columns fits a terminal with 100 columns, and a summary with five fits 80. A
// header that fits stays on one line.
func TestSummaryFits(t *testing.T) {
	ways := []outcome.Judgement{ // one per column
		{Got: verdict.Holds, AsExpected: true, Expected: "holds"}, {Got: verdict.Violated, AsExpected: true, Expected: "violated"}, {Got: verdict.Violated, AsExpected: true, Expected: "any"},
		{Got: verdict.NotExercised, AsExpected: true, Expected: "any"}, {Got: verdict.Violated, Expected: "holds"},
		{Got: verdict.Violated, AsExpected: true, Expected: "any", Comparison: verdict.Holds}, {Got: verdict.Undecided, Expected: "holds"},
	}
	for _, c := range []struct{ columns, width, head int }{{2, 80, 1}, {3, 80, 1}, {5, 80, 3}, {7, 100, 4}} {
		counts := map[outcome.ResultKey]int{}
		for _, j := range ways[:c.columns] {
			counts[outcome.ResultKey{Judgement: j}] = 188
		}
		s := Suite{Scenarios: []*Scenario{{Row: outcome.Row{Cells: []outcome.Cell{{Property: "mutual-exclusion", Results: counts}, {Property: "lease-linearizable", Results: counts}}}}}}
		lines := s.summary().WrapHeader(c.width).Lines("", c.width)
		head := strings.Split(lines[0], "\n")
		for _, line := range slices.Concat(head, lines[1:]) {
			if utf8.RuneCountInString(line) > c.width {
				t.Errorf("%d columns: %q is wider than %d", c.columns, line, c.width)
			}
		}
		if len(head) != c.head || !strings.HasPrefix(head[len(head)-1], "property ") || len(lines) != 3 || !strings.HasSuffix(lines[1], "188") {
			t.Errorf("%d columns: unexpected layout:\n%s", c.columns, strings.Join(lines, "\n"))
		}
	}
}
