package suites

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/reports/display"
	"lockpick/reports/figures"
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
		case any(judged) || p != verdict.HolderTold:
			hidden = append(hidden, p)
		}
	}
	return shown, hidden
}

// mark shows a cell: a symbol, a word, and what else there is to say.
func (s *Suite) mark(c *Scenario, cell *outcome.Cell, has there) mark {
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
	case cell.Unexpected > 0 && cell.Open():
		m.As, m.Symbol, m.Word, m.Class = outcome.Undecided, "?", m.Got+", expected "+cell.Expected, "open"
	case cell.Unexpected > 0:
		m.As, m.Symbol, m.Word, m.Class = outcome.Unexpected, "!", "unexpected: "+m.Got+", expected "+cell.Expected, "alarm"
	case cell.Got == verdict.NotExercised:
		m.Symbol, m.Word, m.Class, m.Href = "–", m.Got, "faint", ""
	case cell.Got == verdict.Undecided:
		m.Symbol, m.Word, m.Class, m.Href = "?", m.Got, "faint", "" // and nothing was expected
	case cell.Got == verdict.Violated && m.As == outcome.NothingExpected:
		m.Symbol, m.Word, m.Class = "✗", "violated", "harm"
		if c.State() != outcome.NothingExpected {
			m.Detail += ", any outcome is fine"
		}
	case cell.Got == verdict.Violated:
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
func (s *Suite) often(c *Scenario, cell *outcome.Cell) string {
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
func (s *Suite) share(c outcome.Cell) string {
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
	if seed == c.Shown.Seed {
		c.Dir = dir
	}
}

// found is a cause with what a page shows of it.
type found struct {
	outcome.Cause
	Scenario string
	First    string // where the first is read, "": it was not kept
	Shortest string
}

// founds are the causes of all scenarios of a suite.
func (s *Suite) founds(has there) []found {
	var out []found
	for _, c := range s.Scenarios {
		for _, x := range c.Causes {
			read := func(e outcome.Example) string { return has.page(c.Kept[e.Seed], "#p-"+x.Property) }
			out = append(out, found{Cause: x, Scenario: c.ID(), First: read(x.First), Shortest: read(x.Shortest)})
		}
	}
	return out
}

// mostCells bounds the seeds that a grid shows, the first ones.
const mostCells = 10_000

// Letters of a grid's cells.
const (
	cellNone     = ' ' // not run
	cellFine     = '.' // as expected
	cellHarm     = 'v' // a property was violated, and that was expected or may be
	cellOther    = 'x' // not as expected
	cellOpen     = '?' // undecided
	cellFailed   = '-'
	cellAlphabet = " .vx?-"
)

// cellWords say what a cell is.
var cellWords = map[rune]string{cellNone: "not run", cellFine: "no violation, or none that was not expected", cellHarm: "violated, as may be",
	cellOther: "not as expected", cellOpen: "undecided or interrupted", cellFailed: "failed"}

// mark notes how one of many seeds came out, and where it lies.
func (c *Scenario) mark(o outcome.Outcome, s *Suite) {
	i := o.Seed - s.Seed
	cells := min(s.Seeds, mostCells)
	if i >= uint64(cells) {
		return
	}
	if c.States == "" {
		c.States = strings.Repeat(string(cellNone), cells)
	}
	letter := cellFailed
	switch o.State() {
	case outcome.AsExpected, outcome.NothingExpected:
		letter = cellFine
		if o.Violated() {
			letter = cellHarm
		}
	case outcome.Unexpected:
		letter = cellOther
	case outcome.Undecided, outcome.Interrupted:
		letter = cellOpen
	}
	c.States = c.States[:i] + string(letter) + c.States[i+1:]
	if o.Dir != "" { // it is as seen from the suite already
		c.keep(o.Seed, o.Dir)
	}
}

// gridded is the seeds of a scenario as a page shows them: a cell each, in rows.
type gridded struct {
	ID, Command  string // which runs a seed again, with N for it
	First        uint64
	Columns      int
	Size, Side   int // of a cell; and of the text before a row
	States, More string
	Picture      template.HTML
}

// seedOf is where a command says its seed.
var seedOf = regexp.MustCompile(` --seed \d+`)

// grids are the seeds of all scenarios.
func (s *Suite) grids(has there) []gridded {
	var out []gridded
	for _, c := range s.Scenarios {
		if g := s.grid(c); g != nil {
			g.Picture = template.HTML(g.svg(func(seed uint64) string { return has.page(c.Kept[seed], "#verdict") }, false)) // every text in it is escaped
			out = append(out, *g)
		}
	}
	return out
}

// grid lays the seeds of a scenario out; nil: it has not many.
func (s *Suite) grid(c *Scenario) *gridded {
	if c.States == "" {
		return nil
	}
	g := &gridded{ID: c.ID(), First: s.Seed, Columns: 20, Size: 14, States: c.States, Command: seedOf.ReplaceAllLiteralString(c.Command, " --seed N")}
	switch n := len(c.States); {
	case n > 1000:
		g.Columns, g.Size = 100, 8
	case n > 400:
		g.Columns = 50
	}
	g.Side = max(34, 8+7*len(fmt.Sprint(s.Seed+uint64(len(c.States)))))
	if s.Seeds > len(c.States) {
		g.More = fmt.Sprintf("The first %d of %d seeds.", len(c.States), s.Seeds)
	}
	return g
}

// signs are what marks a cell beside its colour, in a square of 14.
var signs = map[rune]string{cellHarm: "M4 4l3 6 3-6", cellOther: "M4 4l6 6m0-6l-6 6", cellOpen: "M4.5 5q0-2 2.5-2t2.5 2q0 1.5-2.5 2v2m0 1.5v1", cellFailed: "M4 7h6"}

// gridStyle is a grid's colours, which it carries along where it is a file.
const gridStyle = `.grid text{font:11px system-ui,sans-serif;fill:var(--faint)}.grid .c0{fill:var(--line);opacity:.35}.grid .c1{fill:var(--fine);opacity:.55}.grid .c2{fill:var(--stall)}.grid .c3{fill:var(--alarm)}.grid .c4{fill:var(--clock)}.grid .c5{fill:var(--other)}
.grid .sign{fill:none;stroke:#1b1b1b;stroke-width:1.6}.grid a rect{fill:transparent;stroke:var(--ink);stroke-width:1.5}.grid a:focus rect,.grid a:hover rect,.grid .pick{stroke:var(--lease);stroke-width:3;fill:none}`

// svg draws it. Cells of a kind are one path, so that ten thousand are few bytes; one whose
// run was kept is a link to its report.
func (g *gridded) svg(read func(seed uint64) string, alone bool) []byte {
	const top = 34
	rows := (len(g.States) + g.Columns - 1) / g.Columns
	columns := min(g.Columns, len(g.States))
	var b bytes.Buffer
	width, height := max(g.Side+columns*g.Size+2, 200), top+rows*g.Size+2
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="grid" viewBox="0 0 %d %d" width="%d" height="%d">`, width, height, width, height)
	if alone {
		fmt.Fprintf(&b, "<style>%s%s</style>", display.ColorsCSS, gridStyle)
	}
	fmt.Fprintf(&b, `<text x="0" y="11">%s</text><text x="0" y="%d">seed</text>`, template.HTMLEscapeString(visible(fmt.Sprintf("%s: %s", g.ID, display.Plural(len(g.States), "seed")))), top-5)
	for x := 0; x < columns; x += 10 {
		fmt.Fprintf(&b, `<text x="%d" y="%d">+%d</text>`, g.Side+x*g.Size, top-5, x)
	}
	for y := 0; y < rows; y += (13 + g.Size) / g.Size {
		fmt.Fprintf(&b, `<text x="0" y="%d">%d</text>`, top+y*g.Size+min(11, g.Size+2), g.First+uint64(y*g.Columns))
	}
	for kind, letter := range cellAlphabet {
		var cells, marks strings.Builder
		for i, state := range g.States {
			if state != letter {
				continue
			}
			x, y := g.at(i)
			fmt.Fprintf(&cells, "M%d %dh%dv%dh-%dz", x, y+top, g.Size-1, g.Size-1, g.Size-1)
			if sign := signs[letter]; sign != "" && g.Size == 14 {
				marks.WriteString(moved(sign, x, y+top))
			}
		}
		if cells.Len() > 0 {
			fmt.Fprintf(&b, `<path class="c%d" d="%s"/>`, kind, &cells)
		}
		if marks.Len() > 0 {
			fmt.Fprintf(&b, `<path class="sign" d="%s"/>`, &marks)
		}
	}
	for i, state := range g.States {
		seed := g.First + uint64(i)
		if href := read(seed); href != "" {
			x, y := g.at(i)
			fmt.Fprintf(&b, `<a href="%s" data-at="%d" aria-label="seed %d: %s, report"><rect x="%d" y="%d" width="%d" height="%d"/></a>`,
				template.HTMLEscapeString(href), i, seed, cellWords[state], x, y+top, g.Size-1, g.Size-1)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// at is a cell's corner, below the head.
func (g *gridded) at(i int) (x, y int) { return g.Side + i%g.Columns*g.Size, i / g.Columns * g.Size }

// moved is a sign at a cell: its path begins with where it is in the square.
func moved(sign string, x, y int) string {
	var dx, dy float64
	fmt.Sscanf(sign, "M%f %f", &dx, &dy)
	rest := strings.TrimLeft(sign[1:], "0123456789. ")
	return fmt.Sprintf("M%g %g%s", float64(x)+dx-0.5, float64(y)+dy-0.5, rest)
}

// pictures draws a suite of many seeds: for each scenario which seed came out how, and
// for each property how often it was violated.
func (s *Suite) pictures() []File {
	if s.Seeds <= 1 {
		return nil
	}
	var files []File
	add := func(name string, svg []byte) string {
		files = append(files, File{name, svg})
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

// SeedRange names the seeds of a suite.
func (s *Suite) SeedRange() string {
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
	text := fmt.Sprintf("%s on %s, %s", display.Plural(s.Runs+s.Counts[outcome.Skipped], "run"), s.Backend, s.SeedRange())
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
		return slices.ContainsFunc(c.Cells, func(cell outcome.Cell) bool { return cell.Decided > 0 })
	})
}

// mostNamed bounds a list in a sentence.
const mostNamed = 8

// surprises are the violations that nobody expected, and what else came otherwise.
func (s *Suite) surprises() (found, missed []string) {
	for _, c := range s.Scenarios {
		for _, cell := range c.Cells {
			switch {
			case cell.Unexpected == 0 || cell.Open():
			case cell.Follows != "" && c.Cell(cell.Follows) != nil && c.Cell(cell.Follows).Unexpected > 0: // it is told
			case cell.Number != "":
				missed = append(missed, c.ID()+" "+cell.Number)
			case cell.Got == verdict.Violated && strings.HasPrefix(cell.Expected, string(verdict.Holds)):
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
func blame(c outcome.Cell) string {
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

// writeMarkdown writes suite.md: the facts of suite.html for issues and wikis.
func writeMarkdown(w io.Writer, v view) {
	fmt.Fprintf(w, "# Safety report\n\n%s\n\n", markdown(v.Headline))
	fmt.Fprint(w, "## Expected and actual\n\n✓ holds · ✗ violated as expected, with its cause · ! unexpected · ? undecided · – skipped\n\n")
	for _, m := range v.More {
		fmt.Fprintf(w, "%s\n\n", markdown(m))
	}
	matrix(w, v)
	if len(v.Hidden) > 0 {
		fmt.Fprintf(w, "\nNot shown, for nothing was expected of them and nothing violated them: %s.\n", strings.Join(v.Hidden, ", "))
	}
	if len(v.Found) > 0 {
		fmt.Fprint(w, "\n## What was violated, and with which seed it is seen\n\n| scenario | property | cause | seeds | first | shortest | run again |\n|---|---|---|---|---|---|---|\n")
	}
	for _, x := range v.Found {
		fmt.Fprintf(w, "| %s | %s | %s | %d | %s | %s | `%s` |\n", markdown(x.Scenario), markdown(x.Property), markdown(x.Cause.Cause), x.Runs,
			link(fmt.Sprint(x.Cause.First.Seed), x.First), link(fmt.Sprintf("%d (%d events)", x.Cause.Shortest.Seed, x.Cause.Shortest.Events), x.Shortest),
			strings.NewReplacer("`", "'", "|", "\\|").Replace(visible(x.Cause.Shortest.Command)))
	}
	if len(v.Seeds) > 0 {
		fmt.Fprint(w, "\n## Seeds\n\n")
	}
	for _, name := range v.Seeds {
		fmt.Fprintf(w, "![%s](%s)\n", markdown(name), url.PathEscape(name))
	}
	skipped(w, v)
	troubled(w, v)
	fmt.Fprint(w, "\n## How it was run\n\n| | |\n|---|---|\n")
	for _, f := range v.Facts {
		fmt.Fprintf(w, "| %s | %s |\n", f[0], markdown(f[1]))
	}
	fmt.Fprint(w, "\n## What this can't tell\n\nEach line speaks of the runs above, with their seeds and under their faults. Where a property holds, no violation "+
		"was found in them; other seeds, other faults, other settings and other timings may show one. In the simulation the nodes and the network "+
		"are models. Runs that are skipped or undecided say nothing.\n")
}

func matrix(w io.Writer, v view) {
	several := len(v.Backends) > 1
	heads := append([]string{"scenario"}, v.Columns...)
	if several {
		heads = append([]string{"scenario", "backend"}, v.Columns...)
	}
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	var rows []row
	for _, f := range slices.Concat(v.Wrong, v.Fine) {
		rows = append(rows, f.Rows...)
	}
	for _, r := range rows {
		name := link(r.ID, r.Href)
		if r.State != "as expected" {
			name += " (" + r.State + ")"
		}
		for _, n := range r.Numbers {
			name += "; " + markdown(n)
		}
		cells := []string{name}
		if several {
			cells = append(cells, markdown(r.Backend))
		}
		if r.Note != "" {
			cells = append(cells, markdown(r.Note))
		}
		for _, m := range r.Cells {
			text := m.Symbol + " " + m.Word
			if m.Detail != "" {
				text += " (" + m.Detail + ")"
			}
			cells = append(cells, link(text, m.Href))
		}
		for len(cells) < len(heads) {
			cells = append(cells, "–")
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}

func skipped(w io.Writer, v view) {
	if len(v.Skipped) > 0 {
		fmt.Fprint(w, "\n## Skipped\n\n")
	}
	for _, x := range v.Skipped {
		fmt.Fprintf(w, "- %d %s on %s: %s: %s\n", len(x.IDs), x.State, markdown(x.Backend), markdown(x.Reason), markdown(strings.Join(x.IDs, ", ")))
	}
}

func troubled(w io.Writer, v view) {
	if len(v.Troubles) > 0 {
		fmt.Fprint(w, "\n## Tried again or failed\n\n")
	}
	for _, g := range v.Troubles {
		fmt.Fprintf(w, "- %s: ", link(g.ID, g.Href))
		for i, t := range g.Texts {
			if i > 0 {
				fmt.Fprint(w, " ")
			}
			fmt.Fprint(w, markdown(t))
		}
		fmt.Fprintln(w)
	}
}

func link(text, href string) string {
	if href == "" {
		return markdown(text)
	}
	return fmt.Sprintf("[%s](%s)", markdown(text), strings.NewReplacer("(", "%28", ")", "%29").Replace(href))
}
