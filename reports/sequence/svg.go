package sequence

import (
	"html"
	"math"
	"strings"

	"lockpick/reports/display"
)

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
	p := layOut(d, o)
	var out strings.Builder
	role, least := "img", ""
	if o.Embedded {
		role = "group" // its parts are links
		// A page that shows it smaller keeps its text at 11 px, of 12, and more.
		least = shape(` style="--least:%vpx"`, math.Ceil(p.width*11/12))
	}
	out.WriteString(shape(`<svg xmlns="http://www.w3.org/2000/svg" class="sq" role="%[4]v" width="%[1]v" height="%[2]v" viewBox="0 0 %[1]v %[2]v"%[3]v>`+"\n", p.width, p.height, least, role))
	out.WriteString(shape("<title>%v</title>\n<desc>%v</desc>\n", html.EscapeString(p.title), html.EscapeString(p.desc)))
	if !o.Embedded {
		out.WriteString("<style>" + display.ColorsCSS + style + "</style>\n")
	}
	for _, hatch := range []struct {
		kind string
		step int
	}{{"stall", 7}, {"alarm", 9}} {
		out.WriteString(shape(`<pattern id="%[1]v%[2]v" width="%[3]v" height="%[3]v" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="sq-hatch-%[2]v" d="M0 0V%[3]v"/></pattern>`+"\n",
			p.prefix(), hatch.kind, hatch.step))
	}
	out.WriteString(shape(`<rect width="%v" height="%v" fill="var(--paper)"/>`+"\n", p.width, p.height))
	out.WriteString(p.bands.String() + p.line.String() + p.body.String())
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
.sq .sq-holds{fill:var(--lease)}.sq .sq-gone{fill:var(--paper)}.sq .sq-dead{stroke:var(--faint);stroke-dasharray:2 5}
.sq .sq-hatch-stall{stroke:var(--stall);stroke-width:3}.sq .sq-hatch-alarm{stroke:var(--alarm);stroke-width:2}
.sq .sq-dot{fill:var(--ink);stroke:var(--paper);stroke-width:1}.sq .sq-dot-bad{fill:var(--alarm);stroke:var(--paper);stroke-width:1}
.sq .sq-edge{stroke:var(--alarm);stroke-dasharray:4 2}.sq a{cursor:pointer}.sq-lit .sq-arrow,.sq a:hover path{stroke-width:2.4}
`

// Style is what an embedded picture needs of the page's style, once.
const Style = style
