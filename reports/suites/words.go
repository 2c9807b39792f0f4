package suites

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// leastRuns are the runs of which a rate says anything.
const leastRuns = 20

// Rated reports whether a share of the runs on a backend is a rate. That takes independent
// trials, which only the simulation has: on others a run that missed its violation is
// tried again.
func (c Cell) Rated(backend string) bool { return backend == "sim" && c.Decided >= leastRuns }

// seeds names the seeds of a suite.
func (s *Suite) seeds() string {
	if s.Seeds <= 1 {
		return fmt.Sprintf("seed %d", s.Seed)
	}
	return fmt.Sprintf("seeds %d to %d", s.Seed, s.Seed+uint64(s.Seeds)-1)
}

// Headline says in a few sentences what came of the suite.
func (s *Suite) Headline() string {
	parts := outcome.Counted(s.Counts)
	if len(parts) == 0 {
		parts = []string{"nothing was run"}
	}
	text := fmt.Sprintf("%s on %s, %s", display.Plural(s.Runs+s.Counts[outcome.Skipped], "run"), s.Backend, s.seeds())
	found, missed := s.surprises()
	free, _ := s.free()
	if s.anyOutcome() {
		text += ", nothing expected: " + free
	} else {
		text += ": " + strings.Join(parts, ", ")
	}
	switch {
	case len(found) > 0:
		text += ". A violation was found where none was expected: " + display.List(found)
	case s.decided() && !s.anyOutcome():
		text += "; no violation found where none was expected, under these faults"
	}
	if len(missed) > 0 {
		text += ". Not as its scenario expects: " + display.List(missed)
	}
	if free != "" && !s.anyOutcome() {
		text += ". Nothing was expected of " + free
	}
	if s.Interrupted {
		text += fmt.Sprintf(". Interrupted after %d of %d runs: this is what there is", s.Runs, s.Planned)
	}
	return text + "."
}

// anyOutcome reports whether nothing was expected of any run.
func (s *Suite) anyOutcome() bool { return s.Runs > 0 && s.Counts[outcome.NothingExpected] == s.Runs }

// violated counts the runs that violated a property.
func (s *Suite) violated() map[string]int {
	out := map[string]int{}
	for _, c := range s.Scenarios {
		for _, cell := range c.Cells {
			if cell.Violated > 0 && cell.Number == "" {
				out[cell.Property] += cell.Violated
			}
		}
	}
	return out
}

// free says what came of the scenarios of which nothing was expected, "" if there are none,
// and whether anything was violated in them.
func (s *Suite) free() (text string, violated bool) {
	var all []string
	for _, c := range s.Scenarios {
		if c.State() != outcome.NothingExpected {
			continue
		}
		var parts []string
		for _, cell := range c.Cells {
			switch {
			case cell.Violated == 0 || cell.Number != "":
			case c.Runs == 1:
				parts = append(parts, cell.Property+" violated"+blame(cell))
			default:
				parts = append(parts, fmt.Sprintf("%s violated in %s", cell.Property, s.share(cell)))
			}
		}
		violated = violated || len(parts) > 0
		name := c.ID() + ": "
		if len(s.Scenarios) == 1 && s.anyOutcome() {
			name = ""
		}
		if len(parts) == 0 {
			parts = []string{"no violation found, under these faults"}
		}
		all = append(all, name+strings.Join(parts, ", "))
	}
	return strings.Join(few(all), "; "), violated
}

// decided reports whether any run decided a property.
func (s *Suite) decided() bool {
	return slices.ContainsFunc(s.Scenarios, func(c *Scenario) bool {
		return slices.ContainsFunc(c.Cells, func(cell Cell) bool { return cell.Decided > 0 })
	})
}

// mostNamed bounds a list in a sentence.
const mostNamed = 8

// surprises are the violations that nobody expected, and what else came otherwise.
func (s *Suite) surprises() (found, missed []string) {
	for _, c := range s.Scenarios {
		for _, cell := range c.Cells {
			switch {
			case cell.Unexpected == 0 || cell.open():
			case cell.Follows != "" && c.Cell(cell.Follows) != nil && c.Cell(cell.Follows).Unexpected > 0: // it is told
			case cell.Number != "":
				missed = append(missed, c.ID()+" "+cell.Number)
			case cell.Got == checker.Violated && strings.HasPrefix(cell.Expected, string(checker.Holds)):
				found = append(found, c.ID()+" "+cell.Property+blame(cell))
			default:
				missed = append(missed, fmt.Sprintf("%s %s %s%s, expected %s", c.ID(), cell.Property, cell.Got, blame(cell), cell.Expected))
			}
		}
	}
	return few(found), few(missed)
}

func few(all []string) []string {
	if len(all) > mostNamed {
		return append(all[:mostNamed:mostNamed], fmt.Sprintf("%d more", len(all)-mostNamed))
	}
	return all
}

// blame is the cause of a violation and its node, in brackets.
func blame(c Cell) string {
	text := c.Cause
	if c.Node != "" {
		text += " at " + c.Node
	}
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// longestText bounds one text of a report, in characters; nobody reads more, and files
// from elsewhere may hold anything.
const longestText = 4096

func visible(s string) string { return display.Visible(s, longestText) }

// markdown writes a text so that Markdown shows it as it is, in a cell of a table, too.
var markdownEscapes = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;",
	"&", "&amp;", "|", `\|`, "#", `\#`, "~", `\~`, "!", `\!`, "@", "@\u200b")

func markdown(s string) string { return markdownEscapes.Replace(visible(s)) }
