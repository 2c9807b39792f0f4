package suites

import (
	"cmp"
	"slices"

	"lockpick/checker"
	"lockpick/scenarios/outcome"
)

// Cause is one way in which a property was violated in many seeds of a scenario, with the
// first seed that shows it, and the one in which it is seen after the fewest events.
type Cause struct {
	Property string  `json:"property"`
	Cause    string  `json:"cause"`
	Runs     int     `json:"runs"`
	First    Example `json:"first"`
	Shortest Example `json:"shortest"`
}

// Example is a run that shows a violation.
type Example struct {
	Seed    uint64 `json:"seed"`
	Events  int    `json:"events"` // up to the last one that proves it
	Command string `json:"command"`
}

// Note takes what one of many seeds violated, whatever the order in which they come.
func (c *Scenario) Note(o outcome.Outcome) {
	for _, j := range o.Judgements {
		if j.Got != checker.Violated || j.Number != nil {
			continue
		}
		this := Example{o.Seed, j.Length, o.Command}
		i := slices.IndexFunc(c.Causes, func(x Cause) bool { return x.Property == j.Property && x.Cause == j.Cause })
		if i < 0 {
			c.Causes = append(c.Causes, Cause{Property: j.Property, Cause: j.Cause, First: this, Shortest: this})
			i = len(c.Causes) - 1
		}
		x := &c.Causes[i]
		x.Runs++
		if this.Seed < x.First.Seed {
			x.First = this
		}
		if cmp.Or(cmp.Compare(this.Events, x.Shortest.Events), cmp.Compare(this.Seed, x.Shortest.Seed)) < 0 {
			x.Shortest = this
		}
	}
	slices.SortFunc(c.Causes, func(a, b Cause) int {
		at := func(x Cause) int { return slices.Index(checker.Properties(), x.Property) }
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Cause, b.Cause))
	})
}

// Examples are the seeds that are named as the first or the shortest of a cause, and that
// the store does not have.
func (c *Scenario) Examples() []uint64 {
	var out []uint64
	for _, x := range c.Causes {
		for _, seed := range []uint64{x.First.Seed, x.Shortest.Seed} {
			if _, kept := c.Kept[seed]; !kept && !slices.Contains(out, seed) {
				out = append(out, seed)
			}
		}
	}
	return out
}

// Keep says where a run lies that was made again to be kept.
func (s *Suite) Keep(o outcome.Outcome) {
	if c := s.scenario(o.Scenario); o.Dir != "" {
		c.keep(o.Seed, s.relative(o.Dir))
	}
}

func (c *Scenario) keep(seed uint64, dir string) {
	if c.Kept == nil {
		c.Kept = map[uint64]string{}
	}
	c.Kept[seed] = dir
	if seed == c.shown.Seed {
		c.Dir = dir
	}
}

// found is a cause with what a page shows of it.
type found struct {
	Cause
	Scenario string
	First    string // where the first is read, "": it was not kept
	Shortest string
}

// founds are the causes of all scenarios of a suite.
func (s *Suite) founds(has there) []found {
	var out []found
	for _, c := range s.Scenarios {
		for _, x := range c.Causes {
			read := func(e Example) string { return has.page(c.Kept[e.Seed], "#p-"+x.Property) }
			out = append(out, found{Cause: x, Scenario: c.ID(), First: read(x.First), Shortest: read(x.Shortest)})
		}
	}
	return out
}
