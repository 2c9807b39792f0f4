package suites

import (
	"fmt"
	"io"
	"strings"

	"lockpick/checker"
	"lockpick/reports/figures"
)

// pictures draws a suite of many seeds: for each scenario which seed came out how, and
// for each property how often it was violated.
func (s *Suite) pictures() []File {
	if s.Seeds <= 1 {
		return nil
	}
	var files []File
	add := func(name string, svg []byte) string {
		files = append(files, File{Name: name, Write: func(w io.Writer) error {
			_, err := w.Write(svg)
			return err
		}})
		return name
	}
	for _, c := range s.Scenarios {
		if g := s.grid(c); g != nil {
			c.Seeds = add("seeds-"+strings.ReplaceAll(c.ID(), "/", "+")+".svg", g.svg(func(uint64) string { return "" }, true))
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
		f := figures.Rates(fmt.Sprintf("%s violated, of the seeds that exercised it", property), rates)
		s.Rates = append(s.Rates, add("rates-"+property+".svg", f.SVG()))
	}
	return files
}

// mostRates is how many scenarios one picture can name.
const mostRates = 12
