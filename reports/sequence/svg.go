package sequence

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"lockpick/reports/display"
)

// SVG draws a diagram in the style of Kleppmann's figures: time runs to the right, each process has a
// lane, and messages slant from lane to lane. The time axis is not linear: it stretches short spans
// and compresses long spans. The ticks show true time.
//
//	client c1    ──┬──▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░──╲──
//	                ╲  ╱                          ╲
//	locks n1–n5  ────●─────────────●───────────────╲
//	                              ╱ ╲               ╲
//	storage r1   ──────────────────────────────────✗
//
// Marks and hatches repeat the meaning of the colors. A label that does not fit in the picture becomes
// a numbered footnote. Details are in title elements.
func SVG(d Diagram, o SVGOptions) []byte {
	p := newPicture(d, o)
	var out strings.Builder
	role, minSize := "img", ""
	if o.Embedded {
		role = "group" // has links as parts
		// Limits how far a page can scale the picture down: 12 px text must not become smaller than 11 px.
		minSize = svgf(` style="--least:%vpx"`, math.Ceil(p.width*11/12))
	}
	out.WriteString(svgf(`<svg xmlns="http://www.w3.org/2000/svg" class="sq" role="%[4]v" width="%[1]v" height="%[2]v" viewBox="0 0 %[1]v %[2]v"%[3]v>`+"\n", p.width, p.height, minSize, role))
	out.WriteString(svgf("<title>%v</title>\n<desc>%v</desc>\n", html.EscapeString(p.title), html.EscapeString(p.desc)))
	if !o.Embedded {
		out.WriteString("<style>" + display.ColorsCSS + style + "</style>\n")
	}
	for _, hatch := range []struct {
		kind string
		step int
	}{{"stall", 7}, {"alarm", 9}} {
		out.WriteString(svgf(`<pattern id="%[1]v%[2]v" width="%[3]v" height="%[3]v" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="sq-hatch-%[2]v" d="M0 0V%[3]v"/></pattern>`+"\n",
			p.prefix(), hatch.kind, hatch.step))
	}
	out.WriteString(svgf(`<rect width="%v" height="%v" fill="var(--paper)"/>`+"\n", p.width, p.height))
	out.WriteString(p.bandLayer.String() + p.axisLayer.String() + p.laneLayer.String())
	for _, m := range p.marks {
		out.WriteString(p.group(m.events, m.title, m.shape()))
	}
	for _, t := range p.texts {
		out.WriteString(t.svg())
	}
	out.WriteString("</svg>\n")
	return []byte(out.String())
}

const style = `.sq text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif;fill:var(--ink)}
.sq .sq-label{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}.sq .sq-bad{fill:var(--alarm-ink);font-weight:600}
.sq .sq-title{font-size:16px;font-weight:600}.sq .sq-name{font-weight:600}.sq .sq-tick,.sq .sq-foot{fill:var(--faint)}
.sq .sq-in{fill:var(--paper)}.sq path,.sq line{fill:none;stroke:var(--ink);stroke-width:1.2}
.sq .sq-lane{stroke:var(--faint)}.sq .sq-grid{stroke:var(--line);stroke-width:1;stroke-dasharray:1 3}.sq .sq-lead{stroke:var(--faint);stroke-width:.7}
.sq .sq-harm{stroke:var(--alarm);stroke-width:2}.sq .sq-head{fill:var(--ink);stroke:none}.sq .sq-harm.sq-head{fill:var(--alarm)}
.sq .sq-holds{fill:var(--lease)}.sq .sq-keeps{fill:var(--alarm)}.sq .sq-gone{fill:var(--paper)}.sq .sq-dead{stroke:var(--faint);stroke-dasharray:2 5}
.sq .sq-hatch-stall{stroke:var(--stall);stroke-width:3}.sq .sq-hatch-alarm{stroke:var(--alarm);stroke-width:2}
.sq .sq-dot{fill:var(--ink);stroke:var(--paper);stroke-width:1}.sq .sq-dot-bad{fill:var(--alarm);stroke:var(--paper);stroke-width:1}
.sq .sq-edge{stroke:var(--alarm);stroke-dasharray:4 2}.sq a{cursor:pointer}.sq-lit .sq-arrow,.sq a:hover path{stroke-width:2.4}
`

// Style is the style sheet for embedded pictures. A page includes it once.
const Style = style

// maxInstants limits the size of a picture. Only histories that no run could produce reach the limit.
const maxInstants = 600

// newPicture lays out a diagram.
func newPicture(d Diagram, o SVGOptions) *picture {
	p := &picture{options: o, axis: newAxis(instants(d)).compress(maxAxisWidth), usedStates: map[state]bool{}}
	p.right = leftEdge + 40
	if n := len(p.axis.x); n > 0 {
		p.right = p.axis.x[n-1] + 90
	}
	p.width = max(p.right+16, minPictureWidth)
	p.right = p.width - 16
	p.placeHeader(d)
	p.drawLanes(d)
	p.drawBands(d)
	p.drawBars(d)
	requests := append(p.drawArrows(d), p.drawMarks(d)...)
	p.labelBars()
	for _, b := range d.Bands {
		requests = append(requests, labelRequest{x: p.axis.pos(b.From), y: p.top + 12, label: escape(b.Label), bad: true, fixed: true})
	}
	slices.SortStableFunc(requests, func(a, b labelRequest) int { return cmp.Compare(a.rank, b.rank) })
	for _, w := range requests {
		p.place(w)
	}
	p.drawAxis()
	p.placeFooter(d)
	return p
}

// instants returns the times of everything drawn.
func instants(d Diagram) []int64 {
	var at []int64
	for _, g := range groupByFact(d) {
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
	first, last := int64(noTime), int64(math.MinInt64)
	for _, t := range at {
		first, last = min(first, t), max(last, t)
	}
	for _, b := range d.Bars { // bars never extend the axis
		for _, t := range []int64{b.From, b.To} {
			if first < t && t < last {
				at = append(at, t)
			}
		}
	}
	return at[:min(len(at), maxInstants)]
}

func (p *picture) placeHeader(d Diagram) {
	p.title = escape(d.Title)
	story := escape(strings.Join(d.Caption, " "))
	p.desc = strings.ReplaceAll(story, display.NoBreak, " ")
	if p.options.Embedded {
		p.top = 4
		return
	}
	textWidth := min(p.width, 1300) - 32
	y := 26.0
	for _, l := range wrap(p.title, int(textWidth/titleWidth), 3) {
		p.texts = append(p.texts, text{x: 16, y: y, lines: []string{l}, class: "sq-title"})
		y += 21
	}
	for _, l := range wrap(story, int(textWidth/charWidth), 20) {
		p.texts = append(p.texts, text{x: 16, y: y, lines: []string{l}})
		y += 17
	}
	p.top = y + 2
}

func (p *picture) drawLanes(d Diagram) {
	p.bottom = p.top + 90
	gap := min(max(drawingHeight/float64(max(len(d.Lanes)-1, 1)), minLaneGap), maxLaneGap)
	for i, l := range d.Lanes {
		y := p.top + 70 + float64(i)*gap
		p.lanes, p.bottom = append(p.lanes, y), y+64
		p.laneLayer.WriteString(svgf(`<path class="sq-lane" d="M%v %vH%v"/>`+"\n", leftEdge-8.0, y, p.right))
		lines := wrap(escape(l.title()), 16, 3)
		p.occupiedAreas = append(p.occupiedAreas, box{0, y - float64(len(lines))*lineHeight/2 - 4, leftEdge - 10, y + float64(len(lines))*lineHeight/2 + 4})
		p.laneLayer.WriteString(text{x: leftEdge - 16, y: y + 4 - float64(len(lines)-1)*lineHeight/2, lines: lines, anchor: "end", class: "sq-name"}.svg())
	}
}

func (p *picture) drawBands(d Diagram) {
	for _, b := range d.Bands {
		x := p.axis.pos(b.From)
		w := max(p.axis.pos(b.To)-x, 3)
		p.bandLayer.WriteString(p.group(b.Events, escape(b.Label), svgf(`<rect x="%v" y="%v" width="%v" height="%v" fill="url(#%valarm)" opacity=".35"/>`, x, p.top, w, p.bottom-p.top, p.prefix())+
			svgf(`<path class="sq-edge" d="M%v %vV%vM%v %vV%v"/>`, x, p.top, p.bottom, x+w, p.top, p.bottom)))
	}
}

var stateText = map[state]string{stateBelieving: "believes that it holds the lock", statePaused: "paused", stateDead: "dead", stateLeftoverKey: "leftover key"}

func (p *picture) drawBars(d Diagram) {
	// Draw dead first and pauses last, because later bars cover earlier bars.
	for _, state := range []state{stateDead, stateBelieving, stateLeftoverKey, statePaused} {
		for _, b := range d.Bars {
			if b.State != state || b.Lane < 0 || b.Lane >= len(p.lanes) {
				continue
			}
			x := p.axis.pos(b.From)
			w := p.axis.pos(b.To) - x
			if last := len(p.axis.times) - 1; last >= 0 && b.To > p.axis.times[last] {
				w = p.right - x // the bar continues beyond the picture
			}
			p.usedStates[state] = true
			p.laneLayer.WriteString(p.group(b.Events, stateText[state]+" "+display.Interval(b.From, b.To), p.bar(state, x, p.lanes[b.Lane], max(w, 2))))
		}
	}
}

func (p *picture) bar(state state, x, y, w float64) string {
	switch state {
	case statePaused:
		return svgf(`<rect x="%v" y="%v" width="%v" height="26" fill="url(#%vstall)" opacity=".8"/>`, x, y-13, w, p.prefix())
	case stateLeftoverKey:
		return svgf(`<rect class="sq-keeps" x="%v" y="%v" width="%v" height="8"/>`, x, y-4, w)
	case stateDead:
		return svgf(`<rect class="sq-gone" x="%v" y="%v" width="%v" height="4"/><path class="sq-dead" d="M%v %vh%v"/>`, x, y-2, w, x, y, w)
	}
	p.beliefBars = append(p.beliefBars, box{x, y - 8, x + w, y + 8})
	return svgf(`<rect class="sq-holds" x="%v" y="%v" width="%v" height="16" rx="2"/>`, x, y-8, w)
}

// labelBars labels the bars that have room for a label between arrows and marks.
func (p *picture) labelBars() {
	const words = "believes that it holds"
	for _, bar := range p.beliefBars {
		for x := bar.x1 + 6; x+charWidth*float64(len(words)) < bar.x2; x += 8 {
			b := box{x, bar.y1, x + charWidth*float64(len(words)), bar.y2}
			if !p.isClear(b) {
				continue
			}
			p.occupiedAreas = append(p.occupiedAreas, b)
			p.texts = append(p.texts, text{x: x, y: bar.y1 + 12, lines: []string{words}, class: "sq-in"})
			break
		}
	}
}

// drawArrows draws the messages and returns their labels, which are to be placed.
func (p *picture) drawArrows(d Diagram) (requests []labelRequest) {
	for _, g := range groupByFact(d) {
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
			p.laneLayer.WriteString(p.group(a.Events, title, a.shape(x1, y1, x2, y2)))
			if a.Mark != "" && !a.Lost {
				p.addMark(mark{symbol: a.Mark, x: x2, y: y2, bad: a.Bad, title: title, events: a.Events})
			}
			if k > 0 {
				continue // all arrows of a fact share a label
			}
			requests = append(requests, labelRequest{x: x1, y: y1, toX: x2, toY: y2, label: label, bad: a.Bad, along: true, rank: 2},
				labelRequest{x: x2, y: y2, label: detail, bad: a.Bad, rank: labelRank(a.Bad, 3)})
		}
	}
	return requests
}

func (a arrow) shape(x1, y1, x2, y2 float64) string {
	class, dash := "sq-arrow", ""
	if a.Bad {
		class += " sq-harm"
	}
	if a.Slow || a.Lost {
		dash = ` stroke-dasharray="6 3"`
	}
	shaft := svgf(`<path class="%v"%v d="M%v %vL%v %v"/>`, class, dash, x1, y1, x2, y2)
	if a.Lost {
		return shaft + svgf(`<path class="%v" d="M%v %vl8 8m0 -8l-8 8"/>`, class, x2-4, y2-4)
	}
	turn := math.Atan2(y2-y1, x2-x1) * 180 / math.Pi
	return shaft + svgf(`<path class="%v sq-head" transform="translate(%v %v) rotate(%v)" d="M0 0L-9 4L-9 -4Z"/>`, class, x2, y2, turn)
}

func (p *picture) addMark(m mark) {
	p.marks = append(p.marks, m)
	p.occupiedAreas = append(p.occupiedAreas, box{m.x - 7, m.y - 13, m.x + 7, m.y + 13})
}

func (p *picture) drawMarks(d Diagram) (requests []labelRequest) {
	for _, n := range d.Notes {
		x, y := p.axis.pos(n.At), p.top+40
		if n.Lane >= 0 && n.Lane < len(p.lanes) {
			y = p.lanes[n.Lane]
			p.addMark(mark{symbol: n.Mark, x: x, y: y, bad: n.Bad, title: escape(n.Label) + ", at " + display.Seconds(n.At), events: n.Events})
		}
		requests = append(requests, labelRequest{x: x, y: y, label: escape(n.Label), bad: n.Bad, rank: labelRank(n.Bad, 1)})
	}
	return requests
}

// drawAxis labels as many times as fit and marks compressed gaps.
func (p *picture) drawAxis() {
	var breaks string
	p.axisLayer.WriteString(svgf(`<path class="sq-lane" d="M%v %vH%v"/>`+"\n", leftEdge-8.0, p.bottom, p.right))
	nextFree, lastLabel := -math.MaxFloat64, ""
	for i, t := range p.axis.times {
		x := p.axis.x[i]
		if i > 0 && saturatingSub(t, p.axis.times[i-1]) >= 1e9 {
			p.hasGap = true
			middle := (x + p.axis.x[i-1]) / 2
			breaks += svgf(`<rect class="sq-gone" x="%v" y="%v" width="5" height="8"/><path d="M%v %vl4 -10m3 0l-4 10"/>`+"\n", middle-2, p.bottom-4, middle-4, p.bottom+5)
		}
		label := display.Seconds(t)
		half := charWidth * float64(utf8.RuneCountInString(label)) / 2
		if x-half < nextFree || label == lastLabel {
			continue
		}
		p.axisLayer.WriteString(svgf(`<path class="sq-grid" d="M%v %vV%v"/>`+"\n", x, p.top, p.bottom))
		p.axisLayer.WriteString(text{x: x, y: p.bottom + 15, lines: []string{label}, anchor: "middle", class: "sq-tick"}.svg())
		nextFree, lastLabel = x+half+8, label
	}
	p.axisLayer.WriteString(breaks)
}

// placeFooter places the text below the picture. It lists omissions unless the picture is embedded,
// because then the page lists them.
func (p *picture) placeFooter(d Diagram) {
	y := p.bottom + 38
	add := func(class string, lines ...string) {
		for _, l := range lines {
			p.texts = append(p.texts, text{x: 16, y: y, lines: []string{l}, class: class})
			y += 16
		}
	}
	chars := int((p.width - 32) / charWidth)
	for i, n := range p.footnotes {
		add("", wrap(circledNumber(i+1)+" "+n, chars, 3)...)
	}
	if d.Stop != nil {
		add("", d.Stop.lines(chars)...)
	}
	if len(d.Lanes) == 0 || len(p.axis.times) == 0 {
		add("", "Nothing to draw: no client tried to acquire a lock.")
	}
	var legend []string
	for _, l := range []struct {
		state state
		text  string
	}{{stateBelieving, "bar: believes that it holds the lock"}, {statePaused, "hatched: paused"}, {stateDead, "dotted lane: dead"}, {stateLeftoverKey, "thin bar: leftover key"}} {
		if p.usedStates[l.state] {
			legend = append(legend, l.text)
		}
	}
	for _, b := range d.Bands {
		legend = append(legend, "hatched band: "+b.Meaning)
	}
	if p.hasGap {
		legend = append(legend, "//: a gap of a second or more, not to scale")
	}
	add("sq-foot", wrap(strings.Join(legend, " · "), chars, 3)...)
	if !p.options.Embedded {
		add("sq-foot", wrap(escape(d.Omitted), chars, 3)...)
	}
	p.height = y + 4
}

// maxLabel limits the length of a label, in characters.
const maxLabel = 240

// labelRequest is a label to place.
type labelRequest struct {
	x, y     float64 // point to label
	toX, toY float64 // other end of the arrow, if along is set
	along    bool    // place the label beside the arrow
	fixed    bool    // place the label at the point or as close below it as possible
	far      bool    // the label may be farther from the point
	label    string
	bad      bool
	rank     int // lower ranks are placed first
}

// place places a label near its point without covering anything. A label that does not fit with any
// line length becomes a footnote, and place places the footnote's number instead.
func (p *picture) place(w labelRequest) {
	if w.label == "" {
		return
	}
	label := display.Truncate(w.label, maxLabel)
	for _, chars := range []int{labelChars, labelChars * 3 / 2, labelChars * 2} {
		if lines := wrap(label, chars, 99); len(lines) <= 6 && p.tryPlace(w, lines) {
			return
		}
		if w.along {
			break
		}
	}
	if w.along {
		w.x, w.y = (w.x+w.toX)/2, (w.y+w.toY)/2
	}
	w.along, w.far = false, true
	p.tryPlace(w, []string{circledNumber(len(p.footnotes) + 1)}) // a number fits almost anywhere
	p.footnotes = append(p.footnotes, label)
}

// tryPlace places a label at the first free candidate position. It reports whether there is one.
func (p *picture) tryPlace(w labelRequest, lines []string) bool {
	chars := 0
	for _, l := range lines {
		chars = max(chars, utf8.RuneCountInString(l))
	}
	width, height := float64(chars)*charWidth, float64(len(lines))*lineHeight
	class := "sq-label"
	if w.bad {
		class += " sq-bad"
		width *= 1.1
	}
	for _, b := range w.candidates(width, height) {
		if !p.isFree(b) {
			continue
		}
		t := text{x: b.x1, y: b.y1 + lineHeight - 3, lines: lines, class: class}
		if lead, ok := leaderLine(b, w.x, w.y); ok && !w.along && !w.fixed && !w.far {
			if slices.ContainsFunc(p.occupiedAreas, func(o box) bool { return lead.crosses(box{o.x1 + 4, o.y1 + 4, o.x2 - 4, o.y2 - 4}) }) {
				continue
			}
			t.leader = svgf(`<path class="sq-lead" d="M%v %vL%v %v"/>`, lead.x1, lead.y1, lead.x2, lead.y2)
			p.shafts = append(p.shafts, lead)
		}
		p.occupiedAreas = append(p.occupiedAreas, b)
		p.texts = append(p.texts, t)
		return true
	}
	return false
}

// candidates returns the possible boxes for a label, the best first.
func (w labelRequest) candidates(width, height float64) []box {
	var out []box
	at := func(x, y float64) { out = append(out, box{x, y, x + width, y + height}) }
	if w.along {
		// On both sides of the arrow, far enough away for its slope.
		slope := 0.0
		if dy := math.Abs(w.toY - w.y); dy > 0 {
			slope = math.Abs(w.toX-w.x) / dy
		}
		for _, more := range []float64{0, 8} {
			off := 5 + slope*(height/2+3) + more
			for _, share := range []float64{0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78, 0.15, 0.85} {
				x, y := w.x+share*(w.toX-w.x), w.y+share*(w.toY-w.y)
				at(x+off, y-height/2)
				at(x-width-off, y-height/2)
			}
		}
		return out
	}
	above, below := w.y-15-height, w.y+15
	if w.fixed {
		above, below = w.y-height, w.y
	}
	for step := range 8 {
		off := float64(step) * (lineHeight - 1)
		for _, x := range []float64{w.x + 3, w.x - width/2, w.x - width - 3, w.x + 12, w.x - width - 12, w.x + 30, w.x - width - 30} {
			if w.fixed {
				at(x, below+off)
				continue
			}
			at(x, above-off)
			at(x, below+off)
		}
	}
	for y := 0.0; w.far && y <= 70; y += 7 {
		for x := 0.0; x <= 140; x += 7 {
			at(w.x+x, above-y)
			at(w.x-x, above-y)
			at(w.x+x, below+y)
			at(w.x-x, below+y)
		}
	}
	return out
}

// isFree reports whether a box is inside the picture and covers nothing.
func (p *picture) isFree(b box) bool {
	if b.x1 < 16 || b.x2 > p.width-4 || b.y1 < p.top-2 || b.y2 > p.bottom-2 {
		return false
	}
	for _, y := range p.lanes {
		if b.y1 < y+9 && b.y2 > y-9 {
			return false
		}
	}
	return p.isClear(b)
}

// isClear reports whether a box covers no text, mark or arrow.
func (p *picture) isClear(b box) bool {
	return !slices.ContainsFunc(p.occupiedAreas, b.overlaps) && !slices.ContainsFunc(p.shafts, func(s shaft) bool { return s.crosses(b) })
}

func (b box) overlaps(o box) bool {
	return b.x1 < o.x2+5 && o.x1 < b.x2+5 && b.y1 < o.y2 && o.y1 < b.y2
}

// leaderLine returns the line from a label to its point, or false if the label is next to the point.
func leaderLine(b box, x, y float64) (shaft, bool) {
	fromY, toY := b.y2, y-13
	switch {
	case b.y2 < y-28:
	case b.y1 > y+28:
		fromY, toY = b.y1, y+13
	default:
		return shaft{}, false
	}
	return shaft{min(max(x, b.x1), b.x2), fromY, x, toY}, true
}

// circledNumber formats a number in a circle or, above twenty, in parentheses.
func circledNumber(n int) string {
	if n <= 20 {
		return string(rune('①' + n - 1))
	}
	return fmt.Sprintf("(%d)", n)
}

// labelRank returns 0 for labels about a violation and rank for other labels.
func labelRank(bad bool, rank int) int {
	if bad {
		return 0
	}
	return rank
}

// picture is a diagram with coordinates in pixels from the upper left corner. Its layers, from bottom
// to top, are bands, the axis, lanes with bars and arrows, marks, and texts.
type picture struct {
	options                         SVGOptions
	title, desc                     string
	width, height                   float64
	top, bottom, right              float64 // edges of the drawing
	axis                            axis
	lanes                           []float64       // y of each lane
	bandLayer, axisLayer, laneLayer strings.Builder // the lowest layers, from bottom to top
	marks                           []mark
	texts                           []text
	occupiedAreas                   []box // areas of texts and marks
	shafts                          []shaft
	beliefBars                      []box // bars to label if there is room
	footnotes                       []string
	usedStates                      map[state]bool
	hasGap                          bool // the axis has a compressed gap
}

type box struct{ x1, y1, x2, y2 float64 }

type shaft struct{ x1, y1, x2, y2 float64 }

// crosses reports whether the shaft comes within a few pixels of b.
func (s shaft) crosses(b box) bool {
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

// Dimensions in pixels.
const (
	leftEdge        = 128 // x of the start of the axis
	drawingHeight   = 480 // of all lanes; fits in a window
	minLaneGap      = 96
	maxLaneGap      = 140
	maxAxisWidth    = 850 // a page does not scale a picture of this width
	minGap          = 18  // between two times on the axis
	lineHeight      = 14
	charWidth       = 6.6 // estimated upper bound at a font size of 12 px
	titleWidth      = 9.2 // the same at 16 px
	minPictureWidth = 760
	labelChars      = 26 // preferred line length of labels, in characters
)

// svgf is fmt.Sprintf with floating-point numbers rounded to a tenth.
func svgf(format string, args ...any) string {
	for i, a := range args {
		if x, ok := a.(float64); ok {
			args[i] = strings.TrimSuffix(strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0"), ".")
		}
	}
	return fmt.Sprintf(format, args...)
}

func (p *picture) prefix() string { return html.EscapeString(p.options.Prefix) }

// group wraps elements in a group with a title and the events they stand for.
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
	symbol symbol
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
	form, ok := shapes[m.symbol]
	if !ok {
		form = `<circle class="{dot}" cx="{x}" cy="{y}" r="4"/>`
	}
	return strings.NewReplacer("{dot}", class, "{line}", line, "{x}", svgf("%v", m.x), "{y}", svgf("%v", m.y)).Replace(form)
}

// shapes maps symbols to SVG templates. All other symbols are drawn as dots.
var shapes = map[symbol]string{
	crossSymbol: `<path class="{line}" stroke-width="2" d="M{x} {y}m-6 -6l12 12m0 -12l-12 12"/>`,
	ringSymbol:  `<circle class="sq-dot" style="fill:var(--paper);stroke:var(--ink)" cx="{x}" cy="{y}" r="5"/>`,
	barSymbol:   `<path class="{line}" stroke-width="2" d="M{x} {y}m0 -13v26"/>`,
	downSymbol:  `<path class="{dot}" d="M{x} {y}m-6 -12h12l-6 10z"/>`,
	upSymbol:    `<path class="{dot}" d="M{x} {y}m-6 -2h12l-6 -10z"/>`,
}

// text is a block of lines.
type text struct {
	x, y   float64
	lines  []string
	anchor string // text-anchor attribute: "middle", "end" or, for the default, ""
	class  string
	leader string // SVG of the leader line, if any
}

func (t text) svg() string {
	out, anchor := t.leader, ""
	if t.anchor != "" {
		anchor = ` text-anchor="` + t.anchor + `"`
	}
	for i, l := range t.lines {
		out += svgf(`<text class="%v" x="%v" y="%v"%v>%v</text>`+"\n", t.class, t.x, t.y+float64(i)*lineHeight, anchor, html.EscapeString(l))
	}
	return out
}

// SVGOptions specifies where a picture will be shown.
type SVGOptions struct {
	// Embedded is set if the picture is part of a page with the palette's CSS variables, Style, the
	// caption, and an element with the id eN for each event N. The picture then omits the style and
	// the caption, and links to the events.
	Embedded bool
	// Page is the page that links point to. The default is the page that contains the picture.
	Page string
	// Prefix is put before all ids, so that a page can contain several pictures.
	Prefix string
}

// axis maps times to coordinates. It is linear between two neighboring times.
type axis struct {
	times []int64
	x     []float64
}

// newAxis returns an axis on which the space between neighboring times grows with the logarithm of
// their difference: 35 px for 1 ms, 90 px for 10 s.
func newAxis(at []int64) axis {
	slices.Sort(at)
	at = slices.Compact(at)
	a := axis{times: at}
	x := float64(leftEdge)
	for i, t := range at {
		if i > 0 {
			gap := float64(saturatingSub(t, at[i-1]))
			x += min(max(20+14*math.Log10(1+gap/1e5), 20), 96)
		}
		a.x = append(a.x, x)
	}
	return a
}

// compress shrinks an axis wider than maxWidth. It scales all gaps by the same factor but keeps them
// at least minGap wide.
func (a axis) compress(maxWidth float64) axis {
	n := len(a.x)
	if n < 2 || a.x[n-1]-leftEdge <= maxWidth {
		return a
	}
	share := maxWidth / (a.x[n-1] - leftEdge)
	x, prevX := float64(leftEdge), a.x[0]
	for i := 1; i < n; i++ {
		gap := a.x[i] - prevX
		prevX = a.x[i]
		x += max(gap*share, min(gap, minGap))
		a.x[i] = x
	}
	return a
}

func (a axis) pos(t int64) float64 {
	if len(a.times) == 0 {
		return leftEdge
	}
	i, found := slices.BinarySearch(a.times, t)
	switch {
	case found:
		return a.x[i]
	case i == 0:
		return a.x[0]
	case i == len(a.times):
		return a.x[i-1]
	}
	share := float64(saturatingSub(t, a.times[i-1])) / float64(saturatingSub(a.times[i], a.times[i-1]))
	return a.x[i-1] + share*(a.x[i]-a.x[i-1])
}
