package suites

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"lockpick/checker"
	"lockpick/reports/palette"
	"lockpick/reports/words"
	"lockpick/scenarios/outcome"
)

// view is what a suite's report says, in either form: texts, marks and links.
type view struct {
	Headline string
	Title    string
	Found    []found
	Grids    []gridded
	Tone     string // of the headline: good, calm where nothing was expected of what was violated, or none
	Columns  []string
	Backends []string
	Rows     []row
	Undrawn  int // rows that are
	Cures    []group
	Flaws    []group
	Uncured  []group
	Skipped  []group
	Troubles []group // retries and errors
	Voices   []voice
	Facts    [][2]string
	Hidden   []string // properties without a column
	Rates    []string // pictures of many seeds
	Seeds    []string // and of these, which text can show
	More     []string // what else there is to say of the matrix
	Index    string
}

// row is one scenario on one backend.
type row struct {
	undrawn bool // its run is kept, and has no report
	ID      string
	Claim   string
	Href    string
	Backend string
	First   bool // the first row of its scenario
	Span    int  // rows of its scenario, where it is the first
	State   string
	Bad     bool   // it was run, and came otherwise
	Note    string // instead of cells
	Cells   []mark
	Numbers []string
}

// mark is one cell as it is shown.
type mark struct {
	Property, Symbol, Word, Detail, Because, Href, Class string
}

// look makes the report of a suite, with the latest ones of other backends beside it.
func look(s *Suite, others []*Suite, has there) view {
	all := append([]*Suite{s}, others...)
	_, broke := s.free()
	v := view{Headline: s.Headline(), Index: toStore + "index.html"}
	switch {
	case s.Code != outcome.ExitOK || s.Interrupted:
	case broke:
		v.Tone = "calm"
	default:
		v.Tone = "good"
	}
	v.Title = words.Clip(v.Headline, 120)
	v.Columns, v.Hidden = columns(all)
	v.Found, v.Grids = s.founds(has), s.grids(has)
	v.Rates, v.Seeds = s.Rates, slices.Clone(s.Rates)
	for _, c := range s.Scenarios {
		if c.Seeds != "" {
			v.Seeds = append(v.Seeds, c.Seeds)
		}
	}
	for _, x := range all {
		v.Backends = append(v.Backends, x.Backend)
	}
	v.Rows = rows(all, v.Columns, has)
	for _, r := range v.Rows {
		if r.undrawn {
			v.Undrawn++
		}
	}
	v.Cures, v.Flaws, v.Uncured = s.remedies(has)
	v.Voices = s.debate(has)
	for _, c := range s.Scenarios {
		if c.Skipped != "" {
			v.Skipped = append(v.Skipped, group{ID: c.ID(), Texts: []string{c.Skipped}})
		}
		if t := c.troubles(); len(t) > 0 {
			v.Troubles = append(v.Troubles, group{c.ID(), has.page(c.Dir, "#verdict"), t})
		}
	}
	for _, x := range others {
		v.More = append(v.More, fmt.Sprintf("The rows of %s are those of its suite of %s: %s", x.Backend, stamp(x.Started), x.Headline()))
	}
	v.Facts = s.facts()
	return v
}

// columns are the properties of which anything was expected or violated.
func columns(all []*Suite) (shown, hidden []string) {
	for _, p := range checker.Properties() {
		asked := func(c *Scenario) bool {
			cell := c.Cell(p)
			return cell != nil && (cell.Expected != "" || cell.Violated > 0)
		}
		if slices.ContainsFunc(all, func(s *Suite) bool { return slices.ContainsFunc(s.Scenarios, asked) }) {
			shown = append(shown, p)
		} else {
			hidden = append(hidden, p)
		}
	}
	return shown, hidden
}

// rows are all scenarios of all suites, those of one scenario together.
func rows(all []*Suite, columns []string, has there) []row {
	var out []row
	done := map[string]bool{}
	for _, s := range all {
		for _, c := range s.Scenarios {
			id := c.ID()
			if done[id] {
				continue
			}
			done[id] = true
			from := len(out)
			for _, x := range all {
				if i := slices.IndexFunc(x.Scenarios, func(c *Scenario) bool { return c.ID() == id }); i >= 0 {
					out = append(out, x.row(x.Scenarios[i], columns, has))
				}
			}
			out[from].First, out[from].Span = true, len(out)-from
		}
	}
	return out
}

func (s *Suite) row(c *Scenario, columns []string, has there) row {
	r := row{ID: c.ID(), Claim: c.Claim, Href: has.page(c.Dir, "#verdict"), Backend: s.Backend, State: c.State()}
	r.undrawn = r.Href == "" && c.Dir != ""
	expected := ""
	if len(c.Expect) > 0 {
		expected = " Expected: " + strings.Join(c.Expect, ", ") + "."
	}
	switch {
	case r.State == outcome.Skipped:
		r.Note = "– skipped: " + c.Skipped + "." + expected
	case r.State == "":
		r.State, r.Note = "not run", "– not run: the suite ended before."+expected
	case len(c.Cells) == 0:
		r.Note = "! " + r.State
		if len(c.Errors) > 0 {
			r.Note += ": " + words.FirstLine(c.Errors[0])
		}
		r.Note += "." + expected
	}
	r.Bad = c.Runs > 0 && r.State != outcome.AsExpected && r.State != outcome.NothingExpected
	if r.Note != "" {
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

// mark shows a cell: a symbol, a word, and what else there is to say.
func (s *Suite) mark(c *Scenario, cell *Cell, has there) mark {
	if cell == nil {
		return mark{Symbol: "–", Word: "not judged", Class: "none"}
	}
	m := mark{Property: cell.Property, Detail: cell.Cause, Because: cell.Because, Href: has.page(s.dir(c, cell.Seed), "#p-"+cell.Property)}
	if cell.Node != "" {
		m.Detail += " at " + cell.Node
	}
	if c.Runs > 1 && m.Detail != "" {
		m.Detail = fmt.Sprintf("seed %d: %s", cell.Seed, m.Detail)
	}
	switch {
	case cell.Unexpected > 0 && cell.open():
		m.Symbol, m.Word, m.Class = "?", cell.Got.String()+", expected "+cell.Expected, "open"
	case cell.Unexpected > 0:
		m.Symbol, m.Word, m.Class = "!", "unexpected: "+cell.Got.String()+", expected "+cell.Expected, "alarm"
	case cell.Got == checker.NotExercised:
		m.Symbol, m.Word, m.Class = "–", cell.Got.String(), "faint"
	case cell.Got == checker.Undecided:
		m.Symbol, m.Word, m.Class = "?", "undecided", "faint" // and nothing was expected
	case cell.Got == checker.Violated && (cell.Expected == "" || cell.Expected == outcome.AnyOutcome):
		m.Symbol, m.Word, m.Class = "✗", "violated", "harm"
		m.Detail += ", any outcome is fine"
	case cell.Got == checker.Violated:
		m.Symbol, m.Word, m.Class = "✗", "violated as expected", "harm"
	default:
		m.Symbol, m.Word, m.Class = "✓", "holds", "fine"
		if cell.Expected == "" {
			m.Class = "faint"
		}
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

// troubles are the tries that did not count, and the errors.
func (c *Scenario) troubles() []string {
	var out []string
	for _, why := range c.Retried {
		out = append(out, "tried again: "+why)
	}
	if more := c.Retries - len(c.Retried); more > 0 {
		out = append(out, fmt.Sprintf("tried again %d more times", more))
	}
	for _, e := range c.Errors {
		out = append(out, "error: "+e)
	}
	if len(out) > 0 && c.Command != "" {
		out = append(out, "run again: "+c.Command)
	}
	return out
}

func (s *Suite) facts() [][2]string {
	f := [][2]string{
		{"command", s.Command}, {"backend", s.Backend}, {"seeds", s.seeds()},
		{"begun", stamp(s.Started)}, {"wall clock", fmt.Sprintf("%.1f s", s.Seconds)},
		{"lockpick", s.Version}, {"built with", s.Go}, {"host", fmt.Sprintf("%s/%s, %s", s.OS, s.Arch, words.Plural(s.CPUs, "CPU"))},
		{"exit code", fmt.Sprint(s.Code)},
	}
	if len(s.Sets) > 0 {
		f = append(f, [2]string{"overrides", strings.Join(s.Sets, ", ") + " (they void the expectations)"})
	}
	return f
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

//go:embed suite.html.tmpl
var suiteTemplate string

//go:embed style.css
var style string

// texts are the functions of both pages.
var texts = template.FuncMap{
	"text":  visible,
	"style": func() template.CSS { return template.CSS(palette.CSS + style + gridStyle) },
}

var suitePage = template.Must(template.New("suite").Funcs(texts).Parse(suiteTemplate))

// writePage writes suite.html.
func writePage(w io.Writer, v view) error {
	if err := suitePage.Execute(w, v); err != nil {
		return fmt.Errorf("draw suite: %w", err)
	}
	return nil
}
