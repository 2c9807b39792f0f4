package sequence

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// picture is a diagram with places: pixels from the upper left corner. Its layers are
// written while it is laid out: bands below, the line of the axis, lanes with bars and
// arrows, and above these marks and texts.
type picture struct {
	options            SVGOptions
	title, desc        string
	width, height      float64
	top, bottom, right float64 // of the drawing within
	axis               axis
	lanes              []float64       // where each is, from the top
	bands, line, body  strings.Builder // layers, the lowest first
	marks              []mark
	texts              []text
	taken              []box // where texts and marks are
	shafts             []shaft
	held               []box // bars that say what they are, where there is room
	notes              []string
	used               map[state]bool
	broken             bool // the axis is, somewhere
}

type box struct{ x1, y1, x2, y2 float64 }

type shaft struct{ x1, y1, x2, y2 float64 }

// through reports whether a shaft comes within a few pixels of a box.
func (s shaft) through(b box) bool {
	const near = 3
	lo, hi := max(min(s.y1, s.y2), b.y1-near), min(max(s.y1, s.y2), b.y2+near)
	if lo > hi {
		return false
	}
	x := func(y float64) float64 {
		if s.y1 == s.y2 {
			return s.x1
		}
		return s.x1 + (y-s.y1)/(s.y2-s.y1)*(s.x2-s.x1)
	}
	from, to := min(x(lo), x(hi)), max(x(lo), x(hi))
	if s.y1 == s.y2 {
		from, to = min(s.x1, s.x2), max(s.x1, s.x2)
	}
	return from < b.x2+near && b.x1-near < to
}

// Measures, in pixels.
const (
	left          = 128 // of the first instant
	drawingHeight = 480 // of all lanes, so that a window shows them
	leastLaneGap  = 96
	mostLaneGap   = 140
	widestAxis    = 850 // so that a page shows the picture at its size
	leastGap      = 18  // between two instants
	lineHeight    = 14
	charWidth     = 6.6 // of the font at 12 px, rather too much than too little
	titleWidth    = 9.2 // at 16 px
	leastPicture  = 760
	labelChars    = 26 // where a label is broken
)

// shape is a piece of SVG, with coordinates to a tenth.
func shape(format string, args ...any) string {
	for i, a := range args {
		if x, ok := a.(float64); ok {
			args[i] = strings.TrimSuffix(strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0"), ".")
		}
	}
	return fmt.Sprintf(format, args...)
}

func (p *picture) prefix() string { return html.EscapeString(p.options.Prefix) }

// group wraps what stands for events.
func (p *picture) group(events []int64, title, inner string) string {
	if title != "" {
		inner = "<title>" + html.EscapeString(title) + "</title>" + inner
	}
	g := fmt.Sprintf(`<g data-e="%s">%s</g>`, strings.Trim(fmt.Sprint(events), "[]"), inner)
	if p.options.Embedded && len(events) > 0 {
		g = fmt.Sprintf(`<a href="%s#e%d">%s</a>`, html.EscapeString(p.options.Page), events[len(events)-1], g)
	}
	return g + "\n"
}

type mark struct {
	mark   Mark
	x, y   float64
	bad    bool
	title  string
	events []int64
}

func (m mark) shape() string {
	class, line := "sq-dot", "sq-arrow"
	if m.bad {
		class, line = "sq-dot-bad", "sq-harm"
	}
	form, ok := shapes[m.mark]
	if !ok {
		form = `<circle class="{dot}" cx="{x}" cy="{y}" r="4"/>`
	}
	return strings.NewReplacer("{dot}", class, "{line}", line, "{x}", shape("%v", m.x), "{y}", shape("%v", m.y)).Replace(form)
}

// shapes are the marks that are no dot.
var shapes = map[Mark]string{
	cross: `<path class="{line}" stroke-width="2" d="M{x} {y}m-6 -6l12 12m0 -12l-12 12"/>`,
	ring:  `<circle class="sq-dot" style="fill:var(--paper);stroke:var(--ink)" cx="{x}" cy="{y}" r="5"/>`,
	stop:  `<path class="{line}" stroke-width="2" d="M{x} {y}m0 -13v26"/>`,
	down:  `<path class="{dot}" d="M{x} {y}m-6 -12h12l-6 10z"/>`,
	up:    `<path class="{dot}" d="M{x} {y}m-6 -2h12l-6 -10z"/>`,
}

// text is lines below each other.
type text struct {
	x, y   float64
	lines  []string
	anchor string // of x: "middle" or "end"; "": the start
	class  string
	lead   string // a line to what it is about
}

func (t text) svg() string {
	out, anchor := t.lead, ""
	if t.anchor != "" {
		anchor = ` text-anchor="` + t.anchor + `"`
	}
	for i, l := range t.lines {
		out += shape(`<text class="%v" x="%v" y="%v"%v>%v</text>`+"\n", t.class, t.x, t.y+float64(i)*lineHeight, anchor, html.EscapeString(l))
	}
	return out
}

// SVGOptions says where a picture stands.
type SVGOptions struct {
	// Embedded: it stands in a page that has the palette's variables, Style, the story
	// in words, and an element with the id eN for event N. It brings none of these and
	// has links.
	Embedded bool
	// Page is where the elements of its links are; "": in the page that it stands in.
	Page string
	// Prefix begins the ids in the picture, so that a page can hold several.
	Prefix string
}

// axis maps instants to places. Between two neighbours it is linear.
type axis struct {
	at []int64
	x  []float64
}

// newAxis gives each gap between neighbouring instants a width that grows with the
// logarithm of its length: 1 ms is 35 px wide, 10 s are 90.
func newAxis(at []int64) axis {
	slices.Sort(at)
	at = slices.Compact(at)
	a := axis{at: at}
	x := float64(left)
	for i, t := range at {
		if i > 0 {
			gap := float64(minus(t, at[i-1]))
			x += min(max(20+14*math.Log10(1+gap/1e5), 20), 96)
		}
		a.x = append(a.x, x)
	}
	return a
}

// squeezed is the axis with gaps narrowed alike, as far as they may be, where it would be
// wider than a page.
func (a axis) squeezed(most float64) axis {
	n := len(a.x)
	if n < 2 || a.x[n-1]-left <= most {
		return a
	}
	share := most / (a.x[n-1] - left)
	x, before := float64(left), a.x[0]
	for i := 1; i < n; i++ {
		gap := a.x[i] - before
		before = a.x[i]
		x += max(gap*share, min(gap, leastGap))
		a.x[i] = x
	}
	return a
}

func (a axis) pos(t int64) float64 {
	if len(a.at) == 0 {
		return left
	}
	i, found := slices.BinarySearch(a.at, t)
	switch {
	case found:
		return a.x[i]
	case i == 0:
		return a.x[0]
	case i == len(a.at):
		return a.x[i-1]
	}
	share := float64(minus(t, a.at[i-1])) / float64(minus(a.at[i], a.at[i-1]))
	return a.x[i-1] + share*(a.x[i]-a.x[i-1])
}
