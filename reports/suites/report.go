package suites

import (
	"lockpick/checker"
	"lockpick/scenarios/outcome"
)

// Report gathers outcomes. Its zero value is ready.
type GitHub struct {
	groups []*githubGroup
	count  map[string]int // outcomes by state
	runs   int
}

// group is the runs of one scenario on one backend.
type githubGroup struct {
	scenario, backend string
	runs              int
	count             map[string]int
	rows              []*githubRow
	skipped           string
	bad               []outcome.Outcome // the first that were not as expected
	good              *outcome.Outcome  // the first that was, and shows a violation
}

// row is one property in all runs of a scenario.
type githubRow struct {
	property, expected string
	first              outcome.Judgement // that was not as expected; else the first
	runs, unexpected   int
	violated, decided  int  // runs
	free               bool // nothing is expected of it, and it was violated
	idle               int  // runs that gave no occasion to violate it
}

// mostBad is how many runs of one scenario are told of.
const mostBad = 3

// Add adds the outcome of one run.
func (r *GitHub) Add(o outcome.Outcome) {
	if r.count == nil {
		r.count = map[string]int{}
	}
	g := outcome.Entry(&r.groups, func(g *githubGroup) bool { return g.scenario == o.Scenario && g.backend == o.Backend },
		githubGroup{scenario: o.Scenario, backend: o.Backend, count: map[string]int{}})
	r.runs++
	r.count[o.State()]++
	g.add(o)
}

func (g *githubGroup) add(o outcome.Outcome) {
	g.runs++
	g.count[o.State()]++
	if o.Skipped != "" {
		g.skipped = o.Skipped
	}
	if o.Code != outcome.ExitOK && len(g.bad) < mostBad {
		g.bad = append(g.bad, o)
	}
	for _, j := range o.Judgements {
		if j.Tells() {
			g.judged(j)
		}
		if o.Code == outcome.ExitOK && g.good == nil && j.Got == checker.Violated && j.Number == nil {
			g.good = &o
		}
	}
}

func (g *githubGroup) judged(j outcome.Judgement) {
	r := outcome.Entry(&g.rows, func(r *githubRow) bool { return r.property == j.Property }, githubRow{property: j.Property, expected: j.Expected, first: j})
	r.runs++
	r.free = r.free || j.Free()
	switch j.Got {
	case checker.Violated:
		r.violated++
		r.decided++
	case checker.Holds:
		r.decided++
	}
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
