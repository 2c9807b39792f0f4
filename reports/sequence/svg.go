package sequence

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"

	"lockpick/reports/palette"
)

// SVGOptions says where a picture stands.
type SVGOptions struct {
	// Embedded: it stands in a page that has the palette's variables, Style, the story
	// in words, and an element with the id eN for event N. It brings none of these and
	// has links.
	Embedded bool
	// Prefix begins the ids in the picture, so that a page can hold several.
	Prefix string
}

// SVG draws a diagram as Kleppmann drew his: time runs to the right, one lane for
// each process, messages slant from lane to lane. The axis is not linear: what is
// quick is stretched, what is long is cut short, and the ticks tell the true time.
//
//	client c1    ──┬──▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░──╲──
//	                ╲  ╱                          ╲
//	locks n1–n5  ────●─────────────●───────────────╲
//	                              ╱ ╲               ╲
//	storage r1   ──────────────────────────────────✗
//
// A mark or a hatch says what a colour says; what found no room in the picture is
// numbered and told below, and details stand in title elements.
func SVG(d Diagram, o SVGOptions) []byte {
	p := &painter{picture: layOut(d, !o.Embedded), options: o}
	p.open()
	for _, b := range p.bands {
		p.band(b)
	}
	p.axisLine()
	for _, l := range p.lanes {
		fmt.Fprintf(&p.out, `<path class="sq-lane" d="M%s %sH%s"/>`+"\n", num(left-8), num(l.y), num(p.right))
		p.text(text{x: left - 16, y: l.y + 4, lines: []string{l.name}, end: true, class: "sq-name"})
	}
	for _, b := range p.bars {
		p.bar(b)
	}
	for _, a := range p.arrows {
		p.arrow(a)
	}
	for _, m := range p.marks {
		p.mark(m)
	}
	for _, t := range p.texts {
		p.text(t)
	}
	p.out.WriteString("</svg>\n")
	return p.out.Bytes()
}

// painter writes a picture.
type painter struct {
	picture
	options SVGOptions
	out     bytes.Buffer
}

const style = `.sq text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif;fill:var(--ink)}
.sq .sq-label{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}.sq .sq-bad{fill:var(--alarm-ink);font-weight:600}
.sq .sq-title{font-size:16px;font-weight:600}.sq .sq-name{font-weight:600}.sq .sq-tick,.sq .sq-foot{fill:var(--faint);font-size:11px}
.sq .sq-in{fill:var(--paper);font-size:11px}.sq path,.sq line{fill:none;stroke:var(--ink);stroke-width:1.2}
.sq .sq-lane{stroke:var(--faint)}.sq .sq-grid{stroke:var(--line);stroke-width:1;stroke-dasharray:1 3}.sq .sq-lead{stroke:var(--faint);stroke-width:.7}
.sq .sq-harm{stroke:var(--alarm);stroke-width:2}.sq .sq-head{fill:var(--ink);stroke:none}.sq .sq-harm.sq-head{fill:var(--alarm)}
.sq .sq-holds{fill:var(--lease)}.sq .sq-gone{fill:var(--paper)}.sq .sq-dead{stroke:var(--faint);stroke-dasharray:2 5}
.sq .sq-hatch-stall{stroke:var(--stall);stroke-width:3}.sq .sq-hatch-alarm{stroke:var(--alarm);stroke-width:2}
.sq .sq-dot{fill:var(--ink);stroke:var(--paper);stroke-width:1}.sq .sq-dot-bad{fill:var(--alarm);stroke:var(--paper);stroke-width:1}
.sq .sq-edge{stroke:var(--alarm);stroke-dasharray:4 2}.sq a{cursor:pointer}.sq-lit .sq-arrow,.sq a:hover path{stroke-width:2.4}
`

// Style is what an embedded picture needs of the page's style, once.
const Style = style

func (p *painter) open() {
	w, h := num(p.width), num(p.height)
	fmt.Fprintf(&p.out, `<svg xmlns="http://www.w3.org/2000/svg" class="sq" role="img" width="%s" height="%s" viewBox="0 0 %s %s">`+"\n", w, h, w, h)
	fmt.Fprintf(&p.out, "<title>%s</title>\n<desc>%s</desc>\n", html.EscapeString(p.title), html.EscapeString(p.desc))
	if !p.options.Embedded {
		fmt.Fprintf(&p.out, "<style>%s%s</style>\n", palette.CSS, style)
	}
	for _, kind := range []string{"stall", "alarm"} {
		step := map[string]int{"stall": 7, "alarm": 9}[kind]
		fmt.Fprintf(&p.out, `<pattern id="%s%s" width="%d" height="%d" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="sq-hatch-%s" d="M0 0V%d"/></pattern>`+"\n",
			html.EscapeString(p.options.Prefix), kind, step, step, kind, step)
	}
	fmt.Fprintf(&p.out, `<rect width="%s" height="%s" fill="var(--paper)"/>`+"\n", w, h)
}

// group wraps what stands for events.
func (p *painter) group(events []int64, title string, draw func()) {
	link := p.options.Embedded && len(events) > 0
	if link {
		fmt.Fprintf(&p.out, `<a href="#e%d">`, events[len(events)-1])
	}
	fmt.Fprintf(&p.out, `<g data-e="%s">`, strings.Trim(fmt.Sprint(events), "[]"))
	if title != "" {
		fmt.Fprintf(&p.out, "<title>%s</title>", html.EscapeString(title))
	}
	draw()
	p.out.WriteString("</g>")
	if link {
		p.out.WriteString("</a>")
	}
	p.out.WriteByte('\n')
}

func (p *painter) band(b drawnBand) {
	p.group(b.events, b.title, func() {
		fmt.Fprintf(&p.out, `<rect x="%s" y="%s" width="%s" height="%s" fill="url(#%salarm)" opacity=".35"/>`,
			num(b.x), num(p.top), num(b.w), num(p.bottom-p.top), html.EscapeString(p.options.Prefix))
		fmt.Fprintf(&p.out, `<path class="sq-edge" d="M%s %sV%sM%s %sV%s"/>`, num(b.x), num(p.top), num(p.bottom), num(b.x+b.w), num(p.top), num(p.bottom))
	})
}

// axisLine draws the axis with its ticks, and where it is cut short.
func (p *painter) axisLine() {
	fmt.Fprintf(&p.out, `<path class="sq-lane" d="M%s %sH%s"/>`+"\n", num(left-8), num(p.bottom), num(p.right))
	for _, t := range p.ticks {
		fmt.Fprintf(&p.out, `<path class="sq-grid" d="M%s %sV%s"/>`+"\n", num(t.x), num(p.top), num(p.bottom))
		p.text(text{x: t.x, y: p.bottom + 15, lines: []string{t.label}, middle: true, class: "sq-tick"})
	}
	for _, x := range p.breaks {
		fmt.Fprintf(&p.out, `<rect class="sq-gone" x="%s" y="%s" width="5" height="8"/><path d="M%s %sl4 -10m3 0l-4 10"/>`+"\n",
			num(x-2), num(p.bottom-4), num(x-4), num(p.bottom+5))
	}
}

func (p *painter) bar(b drawnBar) {
	p.group(b.events, b.title, func() {
		switch b.state {
		case Believes:
			fmt.Fprintf(&p.out, `<rect class="sq-holds" x="%s" y="%s" width="%s" height="16" rx="2"/>`, num(b.x), num(b.y-8), num(b.w))
			if words := "believes that it holds"; b.w > charWidth*float64(len(words))+12 {
				fmt.Fprintf(&p.out, `<text class="sq-in" x="%s" y="%s">%s</text>`, num(b.x+6), num(b.y+4), words)
			}
		case Paused:
			fmt.Fprintf(&p.out, `<rect x="%s" y="%s" width="%s" height="26" fill="url(#%sstall)" opacity=".8"/>`,
				num(b.x), num(b.y-13), num(b.w), html.EscapeString(p.options.Prefix))
		case Dead:
			fmt.Fprintf(&p.out, `<rect class="sq-gone" x="%s" y="%s" width="%s" height="4"/><path class="sq-dead" d="M%s %sh%s"/>`,
				num(b.x), num(b.y-2), num(b.w), num(b.x), num(b.y), num(b.w))
		}
	})
}

func (p *painter) arrow(a drawnArrow) {
	class := "sq-arrow"
	if a.bad {
		class += " sq-harm"
	}
	p.group(a.events, a.title, func() {
		dash := ""
		if a.slow || a.lost {
			dash = ` stroke-dasharray="6 3"`
		}
		fmt.Fprintf(&p.out, `<path class="%s"%s d="M%s %sL%s %s"/>`, class, dash, num(a.x1), num(a.y1), num(a.x2), num(a.y2))
		if a.lost {
			fmt.Fprintf(&p.out, `<path class="%s" d="M%s %sl8 8m0 -8l-8 8"/>`, class, num(a.x2-4), num(a.y2-4))
			return
		}
		turn := math.Atan2(a.y2-a.y1, a.x2-a.x1) * 180 / math.Pi
		fmt.Fprintf(&p.out, `<path class="%s sq-head" transform="translate(%s %s) rotate(%s)" d="M0 0L-9 4L-9 -4Z"/>`, class, num(a.x2), num(a.y2), num(turn))
	})
}

// mark draws a point on a lane by its form.
func (p *painter) mark(m drawnMark) {
	class, line := "sq-dot", "sq-arrow"
	if m.bad {
		class, line = "sq-dot-bad", "sq-harm"
	}
	shape, ok := shapes[m.mark]
	if !ok {
		shape = `<circle class="{dot}" cx="{x}" cy="{y}" r="4"/>`
	}
	p.group(m.events, m.title, func() {
		p.out.WriteString(strings.NewReplacer("{dot}", class, "{line}", line, "{x}", num(m.x), "{y}", num(m.y)).Replace(shape))
	})
}

// shapes are the marks that are no dot.
var shapes = map[Mark]string{
	Cross: `<path class="{line}" stroke-width="2" d="M{x} {y}m-6 -6l12 12m0 -12l-12 12"/>`,
	Ring:  `<circle class="sq-dot" style="fill:var(--paper);stroke:var(--ink)" cx="{x}" cy="{y}" r="5"/>`,
	Stop:  `<path class="{line}" stroke-width="2" d="M{x} {y}m0 -13v26"/>`,
	Down:  `<path class="{dot}" d="M{x} {y}m-6 -12h12l-6 10z"/>`,
	Up:    `<path class="{dot}" d="M{x} {y}m-6 -2h12l-6 -10z"/>`,
}

func (p *painter) text(t text) {
	anchor := ""
	switch {
	case t.end:
		anchor = ` text-anchor="end"`
	case t.middle:
		anchor = ` text-anchor="middle"`
	}
	if t.lead != nil {
		fmt.Fprintf(&p.out, `<path class="sq-lead" d="M%s %sL%s %s"/>`, num(t.lead.x), num(t.lead.y), num(t.lead.toX), num(t.lead.toY))
	}
	for i, l := range t.lines {
		fmt.Fprintf(&p.out, `<text class="%s" x="%s" y="%s"%s>%s</text>`+"\n", t.class, num(t.x), num(t.y+float64(i)*lineHeight), anchor, html.EscapeString(l))
	}
}

// num writes a coordinate to a tenth.
func num(x float64) string {
	s := fmt.Sprintf("%.1f", x)
	return strings.TrimSuffix(strings.TrimSuffix(s, ".0"), ".")
}
