package suites

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

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
