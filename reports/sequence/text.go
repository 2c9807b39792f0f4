package sequence

import (
	"strings"
	"unicode/utf8"

	"lockpick/reports/words"
)

// leastWidth is the least in which six lanes and their words can be read.
const leastWidth = 60

// Text draws a diagram with lines: time runs down, one lane a column, one fact a
// row, in words beside it. No line is wider than width, which is at least 60.
// Without colour the text holds no escape sequences; labels and characters carry
// all meaning in either case.
//
//	seconds  c1            n1–n5         r1
//	  1.236  ┃<── ok 5/5 ──┤             │   c1 holds lock-1 until 11.116 s
//	  2.000  ▼░            │             │   c1 is paused
//	  ⋮      ┃░            │             │
//	 11.116  ✗░            │             │   c1's lease ends
func Text(d Diagram, width int, colour bool) string {
	width = max(width, leastWidth)
	var out strings.Builder
	for _, line := range wrap(escape(d.Title), width, 2) {
		out.WriteString(line + "\n")
	}
	for _, line := range wrap(escape(strings.Join(d.Caption, " ")), width, 20) {
		out.WriteString(line + "\n")
	}
	rows := makeRows(d)
	if len(d.Lanes) == 0 || len(rows) == 0 {
		out.WriteString("\nNothing to draw: no client tried to acquire a lock.\n")
		return out.String()
	}
	p := newPage(d, rows, width)
	out.WriteString("\n" + p.header() + "\n")
	for i, r := range rows {
		if i > 0 && p.gap(rows[i-1].at, r.at) {
			out.WriteString(p.gapRow(rows[i-1].at, r.at, colour))
		}
		out.WriteString(p.row(r, colour))
	}
	if d.Stop != nil {
		for _, line := range d.Stop.lines(width) {
			out.WriteString(line + "\n")
		}
	}
	if legend := p.legend(); legend != "" {
		out.WriteString("\n")
		for _, line := range wrap(legend, width, 3) {
			out.WriteString(line + "\n")
		}
	}
	for _, line := range wrap(escape(d.Omitted), width, 3) {
		out.WriteString(line + "\n")
	}
	return out.String()
}

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
	used   map[State]bool
}

const (
	widestLane   = 17
	smallestLane = 7
	goodLabel    = 42 // characters in which most labels fit on two lines
)

func newPage(d Diagram, rows []row, width int) *page {
	p := &page{d: d, width: width, most: 3, used: map[State]bool{}}
	p.digits = digits(rows)
	for _, r := range rows {
		p.most = max(p.most, p.digits[r.at])
		p.whole = max(p.whole, strings.IndexByte(words.Decimal(r.at, 3), '.'))
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
		for n < 9 && a != b && words.Decimal(a, n) == words.Decimal(b, n) {
			n += 3
		}
		out[a], out[b] = max(out[a], n), max(out[b], n)
	}
	if len(rows) == 1 {
		out[rows[0].at] = 3
	}
	return out
}

// header names the lanes: in full if all fit.
func (p *page) header() string {
	full := make([]string, len(p.d.Lanes))
	fits := true
	for i, l := range p.d.Lanes {
		full[i] = escape(string(l.Role) + " " + l.Name)
		if l.Role == Locks && l.Name == "locks" {
			full[i] = "locks"
		}
		fits = fits && utf8.RuneCountInString(full[i]) < p.room(i)
	}
	line := newLine(p.width)
	line.put(p.column-3-len("seconds"), "seconds", calm)
	for i, l := range p.d.Lanes {
		name := full[i]
		if !fits {
			name = escape(l.Name)
		}
		line.put(p.x(i), words.Fit(name, p.room(i)-1), calm)
	}
	return line.text(false)
}

// room is how many characters a lane's name may take.
func (p *page) room(lane int) int {
	if lane == len(p.d.Lanes)-1 {
		return p.width - p.x(lane)
	}
	return p.lane
}

func (p *page) gap(from, to int64) bool { return minus(to, from) > max(p.long, 0) && p.long > 0 }

func (p *page) gapRow(from, to int64, colour bool) string {
	line := newLine(p.width)
	line.put(p.whole, "⋮", calm)
	p.drawLanes(line, plus(from, minus(to, from)/2))
	return line.text(colour) + "\n"
}

// row draws a fact, and goes on where its words need more than one line.
func (p *page) row(r row, colour bool) string {
	label := r.label
	line := newLine(p.width)
	at := words.Decimal(r.at, p.digits[r.at])
	line.put(p.whole-strings.IndexByte(at, '.'), at, calm)
	p.drawLanes(line, r.at)
	if len(r.arrows) > 0 {
		label = p.drawArrows(line, r)
	}
	if r.mark != "" && r.lane >= 0 {
		line.put(p.x(r.lane), string(r.mark), tone(r.bad))
	}
	var out strings.Builder
	for i, words := range wrap(escape(label), p.width-p.words, 4) {
		if i > 0 {
			out.WriteString(line.text(colour) + "\n")
			line = newLine(p.width)
			p.drawLanes(line, r.at)
		}
		line.put(p.words, words, tone(r.bad))
	}
	out.WriteString(line.text(colour) + "\n")
	return out.String()
}

// legend explains the characters that were used.
func (p *page) legend() string {
	var parts []string
	for _, s := range []struct {
		state State
		text  string
	}{{Believes, "┃ believes that it holds the lock"}, {Paused, "░ paused"}, {Dead, "no line: dead"}} {
		if p.used[s.state] {
			parts = append(parts, s.text)
		}
	}
	if len(p.d.Bands) > 0 {
		parts = append(parts, "! two believe so at once")
	}
	return strings.Join(parts, " · ")
}
