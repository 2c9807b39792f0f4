package suites

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// family is a scenario with its variants.
type family struct {
	Name   string
	Rows   []row
	Folded int // variants that stand behind the scenario until they are asked for

	rank int // the least of its rows
}

// row is one scenario on one backend.
type row struct {
	ID, Claim, Href string
	Backend         string
	State, Symbol   string
	Note            string // instead of cells
	Cells           []mark
	Numbers         []string
}

// tabled is a family as the page's table shows it.
type tabled struct {
	Family  *family
	Several bool // there are several backends
	Wide    int  // columns of properties
}

// Behind reports whether the row is folded behind that of the scenario.
func (f *family) Behind(r row) bool { return f.Folded > 0 && r.ID != f.Rows[0].ID }

// rank is a state's place in the table.
func rank(state string) int {
	switch state {
	case outcome.Failed, outcome.Unexpected:
		return 0
	case outcome.Undecided, outcome.Interrupted:
		return 1
	}
	return 2
}

// Bad reports whether it came otherwise than expected.
func (r row) Bad() bool { return rank(r.State) == 0 }

// mark is one cell as it is shown.
type mark struct {
	Property, Symbol, Word, Detail, Because, Href, Class string
	Got, As                                              string // the property's outcome, and whether it is as expected
}

// skip is what did not run, for one reason.
type skip struct {
	State, Reason, Backend string
	IDs                    []string
}

// leastFolded is from how many rows on a table folds variants.
const leastFolded = 16

// fill makes the table.
func (v *view) fill(all []*Suite, has there) {
	var families []*family
	rows, states := 0, map[string]bool{}
	for _, s := range all {
		for _, c := range s.Scenarios {
			if c.Runs == 0 {
				x := skip{State: outcome.Skipped, Reason: c.Skipped, Backend: s.Backend}
				if c.Skipped == "" {
					x.State, x.Reason = "not run", "the suite ended before"
				}
				states[x.State] = true
				same := outcome.Entry(&v.Skipped, func(o *skip) bool { return o.State == x.State && o.Reason == x.Reason && o.Backend == x.Backend }, x)
				same.IDs = append(same.IDs, c.ID())
				continue
			}
			r := s.row(c, v.Columns, has)
			if r.Href == "" && c.Dir != "" {
				v.Undrawn++
			}
			f := outcome.Entry(&families, func(f *family) bool { return f.Name == c.Name }, family{Name: c.Name, rank: 2})
			f.Rows, f.rank = append(f.Rows, r), min(f.rank, rank(r.State))
			states[r.State] = true
			rows++
		}
	}
	slices.SortStableFunc(families, func(a, b *family) int { return cmp.Compare(a.rank, b.rank) })
	for _, f := range families {
		f.arrange(rows)
		if f.rank < 2 {
			v.Wrong = append(v.Wrong, f)
		} else {
			v.Fine = append(v.Fine, f)
		}
	}
	v.States = slices.DeleteFunc(append(outcome.States(), "not run"), func(s string) bool { return !states[s] })
}

// arrange puts the rows of one variant side by side, whatever their backend, and folds variants
// in a long table, unless one of them came otherwise than expected.
func (f *family) arrange(rows int) {
	at := map[string]int{}
	for _, r := range f.Rows {
		if _, seen := at[r.ID]; !seen {
			at[r.ID] = len(at)
		}
	}
	slices.SortStableFunc(f.Rows, func(a, b row) int { return cmp.Compare(at[a.ID], at[b.ID]) })
	if rows >= leastFolded && f.rank == 2 {
		f.Folded = len(at) - 1
	}
}

func (s *Suite) row(c *Scenario, columns []string, has there) row {
	r := row{ID: c.ID(), Claim: c.Claim, Href: has.page(c.Dir, "#verdict"), Backend: s.Backend, State: c.State(), Symbol: symbols[c.State()]}
	if len(c.Cells) == 0 {
		r.Note = "nothing was judged"
		if len(c.Errors) > 0 {
			r.Note = display.FirstLine(c.Errors[0])
		}
		return r
	}
	for _, p := range columns {
		r.Cells = append(r.Cells, s.mark(c, c.Cell(p), has))
	}
	for _, cell := range c.Cells {
		switch {
		case cell.Number == "":
		case cell.Unexpected > 0:
			r.Numbers = append(r.Numbers, "! "+cell.Number)
		default:
			r.Numbers = append(r.Numbers, cell.Number)
		}
	}
	return r
}

// columns are the properties of which anything was expected or violated.
func columns(all []*Suite) (shown, hidden []string) {
	for _, p := range checker.Properties() {
		asked := func(c *Scenario) bool {
			cell := c.Cell(p)
			return cell != nil && (cell.Expected != "" || cell.Violated > 0)
		}
		judged := func(c *Scenario) bool { return c.Cell(p) != nil }
		any := func(is func(*Scenario) bool) bool {
			return slices.ContainsFunc(all, func(s *Suite) bool { return slices.ContainsFunc(s.Scenarios, is) })
		}
		switch {
		case any(asked):
			shown = append(shown, p)
		case any(judged) || p != checker.HolderTold:
			hidden = append(hidden, p)
		}
	}
	return shown, hidden
}

// mark shows a cell: a symbol, a word, and what else there is to say.
func (s *Suite) mark(c *Scenario, cell *Cell, has there) mark {
	if cell == nil {
		return mark{Symbol: "–", Word: "not judged", Class: "faint"}
	}
	m := mark{Property: cell.Property, Detail: cell.Cause, Because: cell.Because, Href: has.page(s.dir(c, cell.Seed), "#p-"+cell.Property),
		Got: cell.Got.String(), As: outcome.AsExpected}
	if cell.Node != "" {
		m.Detail += " at " + cell.Node
	}
	if c.Runs > 1 && m.Detail != "" {
		m.Detail = fmt.Sprintf("seed %d: %s", cell.Seed, m.Detail)
	}
	if cell.Expected == "" || cell.Expected == outcome.AnyOutcome {
		m.As = outcome.NothingExpected
	}
	switch {
	case cell.Unexpected > 0 && cell.open():
		m.As, m.Symbol, m.Word, m.Class = outcome.Undecided, "?", m.Got+", expected "+cell.Expected, "open"
	case cell.Unexpected > 0:
		m.As, m.Symbol, m.Word, m.Class = outcome.Unexpected, "!", "unexpected: "+m.Got+", expected "+cell.Expected, "alarm"
	case cell.Got == checker.NotExercised:
		m.Symbol, m.Word, m.Class, m.Href = "–", m.Got, "faint", ""
	case cell.Got == checker.Undecided:
		m.Symbol, m.Word, m.Class, m.Href = "?", m.Got, "faint", "" // and nothing was expected
	case cell.Got == checker.Violated && m.As == outcome.NothingExpected:
		m.Symbol, m.Word, m.Class = "✗", "violated", "harm"
		if c.State() != outcome.NothingExpected {
			m.Detail += ", any outcome is fine"
		}
	case cell.Got == checker.Violated:
		m.Symbol, m.Word, m.Class = "✗", "violated as expected", "harm"
	case m.As == outcome.NothingExpected:
		m.Symbol, m.Word, m.Class, m.Href = "✓", "holds", "faint", ""
	default:
		m.Symbol, m.Word, m.Class, m.Href = "✓", "holds", "fine", ""
	}
	m.Detail = strings.TrimPrefix(m.Detail, ", ")
	if text := s.often(c, cell); text != "" {
		m.Detail = strings.TrimPrefix(m.Detail+"; "+text, "; ")
	}
	return m
}

// often says in how many runs it came so, where there were several.
func (s *Suite) often(c *Scenario, cell *Cell) string {
	if c.Runs <= 1 {
		return ""
	}
	text := "violated in " + s.share(*cell)
	if cell.Idle > 0 {
		text += fmt.Sprintf("; %d did not exercise it", cell.Idle)
	}
	if cell.Unexpected > 0 {
		text += fmt.Sprintf("; not as expected in %d of %d", cell.Unexpected, c.Runs)
	}
	return text
}

// share is how many of the runs that exercised a property violated it.
func (s *Suite) share(c Cell) string {
	if c.Rated(s.Backend) {
		return outcome.Rate(c.Violated, c.Decided)
	}
	return fmt.Sprintf("%d of %d", c.Violated, c.Decided)
}

// dir is where the run of a scenario with a seed lies.
func (s *Suite) dir(c *Scenario, seed uint64) string {
	if s.Seeds > 1 {
		return c.Kept[seed]
	}
	return c.Dir
}
