package sequence

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"lockpick/reports/display"
)

// mostInstants bounds a picture, as only a history that no run could have made needs.
const mostInstants = 600

// layOut gives all parts of a diagram their places, and its title and story where
// they are wanted.
func layOut(d Diagram, o SVGOptions) *picture {
	p := &picture{options: o, axis: newAxis(instants(d)).squeezed(widestAxis), used: map[state]bool{}}
	p.right = left + 40
	if n := len(p.axis.x); n > 0 {
		p.right = p.axis.x[n-1] + 90
	}
	p.width = max(p.right+16, leastPicture)
	p.right = p.width - 16
	p.head(d)
	p.drawLanes(d)
	p.drawBands(d)
	p.drawBars(d)
	wishes := append(p.drawArrows(d), p.drawMarks(d)...)
	p.sayHeld()
	for _, b := range d.Bands {
		wishes = append(wishes, wish{x: p.axis.pos(b.From), y: p.top + 12, label: escape(b.Label), bad: true, still: true})
	}
	slices.SortStableFunc(wishes, func(a, b wish) int { return cmp.Compare(a.rank, b.rank) })
	for _, w := range wishes {
		p.place(w)
	}
	p.drawAxis()
	p.foot(d)
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
func (p *picture) head(d Diagram) {
	p.title = escape(d.Title)
	story := escape(strings.Join(d.Caption, " "))
	p.desc = strings.ReplaceAll(story, display.NoBreak, " ")
	if p.options.Embedded {
		p.top = 4
		return
	}
	wide := min(p.width, 1300) - 32
	y := 26.0
	for _, l := range wrap(p.title, int(wide/titleWidth), 3) {
		p.texts = append(p.texts, text{x: 16, y: y, lines: []string{l}, class: "sq-title"})
		y += 21
	}
	for _, l := range wrap(story, int(wide/charWidth), 12) {
		p.texts = append(p.texts, text{x: 16, y: y, lines: []string{l}})
		y += 17
	}
	p.top = y + 2
}

func (p *picture) drawLanes(d Diagram) {
	p.bottom = p.top + 90
	gap := min(max(drawingHeight/float64(max(len(d.Lanes)-1, 1)), leastLaneGap), mostLaneGap)
	for i, l := range d.Lanes {
		y := p.top + 70 + float64(i)*gap
		p.lanes, p.bottom = append(p.lanes, y), y+64
		p.body.WriteString(shape(`<path class="sq-lane" d="M%v %vH%v"/>`+"\n", left-8.0, y, p.right))
		lines := wrap(escape(l.title()), 16, 3)
		p.taken = append(p.taken, box{0, y - float64(len(lines))*lineHeight/2 - 4, left - 10, y + float64(len(lines))*lineHeight/2 + 4})
		p.body.WriteString(text{x: left - 16, y: y + 4 - float64(len(lines)-1)*lineHeight/2, lines: lines, anchor: "end", class: "sq-name"}.svg())
	}
}

func (p *picture) drawBands(d Diagram) {
	for _, b := range d.Bands {
		x := p.axis.pos(b.From)
		w := max(p.axis.pos(b.To)-x, 3)
		p.bands.WriteString(p.group(b.Events, escape(b.Label), shape(`<rect x="%v" y="%v" width="%v" height="%v" fill="url(#%valarm)" opacity=".35"/>`, x, p.top, w, p.bottom-p.top, p.prefix())+
			shape(`<path class="sq-edge" d="M%v %vV%vM%v %vV%v"/>`, x, p.top, p.bottom, x+w, p.top, p.bottom)))
	}
}

func (p *picture) drawBars(d Diagram) {
	// What is drawn later covers what was before: a dead client first, a pause last.
	for _, state := range []state{dead, believes, Paused} {
		for _, b := range d.Bars {
			if b.State != state || b.Lane < 0 || b.Lane >= len(p.lanes) {
				continue
			}
			x := p.axis.pos(b.From)
			w := p.axis.pos(b.To) - x
			if last := len(p.axis.at) - 1; last >= 0 && b.To > p.axis.at[last] {
				w = p.right - x // it lasts beyond the picture
			}
			p.used[state] = true
			p.body.WriteString(p.group(b.Events, string(state)+" "+display.FromTo(b.From, b.To), p.bar(state, x, p.lanes[b.Lane], max(w, 2))))
		}
	}
}

func (p *picture) bar(state state, x, y, w float64) string {
	switch state {
	case Paused:
		return shape(`<rect x="%v" y="%v" width="%v" height="26" fill="url(#%vstall)" opacity=".8"/>`, x, y-13, w, p.prefix())
	case dead:
		return shape(`<rect class="sq-gone" x="%v" y="%v" width="%v" height="4"/><path class="sq-dead" d="M%v %vh%v"/>`, x, y-2, w, x, y, w)
	}
	p.held = append(p.held, box{x, y - 8, x + w, y + 8})
	return shape(`<rect class="sq-holds" x="%v" y="%v" width="%v" height="16" rx="2"/>`, x, y-8, w)
}

// sayHeld writes into the bars what they are, where no arrow and no mark is in the way.
func (p *picture) sayHeld() {
	const words = "believes that it holds"
	for _, bar := range p.held {
		for x := bar.x1 + 6; x+charWidth*float64(len(words)) < bar.x2; x += 8 {
			b := box{x, bar.y1, x + charWidth*float64(len(words)), bar.y2}
			if !p.clear(b) {
				continue
			}
			p.taken = append(p.taken, b)
			p.texts = append(p.texts, text{x: x, y: bar.y1 + 12, lines: []string{words}, class: "sq-in"})
			break
		}
	}
}

// drawArrows draws the messages, and says which labels they want.
func (p *picture) drawArrows(d Diagram) (wishes []wish) {
	for _, g := range byFact(d) {
		for k, a := range g {
			x1, x2 := p.axis.pos(a.Sent), p.axis.pos(a.Arrived)
			y1, y2 := p.lanes[a.From], p.lanes[a.To]
			label, detail := escape(a.Label), escape(a.Detail)
			title := display.Join(": ", label, strings.TrimPrefix(detail, ": ")) + ", sent at " + display.Seconds(a.Sent)
			if a.Lost {
				x2, y2 = x1+12, y1+0.7*(y2-y1)
				title += ", not known to have arrived"
			} else {
				title += ", arrived at " + display.Seconds(a.Arrived)
			}
			x2 = max(x2, x1+3)
			p.shafts = append(p.shafts, shaft{x1, y1, x2, y2})
			p.body.WriteString(p.group(a.Events, title, a.shape(x1, y1, x2, y2)))
			if a.Mark != "" && !a.Lost {
				p.addMark(mark{mark: a.Mark, x: x2, y: y2, bad: a.Bad, title: title, events: a.Events})
			}
			if k > 0 {
				continue // the arrows of one fact say the same
			}
			wishes = append(wishes, wish{x: x1, y: y1, toX: x2, toY: y2, label: label, bad: a.Bad, along: true, rank: 2},
				wish{x: x2, y: y2, label: detail, bad: a.Bad, rank: rank(a.Bad, 3)})
		}
	}
	return wishes
}

func (a arrow) shape(x1, y1, x2, y2 float64) string {
	class, dash := "sq-arrow", ""
	if a.Bad {
		class += " sq-harm"
	}
	if a.Slow || a.Lost {
		dash = ` stroke-dasharray="6 3"`
	}
	shaft := shape(`<path class="%v"%v d="M%v %vL%v %v"/>`, class, dash, x1, y1, x2, y2)
	if a.Lost {
		return shaft + shape(`<path class="%v" d="M%v %vl8 8m0 -8l-8 8"/>`, class, x2-4, y2-4)
	}
	turn := math.Atan2(y2-y1, x2-x1) * 180 / math.Pi
	return shaft + shape(`<path class="%v sq-head" transform="translate(%v %v) rotate(%v)" d="M0 0L-9 4L-9 -4Z"/>`, class, x2, y2, turn)
}

func (p *picture) addMark(m mark) {
	p.marks = append(p.marks, m)
	p.taken = append(p.taken, box{m.x - 7, m.y - 13, m.x + 7, m.y + 13})
}

func (p *picture) drawMarks(d Diagram) (wishes []wish) {
	for _, n := range d.Notes {
		x, y := p.axis.pos(n.At), p.top+40
		if n.Lane >= 0 && n.Lane < len(p.lanes) {
			y = p.lanes[n.Lane]
			p.addMark(mark{mark: n.Mark, x: x, y: y, bad: n.Bad, title: escape(n.Label) + ", at " + display.Seconds(n.At), events: n.Events})
		}
		wishes = append(wishes, wish{x: x, y: y, label: escape(n.Label), bad: n.Bad, rank: rank(n.Bad, 1)})
	}
	return wishes
}

// drawAxis labels as many instants as find room, and marks where the axis is cut short.
func (p *picture) drawAxis() {
	var breaks string
	p.line.WriteString(shape(`<path class="sq-lane" d="M%v %vH%v"/>`+"\n", left-8.0, p.bottom, p.right))
	free, said := -math.MaxFloat64, ""
	for i, t := range p.axis.at {
		x := p.axis.x[i]
		if i > 0 && minus(t, p.axis.at[i-1]) >= 1e9 {
			p.broken = true
			middle := (x + p.axis.x[i-1]) / 2
			breaks += shape(`<rect class="sq-gone" x="%v" y="%v" width="5" height="8"/><path d="M%v %vl4 -10m3 0l-4 10"/>`+"\n", middle-2, p.bottom-4, middle-4, p.bottom+5)
		}
		label := display.Seconds(t)
		half := charWidth * float64(utf8.RuneCountInString(label)) / 2
		if x-half < free || label == said {
			continue
		}
		p.line.WriteString(shape(`<path class="sq-grid" d="M%v %vV%v"/>`+"\n", x, p.top, p.bottom))
		p.line.WriteString(text{x: x, y: p.bottom + 15, lines: []string{label}, anchor: "middle", class: "sq-tick"}.svg())
		free, said = x+half+8, label
	}
	p.line.WriteString(breaks)
}

// foot lays out what stands below the picture. A page tells itself what is not shown.
func (p *picture) foot(d Diagram) {
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
		state state
		text  string
	}{{believes, "bar: believes that it holds the lock"}, {Paused, "hatched: paused"}, {dead, "dotted lane: dead"}} {
		if p.used[l.state] {
			legend = append(legend, l.text)
		}
	}
	if len(d.Bands) > 0 {
		legend = append(legend, "hatched band: two believe that they hold it")
	}
	if p.broken {
		legend = append(legend, "//: a second or more is cut short")
	}
	add("sq-foot", wrap(strings.Join(legend, " · "), chars, 3)...)
	if !p.options.Embedded {
		add("sq-foot", wrap(escape(d.Omitted), chars, 3)...)
	}
	p.height = y + 4
}
