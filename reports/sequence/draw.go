package sequence

import (
	"strings"
	"unicode/utf8"

	"lockpick/reports/display"
)

// line is one line of a drawing, of fixed width.
type line []rune

func newLine(width int) line { return []rune(strings.Repeat(" ", width)) }

// put writes s from column x on; what lies outside is cut.
func (l line) put(x int, s string) {
	for _, r := range s {
		if x >= 0 && x < len(l) {
			l[x] = r
		}
		x++
	}
}

func (l line) at(x int) rune {
	if x < 0 || x >= len(l) {
		return ' '
	}
	return l[x]
}

// text is the line without the blanks at its end.
func (l line) text() string { return strings.TrimRight(string(l), " ") + "\n" }

// page is the division of a drawing into columns.
type page struct {
	d      Diagram
	width  int
	digits map[int64]int // behind the point, for each instant
	whole  int           // characters before the point
	most   int           // most digits behind it
	column int           // of the first lane
	lane   int           // from one lane to the next
	words  int           // column of the labels
	long   int64         // a gap worth a row
	used   map[state]bool
}

const (
	widestLane   = 17
	smallestLane = 7
	goodLabel    = 42 // characters in which most labels fit on two lines
)

func newPage(d Diagram, rows []row, width int) *page {
	p := &page{d: d, width: width, most: 3, used: map[state]bool{}}
	p.digits = digits(rows)
	for _, r := range rows {
		p.most = max(p.most, p.digits[r.at])
		p.whole = max(p.whole, strings.IndexByte(display.Decimal(r.at, 3), '.'))
	}
	p.whole = max(p.whole, len("seconds")-1-p.most)
	p.column = p.whole + 1 + p.most + 3 // a space, the gutter, a space
	p.long = minus(rows[len(rows)-1].at, rows[0].at) / 10
	between := len(d.Lanes) - 1
	if between > 0 {
		p.lane = min(max((width-p.column-3-goodLabel)/between, smallestLane), widestLane)
		p.lane = max(min(p.lane, (width-p.column-3-12)/between), 3)
	}
	p.words = p.column + between*p.lane + 4
	return p
}

func (p *page) x(lane int) int { return p.column + lane*p.lane }

// digits says how exactly each instant must be written, so that neighbours which
// differ look different.
func digits(rows []row) map[int64]int {
	out := map[int64]int{}
	for i := 1; i < len(rows); i++ {
		a, b := rows[i-1].at, rows[i].at
		n := 3
		for n < 9 && a != b && display.Decimal(a, n) == display.Decimal(b, n) {
			n += 3
		}
		out[a], out[b] = max(out[a], n), max(out[b], n)
	}
	if len(rows) == 1 {
		out[rows[0].at] = 3
	}
	return out
}

// drawLanes draws all lanes as they are at an instant, and the gutter.
func (p *page) drawLanes(l line, at int64) {
	for i := range p.d.Lanes {
		r, paused := '│', false
		for _, b := range p.d.Bars {
			if b.Lane != i || at < b.From || at >= b.To {
				continue
			}
			p.used[b.State] = true
			switch b.State {
			case believes:
				r = '┃'
			case dead:
				r = ' '
			case Paused:
				paused = true
			}
		}
		l.put(p.x(i), string(r))
		if paused {
			l.put(p.x(i)+1, "░")
		}
	}
	for _, b := range p.d.Bands {
		if b.From <= at && at < b.To {
			l.put(p.column-2, "!")
		}
	}
}

// drawArrows draws the arrows of one fact, the longest first, and returns the
// words to stand beside them.
func (p *page) drawArrows(l line, r row) string {
	for far := len(p.d.Lanes); far > 0; far-- {
		for _, a := range r.arrows {
			if max(a.From-a.To, a.To-a.From) == far {
				p.drawShaft(l, a, r.part)
			}
		}
	}
	a := r.arrows[0]
	text := a.Detail
	if r.part == departure {
		text = "under way until " + display.Seconds(latest(r.arrows))
	}
	if !p.labelled(l, a, r.part) {
		text = strings.TrimSuffix(a.Label+": "+text, ": ")
	}
	return text
}

// drawShaft draws one arrow from lane to lane. Lanes that it passes are crossed.
func (p *page) drawShaft(l line, a arrow, part part) {
	from, to := p.x(a.From), p.x(a.To)
	step, leaves, head := 1, "├", ">"
	if to < from {
		step, leaves, head = -1, "┤", "<"
	}
	shaft := "─"
	if part != whole {
		shaft = "╌"
	}
	for x := from + step; x != to; x += step {
		mark := shaft
		switch l.at(x) {
		case '│', '┃', '┼':
			mark = "┼"
		case '├', '┤', '┴':
			mark = string(l.at(x)) // where another arrow of this fact ends
		}
		l.put(x, mark)
	}
	if part != arrival {
		if r := l.at(from); r == '┼' {
			leaves = "┴"
		}
		l.put(from, leaves)
	}
	switch {
	case a.Lost || part == departure:
		p.drawEnd(l, a, to, step)
	default:
		l.put(to-step, head)
		if l.at(to) == '┼' { // another goes on from here
			l.put(to, leaves)
		}
		if a.Mark != "" {
			l.put(to, string(a.Mark))
		}
	}
}

// drawEnd ends a shaft before its lane: lost on the way, or still under way.
func (p *page) drawEnd(l line, a arrow, to, step int) {
	if l.at(to) == '┼' {
		return // another goes on from here
	}
	l.put(to-step, " ")
	end := "×"
	if !a.Lost {
		end = "╌"
	}
	l.put(to-2*step, end)
}

// labelled writes the arrow's label on its shaft, next to where the reader looks
// first: the client's end. It reports whether there was room.
func (p *page) labelled(l line, a arrow, part part) bool {
	text := " " + escape(a.Label) + " "
	n := utf8.RuneCountInString(text)
	room := p.lane - 3 // a dash and the head
	if a.Lost || part == departure {
		room -= 2
	}
	if a.Label == "" || n > room {
		return a.Label == ""
	}
	left := a.From
	if a.To < a.From {
		left = a.From - 1
	}
	if a.Answer {
		left = a.To
		if a.To > a.From {
			left = a.To - 1
		}
	}
	l.put(p.x(left)+1+(p.lane-1-n)/2, text)
	return true
}
