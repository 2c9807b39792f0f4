package github

import (
	"io"

	"lockpick/checker"
	"lockpick/scenarios/outcome"
)

// Summary writes the outcomes of runs as a step's summary. drawing is the sequence
// diagram of a run: Mermaid's, or plain text; "" if there is none. It is asked only
// about runs whose diagram is shown, and may be nil.
func Summary(w io.Writer, outcomes []outcome.Outcome, drawing func(outcome.Outcome) string) error {
	return gathered(outcomes).Summary(w, drawing)
}

// Annotations writes a workflow command for each outcome that was not as expected: at
// most nine, the last of which says how many more there are.
func Annotations(w io.Writer, outcomes []outcome.Outcome) error {
	return gathered(outcomes).Annotations(w)
}

func gathered(outcomes []outcome.Outcome) *Report {
	r := &Report{}
	for _, o := range outcomes {
		r.Add(o)
	}
	return r
}

// Report gathers outcomes. Its zero value is ready.
type Report struct {
	groups []*group
	byName map[string]*group
	count  map[string]int // outcomes by state
	runs   int
}

// group is the runs of one scenario on one backend.
type group struct {
	scenario, backend string
	runs              int
	count             map[string]int
	rows              []*row
	skipped           string
	bad               []outcome.Outcome // the first that were not as expected
	good              *outcome.Outcome  // the first that was, and shows a violation
}

// row is one property in all runs of a scenario.
type row struct {
	property, expected string
	first              outcome.Judgement // that was not as expected; else the first
	runs, unexpected   int
	idle               int // runs that gave no occasion to violate it
}

// mostBad is how many runs of one scenario are told of.
const mostBad = 3

// Add adds the outcome of one run.
func (r *Report) Add(o outcome.Outcome) {
	if r.byName == nil {
		r.byName, r.count = map[string]*group{}, map[string]int{}
	}
	id := o.Backend + "\x00" + o.Scenario
	g := r.byName[id]
	if g == nil {
		g = &group{scenario: o.Scenario, backend: o.Backend, count: map[string]int{}}
		r.byName[id], r.groups = g, append(r.groups, g)
	}
	r.runs++
	r.count[o.State()]++
	g.add(o)
}

func (g *group) add(o outcome.Outcome) {
	g.runs++
	g.count[o.State()]++
	if o.Skipped != "" {
		g.skipped = o.Skipped
	}
	if o.Code != outcome.ExitOK && len(g.bad) < mostBad {
		g.bad = append(g.bad, o)
	}
	for _, j := range o.Judgements {
		if j.Expected != "" || j.Got == checker.Violated || !j.AsExpected {
			g.judged(j)
		}
		if o.Code == outcome.ExitOK && g.good == nil && j.Got == checker.Violated && j.Number == nil {
			g.good = &o
		}
	}
}

func (g *group) judged(j outcome.Judgement) {
	var r *row
	for _, other := range g.rows {
		if other.property == j.Property {
			r = other
		}
	}
	if r == nil {
		r = &row{property: j.Property, expected: j.Expected, first: j}
		g.rows = append(g.rows, r)
	}
	r.runs++
	if j.Got == checker.NotExercised {
		r.idle++
	} else if r.idle > 0 && r.unexpected == 0 && r.first.Got == checker.NotExercised {
		r.first = j
	}
	if !j.AsExpected && !j.Waits() {
		if r.unexpected == 0 {
			r.first = j
		}
		r.unexpected++
	}
}
