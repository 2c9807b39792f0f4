package suites

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/reports/figures"
	"lockpick/scenarios/outcome"
)

// mark notes how one of many seeds came out.
func (c *Scenario) mark(o outcome.Outcome, s *Suite) {
	i := o.Seed - s.Seed
	if s.Seeds <= 1 || i >= uint64(s.Seeds) {
		return
	}
	if c.states == nil {
		c.states = make([]string, s.Seeds)
	}
	c.states[i] = o.State()
	if o.State() == outcome.AsExpected && slices.ContainsFunc(o.Judgements, func(j outcome.Judgement) bool { return j.Got == checker.Violated }) {
		c.states[i] = figures.Harm
	}
}

// pictures draws a suite of many seeds: for each scenario which seed came out how, and
// for each property how often it was violated.
func (s *Suite) pictures() ([]File, error) {
	if s.Seeds <= 1 {
		return nil, nil
	}
	var files []File
	add := func(name string, f *figures.Figure, err error) (string, error) {
		if err != nil || f == nil {
			return "", err
		}
		files = append(files, File{Name: name, Write: func(w io.Writer) error {
			_, err := w.Write(f.SVG)
			return err
		}})
		return name, nil
	}
	for _, c := range s.Scenarios {
		f, err := figures.Strip(visible(c.ID()), s.Seed, c.states)
		if c.Seeds, err = add("seeds-"+strings.ReplaceAll(c.ID(), "/", "+")+".svg", f, err); err != nil {
			return nil, err
		}
	}
	for _, property := range checker.Properties() {
		var rates []figures.Rate
		came := false
		for _, c := range s.Scenarios {
			if cell := c.Cell(property); cell != nil && cell.Decided > 0 {
				rates = append(rates, figures.Rate{Name: visible(c.ID()), K: cell.Violated, N: cell.Decided})
				came = came || cell.Violated > 0
			}
		}
		if !came || len(rates) > mostRates {
			continue
		}
		f, err := figures.Rates(fmt.Sprintf("%s violated, of the seeds that exercised it", property), rates)
		name, err := add("rates-"+property+".svg", f, err)
		if err != nil {
			return nil, err
		}
		s.Rates = append(s.Rates, name)
	}
	return files, nil
}

// mostRates is how many scenarios one picture can name.
const mostRates = 12
