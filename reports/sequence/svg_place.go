package sequence

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"lockpick/reports/display"
)

// longestLabel is how much of a text a picture tells.
const longestLabel = 240

// wish is a label that wants a place.
type wish struct {
	x, y     float64 // what it is about
	toX, toY float64 // of an arrow, its other end
	along    bool    // it stands beside the arrow
	still    bool    // it stands where it is, or as near above and below as it can
	far      bool    // it may stand anywhere near
	label    string
	bad      bool
	rank     int // the lesser first
}

// place finds room for a label: near what it is about, over nothing else. What finds none
// at any breadth gets a number there, and is told below.
func (p *picture) place(w wish) {
	if w.label == "" {
		return
	}
	label := display.Fit(w.label, longestLabel)
	for _, chars := range []int{labelChars, labelChars * 3 / 2, labelChars * 2} {
		if lines := wrap(label, chars, 99); len(lines) <= 6 && p.try(w, lines) {
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
	p.try(w, []string{circled(len(p.notes) + 1)}) // there is hardly a place where that finds no room
	p.notes = append(p.notes, label)
}

// try puts a label at the first place that is free.
func (p *picture) try(w wish, lines []string) bool {
	chars := 0
	for _, l := range lines {
		chars = max(chars, utf8.RuneCountInString(l))
	}
	wide, tall := float64(chars)*charWidth, float64(len(lines))*lineHeight
	class := "sq-label"
	if w.bad {
		class += " sq-bad"
		wide *= 1.1
	}
	for _, b := range w.candidates(wide, tall) {
		if !p.free(b) {
			continue
		}
		t := text{x: b.x1, y: b.y1 + lineHeight - 3, lines: lines, class: class}
		if lead, ok := leadTo(b, w.x, w.y); ok && !w.along && !w.still && !w.far {
			if slices.ContainsFunc(p.taken, func(o box) bool { return lead.through(box{o.x1 + 4, o.y1 + 4, o.x2 - 4, o.y2 - 4}) }) {
				continue
			}
			t.lead = shape(`<path class="sq-lead" d="M%v %vL%v %v"/>`, lead.x1, lead.y1, lead.x2, lead.y2)
			p.shafts = append(p.shafts, lead)
		}
		p.taken = append(p.taken, b)
		p.texts = append(p.texts, t)
		return true
	}
	return false
}

// candidates are the boxes that a label may have, the best first.
func (w wish) candidates(wide, tall float64) []box {
	var out []box
	at := func(x, y float64) { out = append(out, box{x, y, x + wide, y + tall}) }
	if w.along {
		// Beside the arrow, on both sides of it, with room for its slope.
		slope := 0.0
		if dy := math.Abs(w.toY - w.y); dy > 0 {
			slope = math.Abs(w.toX-w.x) / dy
		}
		for _, more := range []float64{0, 8} {
			off := 5 + slope*(tall/2+3) + more
			for _, share := range []float64{0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78, 0.15, 0.85} {
				x, y := w.x+share*(w.toX-w.x), w.y+share*(w.toY-w.y)
				at(x+off, y-tall/2)
				at(x-wide-off, y-tall/2)
			}
		}
		return out
	}
	above, below := w.y-15-tall, w.y+15
	if w.still {
		above, below = w.y-tall, w.y
	}
	for step := range 8 {
		off := float64(step) * (lineHeight - 1)
		for _, x := range []float64{w.x + 3, w.x - wide/2, w.x - wide - 3, w.x + 12, w.x - wide - 12, w.x + 30, w.x - wide - 30} {
			if w.still {
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

// free reports whether a box lies in the picture and over nothing else.
func (p *picture) free(b box) bool {
	if b.x1 < 16 || b.x2 > p.width-4 || b.y1 < p.top-2 || b.y2 > p.bottom-2 {
		return false
	}
	for _, y := range p.lanes {
		if b.y1 < y+9 && b.y2 > y-9 {
			return false
		}
	}
	return p.clear(b)
}

// clear reports whether no text, mark or arrow is where a box is.
func (p *picture) clear(b box) bool {
	return !slices.ContainsFunc(p.taken, b.meets) && !slices.ContainsFunc(p.shafts, func(s shaft) bool { return s.through(b) })
}

func (b box) meets(o box) bool {
	return b.x1 < o.x2+5 && o.x1 < b.x2+5 && b.y1 < o.y2 && o.y1 < b.y2
}

// leadTo is the line from a label to what it is about; false: it stands beside it.
func leadTo(b box, x, y float64) (shaft, bool) {
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

// circled is a number in a circle, up to twenty.
func circled(n int) string {
	if n <= 20 {
		return string(rune('①' + n - 1))
	}
	return fmt.Sprintf("(%d)", n)
}

// rank is that of a label, unless it tells of harm.
func rank(bad bool, calm int) int {
	if bad {
		return 0
	}
	return calm
}
