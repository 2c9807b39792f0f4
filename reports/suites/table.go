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

// family is a scenario and its variants.
type family struct {
	Name      string
	Rows      []row
	NumFolded int // number of variants that are hidden until unfolded

	rank int // the lowest rank of any row
}

// row is a scenario on one backend.
type row struct {
	ID, Claim, Href string
	Backend         string
	State, Symbol   string
	Note            string // replaces the cells
	Cells           []matrixCell
	Numbers         []string
}

// ClaimBelow returns the claim to print below the name of row i, or "" if an earlier row shows it.
func (f *family) ClaimBelow(i int) string {
	if i > 0 && (f.Rows[i].Claim == f.Rows[i-1].Claim || f.Rows[i].Claim == f.Rows[0].Claim) {
		return ""
	}
	return f.Rows[i].Claim
}

// familyTable is a family with parameters of the table it is in.
type familyTable struct {
	Family      *family
	HasBackends bool // the table has a backend column
	NumColumns  int  // number of property columns
}

// IsFolded reports whether the row is hidden until unfolded.
func (f *family) IsFolded(r row) bool { return f.NumFolded > 0 && r.ID != f.Rows[0].ID }

// stateRank returns a state's sort rank in the table.
func stateRank(state string) int {
	switch state {
	case outcome.StateFailed, outcome.StateUnexpected:
		return 0
	case outcome.StateUndecided, outcome.StateInterrupted:
		return 1
	}
	return 2
}

// IsUnexpected reports whether a result in the row was unexpected.
func (r row) IsUnexpected() bool { return stateRank(r.State) == 0 }

type matrixCell struct {
	Property, Symbol, Word, Detail, Because, Href, Class string
	Got, Expectation                                     string // the outcome and whether it was as expected, as constants for the filters
}

// skipGroup is a list of scenarios that did not run for the same reason.
type skipGroup struct {
	State, Reason, Backend string
	IDs                    []string
}

// minFoldRows is the smallest number of rows for which a page folds the table and its variants.
const minFoldRows = 16

func (v *view) fillTable(all []*Suite, has existsFunc) {
	var families []*family
	rows, states := 0, map[string]bool{}
	for _, s := range all {
		for _, c := range s.Scenarios {
			if c.Runs == 0 {
				x := skipGroup{State: outcome.StateSkipped, Reason: c.Skipped, Backend: s.Backend}
				if c.Skipped == "" {
					x.State, x.Reason = "not run", "the suite ended earlier"
				}
				states[x.State] = true
				same := outcome.GetOrAdd(&v.Skipped, func(o *skipGroup) bool { return o.State == x.State && o.Reason == x.Reason && o.Backend == x.Backend }, x)
				same.IDs = append(same.IDs, c.ID())
				continue
			}
			r := s.row(c, v.Columns, has)
			if r.Href == "" && c.Dir != "" {
				v.NumUndrawn++
			}
			f := outcome.GetOrAdd(&families, func(f *family) bool { return f.Name == c.Name }, family{Name: c.Name, rank: 2})
			f.Rows, f.rank = append(f.Rows, r), min(f.rank, stateRank(r.State))
			states[r.State] = true
			rows++
		}
	}
	slices.SortStableFunc(families, func(a, b *family) int { return cmp.Compare(a.rank, b.rank) })
	for _, f := range families {
		f.arrange(rows)
		if f.rank < 2 {
			v.UnexpectedFamilies = append(v.UnexpectedFamilies, f)
		} else {
			v.ExpectedFamilies = append(v.ExpectedFamilies, f)
		}
	}
	v.IsLong = rows >= minFoldRows
	v.States = slices.DeleteFunc(append(outcome.States(), "not run"), func(s string) bool { return !states[s] })
}

// arrange puts the rows of each variant, on all backends, next to each other. If the table is long and
// all rows are as expected, it folds the variants.
func (f *family) arrange(rows int) {
	at := map[string]int{}
	for _, r := range f.Rows {
		if _, seen := at[r.ID]; !seen {
			at[r.ID] = len(at)
		}
	}
	slices.SortStableFunc(f.Rows, func(a, b row) int { return cmp.Compare(at[a.ID], at[b.ID]) })
	if rows >= minFoldRows && f.rank == 2 {
		f.NumFolded = len(at) - 1
	}
}

func (s *Suite) row(c *Scenario, columns []string, has existsFunc) row {
	r := row{ID: c.ID(), Claim: c.Claim, Href: has.page(c.Dir, "#verdict"), Backend: s.Backend, State: c.State(), Symbol: symbols[c.State()]}
	if len(c.Cells) == 0 {
		r.Note = "not judged"
		if len(c.Errors) > 0 {
			r.Note = display.FirstLine(c.Errors[0])
		}
		return r
	}
	for _, p := range columns {
		r.Cells = append(r.Cells, s.describeCell(c, c.Cell(p), has))
	}
	for _, cell := range c.Cells {
		switch {
		case cell.Number == "":
		case cell.NumUnexpected > 0:
			r.Numbers = append(r.Numbers, "! "+cell.Number)
		default:
			r.Numbers = append(r.Numbers, cell.Number)
		}
	}
	return r
}

// columns returns the properties to show, which have an expectation or were violated in a suite, and the
// properties to hide.
func columns(all []*Suite) (shown, hidden []string) {
	for _, p := range checker.Properties() {
		hasExpectation := func(c *Scenario) bool {
			cell := c.Cell(p)
			return cell != nil && (cell.Expected != "" || cell.NumViolated > 0)
		}
		isJudged := func(c *Scenario) bool { return c.Cell(p) != nil }
		anyScenario := func(is func(*Scenario) bool) bool {
			return slices.ContainsFunc(all, func(s *Suite) bool { return slices.ContainsFunc(s.Scenarios, is) })
		}
		switch {
		case anyScenario(hasExpectation):
			shown = append(shown, p)
		case anyScenario(isJudged) || p != verdict.HolderNotified:
			hidden = append(hidden, p)
		}
	}
	return shown, hidden
}

// describeCell returns the table cell for a result.
func (s *Suite) describeCell(c *Scenario, cell *outcome.Cell, has existsFunc) matrixCell {
	if cell == nil {
		return matrixCell{Symbol: "–", Word: "not judged", Class: "faint"}
	}
	m := matrixCell{Property: cell.Property, Detail: cell.Cause, Because: cell.Because, Href: has.page(s.runDir(c, cell.Seed), "#p-"+cell.Property),
		Got: string(cell.Got), Expectation: outcome.StateAsExpected}
	if cell.Node != "" {
		m.Detail += " at " + cell.Node
	}
	if c.Runs > 1 && m.Detail != "" {
		m.Detail = fmt.Sprintf("seed %d: %s", cell.Seed, m.Detail)
	}
	if cell.Expected == "" || cell.Expected == outcome.AnyOutcome {
		m.Expectation = outcome.StateInformational
	}
	switch {
	case cell.NumUnexpected > 0 && cell.Unresolved():
		m.Expectation, m.Symbol, m.Word, m.Class = outcome.StateUndecided, "?", cell.Got.String()+", expected "+cell.Expected, "open"
	case cell.NumUnexpected > 0:
		m.Expectation, m.Symbol, m.Word, m.Class = outcome.StateUnexpected, "!", "unexpected: "+cell.Got.String()+", expected "+cell.Expected, "alarm"
	case cell.Got == verdict.NotExercised:
		m.Symbol, m.Word, m.Class, m.Href = "–", cell.Got.String(), "faint", ""
	case cell.Got == verdict.Undecided:
		m.Symbol, m.Word, m.Class, m.Href = "?", cell.Got.String(), "faint", "" // without an expectation
	case cell.Got == verdict.Violated && m.Expectation == outcome.StateInformational:
		m.Symbol, m.Word, m.Class = "✗", "violated", "violated"
		if c.State() != outcome.StateInformational {
			m.Detail += ", informational"
		}
	case cell.Got == verdict.Violated:
		m.Symbol, m.Word, m.Class = "✗", "expected violation", "violated"
	case m.Expectation == outcome.StateInformational:
		m.Symbol, m.Word, m.Class, m.Href = "✓", "holds", "faint", ""
	default:
		m.Symbol, m.Word, m.Class, m.Href = "✓", "holds", "fine", ""
	}
	m.Detail = strings.TrimPrefix(m.Detail, ", ")
	if text := s.rateText(c, cell); text != "" {
		m.Detail = strings.TrimPrefix(m.Detail+"; "+text, "; ")
	}
	return m
}

// rateText states how often the scenario violated a property, or returns "" for a single run.
func (s *Suite) rateText(c *Scenario, cell *outcome.Cell) string {
	if c.Runs <= 1 {
		return ""
	}
	text := "violated in " + s.shareText(*cell)
	if cell.NumUnexercised > 0 {
		text += fmt.Sprintf("; %d did not exercise it", cell.NumUnexercised)
	}
	if cell.NumUnexpected > 0 {
		text += fmt.Sprintf("; not as expected in %d of %d", cell.NumUnexpected, c.Runs)
	}
	return text
}

// shareText states how many of the conclusive runs violated a property.
func (s *Suite) shareText(c outcome.Cell) string {
	if c.HasRate(s.Backend) {
		return outcome.Rate(c.NumViolated, c.NumDecided)
	}
	return fmt.Sprintf("%d of %d", c.NumViolated, c.NumDecided)
}

// runDir returns the directory of a scenario's run with the given seed.
func (s *Suite) runDir(c *Scenario, seed uint64) string {
	if s.Seeds > 1 {
		return c.RunDirs[seed]
	}
	return c.Dir
}

// Examples lists the seeds to rerun and store: the first and shortest examples of each cause, unless they
// are in the store already.
func (c *Scenario) Examples() []uint64 {
	var out []uint64
	for _, x := range c.Causes {
		for _, seed := range []uint64{x.First.Seed, x.Shortest.Seed} {
			if _, kept := c.RunDirs[seed]; !kept && !slices.Contains(out, seed) {
				out = append(out, seed)
			}
		}
	}
	return out
}

// SetRunDir records the directory of a run that was repeated in order to store it.
func (s *Suite) SetRunDir(o outcome.Outcome) {
	if c := s.scenario(o.Scenario); o.Dir != "" {
		c.setRunDir(o.Seed, s.relativeDir(o.Dir))
	}
}

func (c *Scenario) setRunDir(seed uint64, dir string) {
	if c.RunDirs == nil {
		c.RunDirs = map[uint64]string{}
	}
	c.RunDirs[seed] = dir
	if seed == c.ShownRun.Seed {
		c.Dir = dir
	}
}

// foundCause is a cause with links to its examples.
type foundCause struct {
	outcome.Cause
	Scenario string
	Claim    string
	First    string // link to the first example's report, or "" if not stored
	Shortest string
}

func (s *Suite) foundCauses(has existsFunc) []foundCause {
	var out []foundCause
	for _, c := range s.Scenarios {
		for _, x := range c.Causes {
			read := func(e outcome.Example) string { return has.page(c.RunDirs[e.Seed], "#p-"+x.Property) }
			out = append(out, foundCause{Cause: x, Scenario: c.ID(), Claim: c.Claim, First: read(x.First), Shortest: read(x.Shortest)})
		}
	}
	return out
}

// maxCells limits the number of seeds in a grid. The grid shows the first seeds.
const maxCells = 10_000

// Letters for the results of seeds.
const (
	cellNone         = ' ' // not run
	cellOK           = '.' // as expected
	cellViolated     = 'v' // a property was violated, as expected or without an expectation
	cellUnexpected   = 'x' // not as expected
	cellInconclusive = '?' // inconclusive
	cellFailed       = '-'
	cellAlphabet     = " .vx?-"
)

// cellLabels describes the letters.
var cellLabels = map[rune]string{cellNone: "not run", cellOK: "no unexpected violation", cellViolated: "violated, as expected or informational",
	cellUnexpected: "not as expected", cellInconclusive: "inconclusive or interrupted", cellFailed: "failed"}

// addSeed records a run's result and directory.
func (c *Scenario) addSeed(o outcome.Outcome, s *Suite) {
	i := o.Seed - s.FirstSeed
	cells := min(s.Seeds, maxCells)
	if i >= uint64(cells) {
		return
	}
	if c.States == "" {
		c.States = strings.Repeat(string(cellNone), cells)
	}
	letter := cellFailed
	switch o.State() {
	case outcome.StateAsExpected, outcome.StateInformational:
		letter = cellOK
		if o.Violated() {
			letter = cellViolated
		}
	case outcome.StateUnexpected:
		letter = cellUnexpected
	case outcome.StateUndecided, outcome.StateInterrupted:
		letter = cellInconclusive
	}
	c.States = c.States[:i] + string(letter) + c.States[i+1:]
	if o.Dir != "" { // already relative to the suite
		c.setRunDir(o.Seed, o.Dir)
	}
}

// seedGrid shows the results for a scenario's seeds in rows of cells.
type seedGrid struct {
	ID, Command  string // Command is for seed N
	First        uint64
	Columns      int
	CellSize     int // in pixels
	LabelWidth   int // in pixels
	States, Note string
	Picture      template.HTML
}

// seedFlag matches the seed in a command.
var seedFlag = regexp.MustCompile(` --seed \d+`)

// newGrids returns the grids of all scenarios, with pictures.
func (s *Suite) newGrids(has existsFunc) []seedGrid {
	var out []seedGrid
	for _, c := range s.Scenarios {
		if g := s.newGrid(c); g != nil {
			g.Picture = template.HTML(g.svg(func(seed uint64) string { return has.page(c.RunDirs[seed], "#verdict") }, false)) // all text in it is escaped
			out = append(out, *g)
		}
	}
	return out
}

// newGrid returns a scenario's grid, or nil for a single seed.
func (s *Suite) newGrid(c *Scenario) *seedGrid {
	if c.States == "" {
		return nil
	}
	g := &seedGrid{ID: c.ID(), First: s.FirstSeed, Columns: 20, CellSize: 14, States: c.States, Command: seedFlag.ReplaceAllLiteralString(c.Command, " --seed N")}
	switch n := len(c.States); {
	case n > 1000:
		g.Columns, g.CellSize = 100, 8
	case n > 400:
		g.Columns = 50
	}
	g.LabelWidth = max(34, 8+7*len(fmt.Sprint(s.FirstSeed+uint64(len(c.States)))))
	if s.Seeds > len(c.States) {
		g.Note = fmt.Sprintf("The first %d of %d seeds.", len(c.States), s.Seeds)
	}
	return g
}

// cellPaths maps letters to SVG paths for the mark that repeats the meaning of the color. A cell is a
// square of 14 px.
var cellPaths = map[rune]string{cellViolated: "M4 4l3 6 3-6", cellUnexpected: "M4 4l6 6m0-6l-6 6", cellInconclusive: "M4.5 5q0-2 2.5-2t2.5 2q0 1.5-2.5 2v2m0 1.5v1", cellFailed: "M4 7h6"}

// gridStyle contains the grid's colors. Each standalone SVG file includes it.
const gridStyle = `.grid text{font:11px system-ui,sans-serif;fill:var(--faint)}.grid .c0{fill:var(--line);opacity:.35}.grid .c1{fill:var(--fine);opacity:.55}.grid .c2{fill:var(--stall)}.grid .c3{fill:var(--alarm)}.grid .c4{fill:var(--clock)}.grid .c5{fill:var(--other)}
.grid .sign{fill:none;stroke:#1b1b1b;stroke-width:1.6}.grid a rect{fill:transparent;stroke:var(--ink);stroke-width:1.5}.grid a:focus rect,.grid a:hover rect,.grid .pick{stroke:var(--lease);stroke-width:3;fill:none}`

// svg draws the grid. All cells with the same letter share one path, so that ten thousand cells take few
// bytes. A cell links to its run's report if hrefOf returns an address.
func (g *seedGrid) svg(hrefOf func(seed uint64) string, standalone bool) []byte {
	const top = 34
	rows := (len(g.States) + g.Columns - 1) / g.Columns
	columns := min(g.Columns, len(g.States))
	var b bytes.Buffer
	width, height := max(g.LabelWidth+columns*g.CellSize+2, 200), top+rows*g.CellSize+2
	name := template.HTMLEscapeString(sanitize(fmt.Sprintf("%s: %s", g.ID, display.Plural(len(g.States), "seed"))))
	role := "group" // contains links
	if standalone {
		role = "img"
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="grid" role="%s" aria-label="results of %s" viewBox="0 0 %d %d" width="%d" height="%d">`, role, name, width, height, width, height)
	if standalone {
		fmt.Fprintf(&b, "<style>%s%s</style>", display.ColorsCSS, gridStyle)
	}
	fmt.Fprintf(&b, `<text x="0" y="11">%s</text><text x="0" y="%d">seed</text>`, name, top-5)
	for x := 0; x < columns; x += 10 {
		fmt.Fprintf(&b, `<text x="%d" y="%d">+%d</text>`, g.LabelWidth+x*g.CellSize, top-5, x)
	}
	for y := 0; y < rows; y += (13 + g.CellSize) / g.CellSize {
		fmt.Fprintf(&b, `<text x="0" y="%d">%d</text>`, top+y*g.CellSize+min(11, g.CellSize+2), g.First+uint64(y*g.Columns))
	}
	for kind, letter := range cellAlphabet {
		var cells, marks strings.Builder
		for i, state := range g.States {
			if state != letter {
				continue
			}
			x, y := g.corner(i)
			fmt.Fprintf(&cells, "M%d %dh%dv%dh-%dz", x, y+top, g.CellSize-1, g.CellSize-1, g.CellSize-1)
			if sign := cellPaths[letter]; sign != "" && g.CellSize == 14 {
				marks.WriteString(translate(sign, x, y+top))
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
		if href := hrefOf(seed); href != "" {
			x, y := g.corner(i)
			fmt.Fprintf(&b, `<a href="%s" data-at="%d" aria-label="seed %d: %s, report"><rect x="%d" y="%d" width="%d" height="%d"/></a>`,
				template.HTMLEscapeString(href), i, seed, cellLabels[state], x, y+top, g.CellSize-1, g.CellSize-1)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// corner returns a cell's top left corner, relative to the area below the header.
func (g *seedGrid) corner(i int) (x, y int) {
	return g.LabelWidth + i%g.Columns*g.CellSize, i / g.Columns * g.CellSize
}

// translate moves a path, which must start with its position in the square, to a cell.
func translate(path string, x, y int) string {
	var dx, dy float64
	fmt.Sscanf(path, "M%f %f", &dx, &dy)
	rest := strings.TrimLeft(path[1:], "0123456789. ")
	return fmt.Sprintf("M%g %g%s", float64(x)+dx-0.5, float64(y)+dy-0.5, rest)
}

// drawImages draws images for a suite with several seeds: the results by seed for each scenario and the
// violation rates for each property.
func (s *Suite) drawImages() []File {
	if s.Seeds <= 1 {
		return nil
	}
	var files []File
	add := func(name string, svg []byte) string {
		files = append(files, File{name, svg})
		return name
	}
	for _, c := range s.Scenarios {
		if g := s.newGrid(c); g != nil {
			c.Seeds = add("seeds-"+strings.ReplaceAll(c.ID(), "/", "+")+".svg", g.svg(func(uint64) string { return "" }, true))
		}
	}
	for _, property := range checker.Properties() {
		var rates []figures.Rate
		violated := false
		for _, c := range s.Scenarios {
			if cell := c.Cell(property); cell != nil && cell.NumDecided > 0 {
				rates = append(rates, figures.Rate{Name: sanitize(c.ID()), K: cell.NumViolated, N: cell.NumDecided})
				violated = violated || cell.NumViolated > 0
			}
		}
		if !violated || len(rates) > maxRates {
			continue
		}
		f := figures.RateFigure(fmt.Sprintf("share of seeds that violated %s, among those that exercised it", property), rates)
		s.Rates = append(s.Rates, add("rates-"+property+".svg", f.SVG()))
	}
	return files
}

// maxRates is the maximum number of scenarios in an image.
const maxRates = 12

// SeedRange returns "seed N" or "seeds N to M".
func (s *Suite) SeedRange() string {
	if s.Seeds <= 1 {
		return fmt.Sprintf("seed %d", s.FirstSeed)
	}
	return fmt.Sprintf("seeds %d to %d", s.FirstSeed, s.FirstSeed+uint64(s.Seeds)-1)
}

// Headline summarizes the suite's results in one to three sentences.
func (s *Suite) Headline() string {
	parts := outcome.DescribeCounts(s.Counts)
	if len(parts) == 0 {
		parts = []string{"nothing was run"}
	}
	return fmt.Sprintf("%s on %s, %s: %s. %s", display.Plural(s.Runs+s.Counts[outcome.StateSkipped], "run"), s.Backend, s.SeedRange(), strings.Join(parts, ", "), s.verdictText())
}

// verdictText states what was found, without the numbers of runs in each state.
func (s *Suite) verdictText() string {
	var text []string
	violations, others := s.unexpectedResults()
	switch {
	case len(violations) == 1:
		text = append(text, "Unexpected violation in "+violations[0])
	case len(violations) > 1:
		text = append(text, fmt.Sprintf("%d unexpected violations", len(violations)))
	case s.allInformational():
		text = append(text, describeInformational(s))
	case s.anyDecided():
		text = append(text, "No unexpected violation found under these faults")
	default:
		text = append(text, "No run was conclusive")
	}
	switch {
	case len(others) == 1:
		text = append(text, "Not as expected in "+others[0])
	case len(others) > 1:
		text = append(text, fmt.Sprintf("%d other results are not as the scenarios expect", len(others)))
	}
	if s.Interrupted {
		text = append(text, fmt.Sprintf("Interrupted after %d of %d runs; these are partial results", s.Runs, s.PlannedRuns))
	}
	return strings.Join(text, ". ") + "."
}

// counter is a number at the top of a suite's page.
type counter struct {
	N                  int
	Text, State, Class string // State is the state to filter by, or ""
}

// countersOf counts the runs in each state. It omits rare states without runs.
func countersOf(s *Suite) []counter {
	out := []counter{{N: s.Runs + s.Counts[outcome.StateSkipped], Text: "runs"}}
	if out[0].N == 1 {
		out[0].Text = "run"
	}
	for _, state := range outcome.StatesBySeverity() {
		n := s.Counts[state]
		isCommon := state == outcome.StateUnexpected || state == outcome.StateUndecided
		if n == 0 && !isCommon {
			continue
		}
		c := counter{N: n, Text: outcome.StateText(state), State: state}
		switch {
		case n == 0:
			c.State, c.Class = "", "faint"
		case state == outcome.StateAsExpected:
			c.Class = "fine"
		case stateRank(state) == 0:
			c.Class = "alarm"
		case stateRank(state) == 1:
			c.Class = "open"
		}
		out = append(out, c)
	}
	return out
}

// card describes a scenario with violations or unexpected results, and the run that shows them.
type card struct {
	ID, Claim, Href, Label, Tone, Command string
	Error                                 string // first line of an error
	Results                               []cardResult
}

// cardResult is a result that a card shows.
type cardResult struct{ Property, Text, Because string }

// maxCards limits the number of cards on a page.
const maxCards = 50

// Labels of scenarios. Each states both what happened and whether it was expected.
const (
	labelUnexpected    = "Unexpected violation"
	labelNotAsExpected = "Not as expected"
	labelExpected      = "Expected violation"
	labelInformational = "Violation, informational"
)

// fillCards describes the scenarios that are not as expected, the most severe first, and those whose
// violations are expected, unless a table of causes lists them.
func (v *view) fillCards(s *Suite, has existsFunc) {
	labels := map[string]bool{}
	for _, c := range s.Scenarios {
		k := card{ID: c.ID(), Claim: c.Claim, Href: has.page(c.Dir, "#verdict"), Command: c.Command}
		switch rank := stateRank(c.State()); {
		case c.Runs == 0:
		case rank < 2:
			k.fillFailure(s, c)
			v.Cards = append(v.Cards, k)
		case len(v.Causes) == 0 && k.fillExpected(s, c):
			labels[k.Label] = true
			v.ExpectedViolations = append(v.ExpectedViolations, k)
		}
	}
	slices.SortStableFunc(v.Cards, func(a, b card) int { return cmp.Compare(a.Tone, b.Tone) }) // alarm before open
	if n := len(v.Cards) - maxCards; n > 0 {
		v.Cards, v.NumMoreCards = v.Cards[:maxCards], n
	}
	switch {
	case !labels[labelExpected]:
		v.ExpectedTitle = "Informational violations"
	case labels[labelInformational]:
		v.ExpectedTitle = "Expected and informational violations"
	default:
		v.ExpectedTitle = "Expected violations"
	}
	v.ExpectedTitle += ": " + display.Plural(len(v.ExpectedViolations), "scenario")
}

// fillFailure fills the card of a scenario that is not as expected. Violations come first, and properties
// with equal results share a line.
func (k *card) fillFailure(s *Suite, c *Scenario) {
	k.Tone, k.Label = "alarm", labelNotAsExpected
	if len(c.Errors) > 0 {
		k.Error = display.FirstLine(c.Errors[0])
	}
	cells := slices.DeleteFunc(slices.Clone(c.Cells), func(cell outcome.Cell) bool { return cell.NumUnexpected == 0 || c.isImplied(cell) })
	slices.SortStableFunc(cells, func(a, b outcome.Cell) int {
		switch {
		case isUnexpectedViolation(a) == isUnexpectedViolation(b):
			return 0
		case isUnexpectedViolation(a):
			return -1
		}
		return 1
	})
	for _, cell := range cells {
		x := cardResult{cell.Property, fmt.Sprintf("%s%s, expected %s", cell.Got, causeText(cell), cell.Expected), display.Sentence(cell.Because)}
		if cell.Number != "" {
			x.Property, x.Text = "", cell.Number // includes the name
		}
		if rate := s.rateText(c, &cell); rate != "" {
			x.Text += "; " + rate
		}
		if i := slices.IndexFunc(k.Results, func(o cardResult) bool { return o.Text == x.Text && o.Because == x.Because }); i >= 0 && x.Property != "" {
			k.Results[i].Property += ", " + x.Property
		} else {
			k.Results = append(k.Results, x)
		}
		if isUnexpectedViolation(cell) {
			k.Label = labelUnexpected
		}
	}
	state := c.State()
	if stateRank(state) == 1 {
		k.Tone = "open"
	}
	if state != outcome.StateUnexpected {
		k.Label = outcome.StateText(state)
		k.Label = strings.ToUpper(k.Label[:1]) + k.Label[1:]
	}
}

// fillExpected fills the card of a scenario without unexpected results. It reports whether the scenario
// violated anything.
func (k *card) fillExpected(s *Suite, c *Scenario) bool {
	k.Tone, k.Label = "calm", labelInformational
	for _, cell := range c.Cells {
		if cell.NumViolated == 0 || cell.Number != "" || cell.Got != verdict.Violated || cell.ImpliedBy != "" && len(k.Results) > 0 {
			continue
		}
		if cell.Expected != "" && cell.Expected != outcome.AnyOutcome {
			k.Tone, k.Label = "fine", labelExpected
		}
		text := strings.Trim(causeText(cell), " ()")
		if rate := s.rateText(c, &cell); rate != "" {
			text = strings.TrimPrefix(text+"; "+rate, "; ")
		}
		k.Results = append(k.Results, cardResult{cell.Property, text, display.Sentence(cell.Because)})
	}
	return len(k.Results) > 0
}

func isUnexpectedViolation(cell outcome.Cell) bool {
	return cell.NumUnexpected > 0 && cell.Got == verdict.Violated && strings.HasPrefix(cell.Expected, string(verdict.Holds))
}

// isImplied reports whether an unexpected result follows from that of another property.
func (c *Scenario) isImplied(cell outcome.Cell) bool {
	return cell.ImpliedBy != "" && c.Cell(cell.ImpliedBy) != nil && c.Cell(cell.ImpliedBy).NumUnexpected > 0
}

func (s *Suite) allInformational() bool {
	return s.Runs > 0 && s.Counts[outcome.StateInformational] == s.Runs
}

// violationCounts returns the number of violating runs by property.
func (s *Suite) violationCounts() map[string]int {
	out := map[string]int{}
	for _, c := range s.Scenarios {
		for _, cell := range c.Cells {
			if cell.NumViolated > 0 && cell.Number == "" {
				out[cell.Property] += cell.NumViolated
			}
		}
	}
	return out
}

// violatesInformational reports whether an informational scenario violated anything.
func violatesInformational(s *Suite) bool {
	return slices.ContainsFunc(s.Scenarios, func(c *Scenario) bool {
		return c.State() == outcome.StateInformational && slices.ContainsFunc(c.Cells, func(cell outcome.Cell) bool { return cell.NumViolated > 0 && cell.Number == "" })
	})
}

// describeInformational describes the results of a suite whose scenarios are all informational.
func describeInformational(s *Suite) string {
	if !violatesInformational(s) {
		return "No violation found under these faults"
	}
	if len(s.Scenarios) > 1 {
		violated := 0
		for _, c := range s.Scenarios {
			if (&card{}).fillExpected(s, c) {
				violated++
			}
		}
		return fmt.Sprintf("%d of %s violated a property, which is informational", violated, display.Plural(len(s.Scenarios), "scenario"))
	}
	c := s.Scenarios[0]
	var parts []string
	for _, cell := range c.Cells {
		switch {
		case cell.NumViolated == 0 || cell.Number != "":
		case c.Runs == 1:
			parts = append(parts, cell.Property+causeText(cell))
		default:
			parts = append(parts, fmt.Sprintf("%s in %s", cell.Property, s.shareText(cell)))
		}
	}
	return "Violated: " + strings.Join(parts, ", ")
}

// anyDecided reports whether any run had a conclusive result.
func (s *Suite) anyDecided() bool {
	return slices.ContainsFunc(s.Scenarios, func(c *Scenario) bool {
		return slices.ContainsFunc(c.Cells, func(cell outcome.Cell) bool { return cell.NumDecided > 0 })
	})
}

// unexpectedResults lists the unexpected violations and the other results that were not as expected.
func (s *Suite) unexpectedResults() (violations, others []string) {
	for _, c := range s.Scenarios {
		for _, cell := range c.Cells {
			switch {
			case cell.NumUnexpected == 0 || cell.Unresolved() || c.isImplied(cell):
			case cell.Number != "":
				others = append(others, c.ID()+": "+cell.Number)
			case isUnexpectedViolation(cell):
				violations = append(violations, c.ID()+": "+cell.Property+causeText(cell))
			default:
				others = append(others, fmt.Sprintf("%s: %s %s%s, expected %s", c.ID(), cell.Property, cell.Got, causeText(cell), cell.Expected))
			}
		}
	}
	return violations, others
}

// causeText returns a violation's cause and node in parentheses.
func causeText(c outcome.Cell) string {
	text := c.Cause
	if c.Node != "" {
		text += " at " + c.Node
	}
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// maxTextLen limits the length of text in a report, in characters. Nobody can read more, and untrusted
// files may contain anything.
const maxTextLen = 4096

func sanitize(s string) string { return display.Sanitize(s, maxTextLen) }

// markdownEscapes escapes text for Markdown, including table cells.
var markdownEscapes = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;",
	"&", "&amp;", "|", `\|`, "#", `\#`, "~", `\~`, "!", `\!`, "@", "@\u200b")

func markdown(s string) string { return markdownEscapes.Replace(sanitize(s)) }

// writeMarkdown writes suite.md, which has the same content as suite.html, for issues and wikis.
func writeMarkdown(w io.Writer, v view) {
	fmt.Fprintf(w, "# Safety report\n\n%s\n\n", markdown(v.Headline))
	writeCards(w, v)
	fmt.Fprint(w, "## Expected and actual\n\n✓ holds · ✗ expected violation, with its cause · ! unexpected · ? inconclusive · – not exercised or skipped\n\n")
	for _, m := range v.Notes {
		fmt.Fprintf(w, "%s\n\n", markdown(m))
	}
	writeMatrix(w, v)
	if len(v.HiddenProperties) > 0 {
		fmt.Fprintf(w, "\nNot shown, because they have no expectation and were not violated: %s.\n", strings.Join(v.HiddenProperties, ", "))
	}
	if len(v.Causes) > 0 {
		fmt.Fprint(w, "\n## Violations and the seeds that show them\n\n| scenario | property | cause | seeds | first | shortest | run again |\n|---|---|---|---|---|---|---|\n")
	}
	for _, x := range v.Causes {
		fmt.Fprintf(w, "| %s | %s | %s | %d | %s | %s | `%s` |\n", markdown(x.Scenario), markdown(x.Property), markdown(x.Cause.Cause), x.Runs,
			link(fmt.Sprint(x.Cause.First.Seed), x.First), link(fmt.Sprintf("%d (%d events)", x.Cause.Shortest.Seed, x.Cause.Shortest.Events), x.Shortest),
			strings.NewReplacer("`", "'", "|", "\\|").Replace(sanitize(x.Cause.Shortest.Command)))
	}
	if len(v.Seeds) > 0 {
		fmt.Fprint(w, "\n## Seeds\n\n")
	}
	for _, name := range v.Seeds {
		fmt.Fprintf(w, "![%s](%s)\n", markdown(name), url.PathEscape(name))
	}
	writeSkipped(w, v)
	writeTroubles(w, v)
	fmt.Fprint(w, "\n## How it was run\n\n| | |\n|---|---|\n")
	for _, f := range v.Facts {
		fmt.Fprintf(w, "| %s | %s |\n", f[0], markdown(f[1]))
	}
	fmt.Fprint(w, "\n## Limits\n\nEach result applies only to the runs above, with their seeds and faults. “Holds” means that no violation "+
		"was found in them. Other seeds, faults, settings or timings may reveal one. In the simulation, the nodes and the network "+
		"are models. Skipped and inconclusive runs show nothing.\n")
}

// writeCards lists the scenarios that are not as expected.
func writeCards(w io.Writer, v view) {
	if len(v.Cards) > 0 {
		fmt.Fprint(w, "## Not as expected\n\n")
	}
	for _, k := range v.Cards {
		fmt.Fprintf(w, "- %s (%s): %s\n", link(k.ID, k.Href), k.Label, markdown(cmp.Or(k.Claim, "no claim")))
		if k.Error != "" {
			fmt.Fprintf(w, "  - %s\n", markdown(k.Error))
		}
		for _, x := range k.Results {
			fmt.Fprintf(w, "  - %s\n", markdown(display.Join(": ", strings.TrimSpace(x.Property+" "+x.Text), x.Because)))
		}
	}
	if v.NumMoreCards > 0 {
		fmt.Fprintf(w, "- %d more\n", v.NumMoreCards)
	}
	if len(v.Cards) > 0 {
		fmt.Fprintln(w)
	}
}

func writeMatrix(w io.Writer, v view) {
	several := len(v.Backends) > 1
	heads := append([]string{"scenario"}, v.Columns...)
	if several {
		heads = append([]string{"scenario", "backend"}, v.Columns...)
	}
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	var rows []row
	for _, f := range slices.Concat(v.UnexpectedFamilies, v.ExpectedFamilies) {
		rows = append(rows, f.Rows...)
	}
	for _, r := range rows {
		name := link(r.ID, r.Href)
		if r.State != "as expected" {
			name += " (" + outcome.StateText(r.State) + ")"
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

func writeSkipped(w io.Writer, v view) {
	if len(v.Skipped) > 0 {
		fmt.Fprint(w, "\n## Skipped\n\n")
	}
	for _, x := range v.Skipped {
		fmt.Fprintf(w, "- %d %s on %s: %s: %s\n", len(x.IDs), outcome.StateText(x.State), markdown(x.Backend), markdown(x.Reason), markdown(strings.Join(x.IDs, ", ")))
	}
}

func writeTroubles(w io.Writer, v view) {
	if len(v.Problems) > 0 {
		fmt.Fprint(w, "\n## Retried or failed\n\n")
	}
	for _, g := range v.Problems {
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
