package sequence

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"lockpick/reports/words"
)

// picture is a diagram with places: pixels from the upper left corner.
type picture struct {
	title, desc        string
	width, height      float64
	top, bottom, right float64 // of the drawing within
	lanes              []drawnLane
	bands              []drawnBand
	bars               []drawnBar
	arrows             []drawnArrow
	marks              []drawnMark
	ticks              []tick
	breaks             []float64
	texts              []text
	axis               axis
	taken              []box // where texts and marks are
	notes              []string
	legendUsed         map[State]bool
}

type (
	drawnLane struct {
		name string
		y    float64
	}
	drawnBand struct {
		x, w   float64
		title  string
		events []int64
	}
	drawnBar struct {
		state   State
		x, y, w float64
		title   string
		events  []int64
	}
	drawnArrow struct {
		x1, y1, x2, y2  float64
		bad, slow, lost bool
		title           string
		events          []int64
	}
	drawnMark struct {
		mark   Mark
		x, y   float64
		bad    bool
		title  string
		events []int64
	}
	tick struct {
		x     float64
		label string
	}
	text struct {
		x, y        float64
		lines       []string
		end, middle bool // how it is anchored; else at its start
		class       string
		lead        *lead // a line to what it is about
	}
	lead struct{ x, y, toX, toY float64 }
	box  struct{ x1, y1, x2, y2 float64 }
)

// Measures, in pixels.
const (
	left         = 128 // of the first instant
	laneGap      = 140
	lineHeight   = 14
	charWidth    = 6.6 // of the font at 12 px, rather too much than too little
	titleWidth   = 9.2 // at 16 px
	leastPicture = 760
	labelChars   = 26 // where a label is broken
)

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

// mostInstants bounds a picture, as only a history that no run could have made needs.
const mostInstants = 600

// layOut gives all parts of a diagram their places, and its title and story where
// they are wanted.
func layOut(d Diagram, headed bool) picture {
	p := picture{legendUsed: map[State]bool{}}
	p.axis = newAxis(instants(d))
	p.right = left + 40
	if n := len(p.axis.x); n > 0 {
		p.right = p.axis.x[n-1] + 90
	}
	p.width = max(p.right+16, leastPicture)
	p.right = p.width - 16
	p.head(d, headed)
	p.makeLanes(d)
	p.makeBands(d)
	p.makeBars(d)
	wishes := p.makeArrows(d)
	wishes = append(wishes, p.makeMarks(d)...)
	slices.SortStableFunc(wishes, func(a, b wish) int { return cmp.Compare(a.rank, b.rank) })
	for _, w := range wishes {
		p.place(w)
	}
	p.makeTicks()
	p.foot(d, headed)
	return p
}

// instants are those at which something is drawn.
func instants(d Diagram) []int64 {
	var at []int64
	for _, g := range byFact(d) {
		for _, a := range g {
			at = append(at, a.Sent, a.Arrived)
		}
	}
	for _, n := range d.Notes {
		at = append(at, n.At)
	}
	for _, b := range d.Bands {
		at = append(at, b.From, b.To)
	}
	first, last := int64(never), int64(math.MinInt64)
	for _, t := range at {
		first, last = min(first, t), max(last, t)
	}
	for _, b := range d.Bars { // they never make the picture longer
		for _, t := range []int64{b.From, b.To} {
			if first < t && t < last {
				at = append(at, t)
			}
		}
	}
	return at[:min(len(at), mostInstants)]
}

// head lays out the title and the story.
func (p *picture) head(d Diagram, shown bool) {
	p.title = escape(d.Title)
	story := escape(strings.Join(d.Caption, " "))
	p.desc = strings.ReplaceAll(story, words.NoBreak, " ")
	if !shown {
		p.top = 4
		return
	}
	wide := min(p.width, 1300) - 32
	y := 26.0
	title := wrap(p.title, int(wide/titleWidth), 3)
	for _, l := range title {
		p.texts = append(p.texts, text{x: 16, y: y, lines: []string{l}, class: "sq-title"})
		y += 21
	}
	for _, l := range wrap(story, int(wide/charWidth), 12) {
		p.texts = append(p.texts, text{x: 16, y: y, lines: []string{l}})
		y += 17
	}
	p.top = y + 2
}

func (p *picture) makeLanes(d Diagram) {
	for i, l := range d.Lanes {
		name := string(l.Role) + " " + l.Name
		if l.Role == Locks && l.Name == "locks" {
			name = l.Name
		}
		p.lanes = append(p.lanes, drawnLane{name: words.Fit(escape(name), 16), y: p.top + 80 + float64(i)*laneGap})
	}
	p.bottom = p.top + 90
	if n := len(p.lanes); n > 0 {
		p.bottom = p.lanes[n-1].y + 84
	}
}

func (p *picture) makeBands(d Diagram) {
	for _, b := range d.Bands {
		x := p.axis.pos(b.From)
		w := max(p.axis.pos(b.To)-x, 3)
		p.bands = append(p.bands, drawnBand{x: x, w: w, title: escape(b.Label), events: b.Events})
		p.place(wish{x: x, y: p.top + 12, label: escape(b.Label), bad: true, must: true, still: true})
	}
}

func (p *picture) makeBars(d Diagram) {
	// What is drawn later covers what was before: a dead client first, a pause last.
	for _, state := range []State{Dead, Believes, Paused} {
		for _, b := range d.Bars {
			if b.State != state || b.Lane < 0 || b.Lane >= len(p.lanes) {
				continue
			}
			x := p.axis.pos(b.From)
			w := p.axis.pos(b.To) - x
			if last := len(p.axis.at) - 1; last >= 0 && b.To > p.axis.at[last] {
				w = p.right - x // it lasts beyond the picture
			}
			p.legendUsed[state] = true
			p.bars = append(p.bars, drawnBar{state: state, x: x, y: p.lanes[b.Lane].y, w: max(w, 2), title: string(state) + " from " + words.Seconds(b.From) + " to " + words.Seconds(b.To), events: b.Events})
		}
	}
}

// makeArrows lays out the messages, and says which labels they want.
func (p *picture) makeArrows(d Diagram) (wishes []wish) {
	for _, g := range byFact(d) {
		for k, a := range g {
			x1, x2 := p.axis.pos(a.Sent), p.axis.pos(a.Arrived)
			y1, y2 := p.lanes[a.From].y, p.lanes[a.To].y
			title := strings.TrimPrefix(escape(a.Detail), ": ")
			if a.Label != "" && title != "" {
				title = escape(a.Label) + ": " + title
			}
			title = cmp.Or(title, escape(a.Label)) + ", sent at " + words.Seconds(a.Sent)
			if a.Lost {
				x2, y2 = x1+12, y1+0.7*(y2-y1)
				title += ", not known to have arrived"
			} else {
				title += ", arrived at " + words.Seconds(a.Arrived)
			}
			x2 = max(x2, x1+3)
			p.arrows = append(p.arrows, drawnArrow{x1: x1, y1: y1, x2: x2, y2: y2, bad: a.Bad, slow: a.Slow, lost: a.Lost, title: title, events: a.Events})
			if a.Mark != "" && !a.Lost {
				p.addMark(drawnMark{mark: a.Mark, x: x2, y: y2, bad: a.Bad, title: title, events: a.Events})
			}
			if k > 0 {
				continue // the arrows of one fact say the same
			}
			wishes = append(wishes, wish{x: x1, y: y1, toX: x2, toY: y2, label: escape(a.Label), bad: a.Bad, along: true, rank: 2})
			if a.Detail != "" {
				at := wish{x: x2, y: y2, label: escape(a.Detail), bad: a.Bad, must: a.Bad, rank: 3}
				if a.Bad {
					at.rank = 0
				}
				wishes = append(wishes, at)
			}
		}
	}
	return wishes
}

func (p *picture) addMark(m drawnMark) {
	p.marks = append(p.marks, m)
	p.taken = append(p.taken, box{m.x - 7, m.y - 13, m.x + 7, m.y + 13})
}

func (p *picture) makeMarks(d Diagram) (wishes []wish) {
	for _, n := range d.Notes {
		x, y := p.axis.pos(n.At), p.top+40
		if n.Lane >= 0 && n.Lane < len(p.lanes) {
			y = p.lanes[n.Lane].y
			p.addMark(drawnMark{mark: n.Mark, x: x, y: y, bad: n.Bad, title: escape(n.Label) + ", at " + words.Seconds(n.At), events: n.Events})
		}
		w := wish{x: x, y: y, label: escape(n.Label), bad: n.Bad, must: true, rank: 1}
		if n.Bad {
			w.rank = 0
		}
		wishes = append(wishes, w)
	}
	return wishes
}

// makeTicks labels as many instants as find room, and marks where the axis is cut short.
func (p *picture) makeTicks() {
	free, said := -math.MaxFloat64, ""
	for i, t := range p.axis.at {
		x := p.axis.x[i]
		if i > 0 && minus(t, p.axis.at[i-1]) >= 1e9 {
			p.breaks = append(p.breaks, (x+p.axis.x[i-1])/2)
		}
		label := words.Seconds(t)
		half := charWidth * float64(utf8.RuneCountInString(label)) / 2
		if x-half < free || label == said {
			continue
		}
		p.ticks = append(p.ticks, tick{x: x, label: label})
		free, said = x+half+8, label
	}
}

// foot lays out what stands below the picture. A page tells itself what is not shown.
func (p *picture) foot(d Diagram, omitted bool) {
	y := p.bottom + 38
	add := func(class string, lines ...string) {
		for _, l := range lines {
			p.texts = append(p.texts, text{x: 16, y: y, lines: []string{l}, class: class})
			y += 16
		}
	}
	chars := int((p.width - 32) / charWidth)
	for i, n := range p.notes {
		add("", wrap(circled(i+1)+" "+n, chars, 3)...)
	}
	if d.Stop != nil {
		add("", d.Stop.lines(chars)...)
	}
	if len(d.Lanes) == 0 || len(p.axis.at) == 0 {
		add("", "Nothing to draw: no client tried to acquire a lock.")
	}
	var legend []string
	for _, l := range []struct {
		state State
		text  string
	}{{Believes, "bar: believes that it holds the lock"}, {Paused, "hatched: paused"}, {Dead, "dotted lane: dead"}} {
		if p.legendUsed[l.state] {
			legend = append(legend, l.text)
		}
	}
	if len(d.Bands) > 0 {
		legend = append(legend, "hatched band: two believe so at once")
	}
	if len(p.breaks) > 0 {
		legend = append(legend, "//: a second or more is cut short")
	}
	add("sq-foot", wrap(strings.Join(legend, " · "), chars, 3)...)
	if omitted {
		add("sq-foot", wrap(escape(d.Omitted), chars, 3)...)
	}
	p.height = y + 4
}

// circled is a number in a circle, up to twenty.
func circled(n int) string {
	if n <= 20 {
		return string(rune('①' + n - 1))
	}
	return fmt.Sprintf("(%d)", n)
}
