package sequence

import (
	"strings"
	"unicode/utf8"

	"lockpick/reports/display"
)

// leastWidth is the least in which six lanes and their words can be read.
const leastWidth = 60

// Text draws a diagram with lines: time runs down, one lane a column, one fact a
// row, in words beside it. No line is wider than width, which is at least 60.
// The text holds no escape sequences.
//
//	seconds  c1            n1–n5         r1
//	  1.236  ┃<── ok 5/5 ──┤             │   c1 holds lock-1 until 11.116 s
//	  2.000  ▼░            │             │   c1 is paused
//	  ⋮      ┃░            │             │
//	 11.116  ✗░            │             │   c1's lease ends
func Text(d Diagram, width int) string {
	width = max(width, leastWidth)
	var out strings.Builder
	add := func(lines ...string) {
		for _, l := range lines {
			out.WriteString(l + "\n")
		}
	}
	add(wrap(escape(d.Title), width, 2)...)
	add(wrap(escape(strings.Join(d.Caption, " ")), width, 20)...)
	rows := makeRows(d)
	if len(d.Lanes) == 0 || len(rows) == 0 {
		add("", "Nothing to draw: no client tried to acquire a lock.")
		return out.String()
	}
	p := newPage(d, rows, width)
	out.WriteString("\n" + p.header())
	for i, r := range rows {
		if i > 0 && p.long > 0 && minus(r.at, rows[i-1].at) > p.long {
			out.WriteString(p.gap(rows[i-1].at, r.at))
		}
		out.WriteString(p.row(r))
	}
	if d.Stop != nil {
		add(d.Stop.lines(width)...)
	}
	if legend := p.legend(); legend != "" {
		add("")
		add(wrap(legend, width, 3)...)
	}
	add(wrap(escape(d.Omitted), width, 3)...)
	return out.String()
}

// header names the lanes: in full if all fit.
func (p *page) header() string {
	full := make([]string, len(p.d.Lanes))
	fits := true
	for i, l := range p.d.Lanes {
		full[i] = escape(l.title())
		fits = fits && utf8.RuneCountInString(full[i]) < p.room(i)
	}
	line := newLine(p.width)
	line.put(p.column-3-len("seconds"), "seconds")
	for i, l := range p.d.Lanes {
		name := full[i]
		if !fits {
			name = escape(l.Name)
		}
		line.put(p.x(i), display.Fit(name, p.room(i)-1))
	}
	return line.text()
}

// room is how many characters a lane's name may take.
func (p *page) room(lane int) int {
	if lane == len(p.d.Lanes)-1 {
		return p.width - p.x(lane)
	}
	return p.lane
}

func (p *page) gap(from, to int64) string {
	line := newLine(p.width)
	line.put(p.whole, "⋮")
	p.drawLanes(line, plus(from, minus(to, from)/2))
	return line.text()
}

// row draws a fact, and goes on where its words need more than one line.
func (p *page) row(r row) string {
	label := r.label
	line := newLine(p.width)
	at := display.Decimal(r.at, p.digits[r.at])
	line.put(p.whole-strings.IndexByte(at, '.'), at)
	p.drawLanes(line, r.at)
	if len(r.arrows) > 0 {
		label = p.drawArrows(line, r)
	}
	if r.mark != "" && r.lane >= 0 {
		line.put(p.x(r.lane), string(r.mark))
	}
	var out strings.Builder
	for i, words := range wrap(escape(label), p.width-p.words, 4) {
		if i > 0 {
			out.WriteString(line.text())
			line = newLine(p.width)
			p.drawLanes(line, r.at)
		}
		line.put(p.words, words)
	}
	out.WriteString(line.text())
	return out.String()
}

func (p *page) legend() string {
	var parts []string
	for _, s := range []struct {
		state state
		text  string
	}{{believes, "┃ believes that it holds the lock"}, {Paused, "░ paused"}, {dead, "no line: dead"}} {
		if p.used[s.state] {
			parts = append(parts, s.text)
		}
	}
	if len(p.d.Bands) > 0 {
		parts = append(parts, "! two believe that they hold it at once")
	}
	return strings.Join(parts, " · ")
}
