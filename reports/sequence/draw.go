package sequence

import (
	"strings"
	"unicode/utf8"

	"lockpick/reports/words"
)

// look is the colour of a character.
type look uint8

const (
	calm look = iota
	alarm
	lease
	stall
)

// Okabe and Ito's palette, which the colour-blind can tell apart, as near as a
// terminal has it: vermilion and bold, blue, orange.
var sequences = [...]string{calm: "", alarm: "\x1b[1;38;5;166m", lease: "\x1b[38;5;32m", stall: "\x1b[38;5;214m"}

const reset = "\x1b[0m"

func tone(bad bool) look {
	if bad {
		return alarm
	}
	return calm
}

// line is one line of a drawing, of fixed width.
type line struct {
	runes []rune
	looks []look
}

func newLine(width int) *line {
	l := &line{runes: make([]rune, width), looks: make([]look, width)}
	for i := range l.runes {
		l.runes[i] = ' '
	}
	return l
}

// put writes s from column x on; what lies outside is cut.
func (l *line) put(x int, s string, k look) {
	for _, r := range s {
		if x >= 0 && x < len(l.runes) {
			l.runes[x], l.looks[x] = r, k
		}
		x++
	}
}

func (l *line) at(x int) rune {
	if x < 0 || x >= len(l.runes) {
		return ' '
	}
	return l.runes[x]
}

// text is the line without the blanks at its end.
func (l *line) text(colour bool) string {
	end := len(l.runes)
	for end > 0 && l.runes[end-1] == ' ' {
		end--
	}
	var b strings.Builder
	now := calm
	for i, r := range l.runes[:end] {
		if k := l.looks[i]; colour && k != now && r != ' ' {
			if now != calm {
				b.WriteString(reset)
			}
			b.WriteString(sequences[k])
			now = k
		}
		b.WriteRune(r)
	}
	if now != calm {
		b.WriteString(reset)
	}
	return b.String()
}

// drawLanes draws all lanes as they are at an instant, and the gutter.
func (p *page) drawLanes(l *line, at int64) {
	for i := range p.d.Lanes {
		r, k, paused := '│', calm, false
		for _, b := range p.d.Bars {
			if b.Lane != i || at < b.From || at >= b.To {
				continue
			}
			p.used[b.State] = true
			switch b.State {
			case Believes:
				r, k = '┃', lease
			case Dead:
				r = ' '
			case Paused:
				paused = true
			}
		}
		l.put(p.x(i), string(r), k)
		if paused {
			l.put(p.x(i)+1, "░", stall)
		}
	}
	for _, b := range p.d.Bands {
		if b.From <= at && at < b.To {
			l.put(p.column-2, "!", alarm)
		}
	}
}

// drawArrows draws the arrows of one fact, the longest first, and returns the
// words to stand beside them.
func (p *page) drawArrows(l *line, r row) string {
	k := tone(r.bad)
	for far := len(p.d.Lanes); far > 0; far-- {
		for _, a := range r.arrows {
			if max(a.From-a.To, a.To-a.From) == far {
				p.drawShaft(l, a, r.part, k)
			}
		}
	}
	a := r.arrows[0]
	text := a.Detail
	if r.part == departure {
		text = "under way until " + words.Seconds(latest(r.arrows))
	}
	if !p.labelled(l, a, r.part, k) {
		text = strings.TrimSuffix(a.Label+": "+text, ": ")
	}
	return text
}

func latest(arrows []Arrow) int64 {
	t := arrows[0].Arrived
	for _, a := range arrows {
		t = max(t, a.Arrived)
	}
	return t
}

// drawShaft draws one arrow from lane to lane. Lanes that it passes are crossed.
func (p *page) drawShaft(l *line, a Arrow, part part, k look) {
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
		l.put(x, mark, k)
	}
	if part != arrival {
		if r := l.at(from); r == '┼' {
			leaves = "┴"
		}
		l.put(from, leaves, k)
	}
	switch {
	case a.Lost || part == departure:
		p.drawEnd(l, a, to, step, k)
	default:
		l.put(to-step, head, k)
		if l.at(to) == '┼' { // another goes on from here
			l.put(to, leaves, k)
		}
		if a.Mark != "" {
			l.put(to, string(a.Mark), k)
		}
	}
}

// drawEnd ends a shaft before its lane: lost on the way, or still under way.
func (p *page) drawEnd(l *line, a Arrow, to, step int, k look) {
	if l.at(to) == '┼' {
		return // another goes on from here
	}
	l.put(to-step, " ", k)
	end := "×"
	if !a.Lost {
		end = "╌"
	}
	l.put(to-2*step, end, k)
}

// labelled writes the arrow's label on its shaft, next to where the reader looks
// first: the client's end. It reports whether there was room.
func (p *page) labelled(l *line, a Arrow, part part, k look) bool {
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
	l.put(p.x(left)+1+(p.lane-1-n)/2, text, k)
	return true
}
