package sequence

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"lockpick/reports/words"
)

// wish is a label that wants a place.
type wish struct {
	x, y     float64 // what it is about
	toX, toY float64 // of an arrow, its other end
	along    bool    // it stands beside the arrow
	still    bool    // it stands where it is, or as near above and below as it can
	label    string
	bad      bool
	must     bool // where there is no room it gets a number; else it is left to the title
	rank     int  // the lesser first
}

// place finds room for a label: near what it is about, over nothing else.
func (p *picture) place(w wish) {
	if w.label == "" {
		return
	}
	lines := wrap(words.Fit(w.label, 160), labelChars, 5)
	if p.try(w, lines) {
		return
	}
	if wide := wrap(words.Fit(w.label, 160), 2*labelChars, 3); !w.along && p.try(w, wide) {
		return
	}
	if !w.must {
		return
	}
	number := circled(len(p.notes) + 1)
	if !p.try(w, []string{number}) {
		number = "" // it is told below all the same
	}
	p.notes = append(p.notes, w.label)
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
		wide *= 1.06
	}
	for _, b := range w.candidates(wide, tall) {
		if !p.free(b) {
			continue
		}
		p.taken = append(p.taken, b)
		t := text{x: b.x1, y: b.y1 + lineHeight - 3, lines: lines, class: class}
		if !w.along && !w.still {
			t.lead = leadTo(b, w.x, w.y)
		}
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
		for _, share := range []float64{0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78} {
			x, y := w.x+share*(w.toX-w.x), w.y+share*(w.toY-w.y)
			at(x-wide/2, y-tall/2)
			at(x+4, y-tall/2)
			at(x-wide-4, y-tall/2)
		}
		return out
	}
	above, below := w.y-15-tall, w.y+15
	if w.still {
		above, below = w.y-tall, w.y
	}
	for step := range 5 {
		off := float64(step) * (lineHeight - 1)
		for _, x := range []float64{w.x + 3, w.x - wide/2, w.x - wide - 3} {
			if w.still {
				at(x, below+off)
				continue
			}
			if step < 4 {
				at(x, above-off)
			}
			at(x, below+off)
		}
	}
	return out
}

// free reports whether a box lies in the picture and over nothing else.
func (p *picture) free(b box) bool {
	if b.x1 < left-14 || b.x2 > p.width-4 || b.y1 < p.top-2 || b.y2 > p.bottom-2 {
		return false
	}
	for _, y := range p.lanes {
		if b.y1 < y+9 && b.y2 > y-9 {
			return false
		}
	}
	return !slices.ContainsFunc(p.taken, b.meets)
}

func (b box) meets(o box) bool {
	return b.x1 < o.x2+2 && o.x1 < b.x2+2 && b.y1 < o.y2 && o.y1 < b.y2
}

// leadTo is the line from a label to what it is about; "": it stands beside it.
func leadTo(b box, x, y float64) string {
	fromY, toY := b.y2, y-13
	switch {
	case b.y2 < y-28:
	case b.y1 > y+28:
		fromY, toY = b.y1, y+13
	default:
		return ""
	}
	return shape(`<path class="sq-lead" d="M%v %vL%v %v"/>`, min(max(x, b.x1), b.x2), fromY, x, toY)
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
