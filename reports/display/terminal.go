package display

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// TextColor is a character that colors what follows it on a Screen. Nobody else uses it: a stranger's
// text that has one is colored at worst.
type TextColor rune

const (
	Plain TextColor = 0xF0000 + iota
	Bad
	Doubt
	Good
	Dim
	ClearLine // no color: the line begins again
)

// Screen is a writer to a terminal, perhaps.
type Screen interface {
	Columns() int // 0: it is no terminal, or does not say
	Colored() bool
	Redraws() bool // a line can be written anew
}

// Paint is a text in a color, where w shows colors.
func Paint(w io.Writer, in TextColor, text string) string {
	if s, ok := w.(Screen); !ok || !s.Colored() || text == "" || in == Plain {
		return text
	}
	return string(in) + text + string(Plain)
}

// Columns is how wide what w shows may be: what COLUMNS or the terminal says, 0: nobody does.
func Columns(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if s, ok := w.(Screen); ok {
		return s.Columns()
	}
	return 0
}

// DefaultWidth is how wide a drawing is for a reader whose terminal is not known.
const DefaultWidth = 100

// Width is how wide a drawing may be, within reason.
func Width(w io.Writer) int { return min(max(cmp.Or(Columns(w), DefaultWidth), 60), 160) }

// OneLine is a text from data, such as a key, a path or an error of a library, as it stands in a
// line of ours.
func OneLine(s string) string { return Visible(s, math.MaxInt) }

// Wrap breaks a text into lines of a width, the first of which begins at one column and the others
// at another.
func Wrap(width, first, others int, text string) string {
	var b strings.Builder
	at := first
	for i, word := range strings.Fields(text) {
		switch n := utf8.RuneCountInString(word); {
		case i == 0:
			at += n
		case at+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", others))
			at = others + n
		default:
			b.WriteString(" ")
			at += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}

// PrintWrapped prints a text in lines that fit w: the first indented, the others by their own column.
func PrintWrapped(w io.Writer, indent, others int, text string) {
	fmt.Fprintf(w, "%*s%s\n", indent, "", Wrap(Width(w)-1, indent, others, text))
}

// Table is rows of cells, the first of them the head.
type Table [][]string

// Lines sets a table in columns, a text for each row. Where a row gets too long for the width,
// the last cells of all rows but the head stand on lines of their own. Cells of the head may have
// several lines.
func (t Table) Lines(indent string, width int) []string {
	heads := stacked(t[0])
	rows := slices.Concat(heads, t[1:])
	numeric, widths, longest := t.numeric(), make([]int, len(t[0])), 0
	for _, row := range rows {
		for i, cell := range row {
			if n := utf8.RuneCountInString(cell); i < len(row)-1 || numeric[i] {
				widths[i] = max(widths[i], n)
			} else {
				longest = max(longest, n)
			}
		}
	}
	all := utf8.RuneCountInString(indent) + longest
	for _, n := range widths {
		all += n + 2
	}
	var out []string
	for k, row := range rows {
		line := indent
		for i, cell := range row {
			room := strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0))
			switch {
			case numeric[i]:
				line += room + cell + "  "
			case i < len(row)-1:
				line += cell + room + "  "
			case all > width && k >= len(heads):
				line = strings.TrimRight(line, " ") + "\n" + indent + "  " + cell
			default:
				line += cell
			}
		}
		out = append(out, strings.TrimRight(line, " "))
	}
	return slices.Concat([]string{strings.Join(out[:len(heads)], "\n")}, out[len(heads):])
}

// stacked is a head as rows of its lines, which stand at the bottom.
func stacked(head []string) (rows Table) {
	for i, cell := range head {
		parts := strings.Split(cell, "\n")
		for len(rows) < len(parts) {
			rows = slices.Insert(rows, 0, make([]string, len(head)))
		}
		for k, part := range parts {
			rows[len(rows)-len(parts)+k][i] = part
		}
	}
	return rows
}

// Fitting is t with the words of its head, but for the first, below each other where it is wider else.
func (t Table) Fitting(width int) Table {
	if utf8.RuneCountInString(t.Lines("", width)[0]) <= width {
		return t
	}
	head := slices.Clone(t[0])
	for i := range head[1:] {
		head[i+1] = strings.ReplaceAll(head[i+1], " ", "\n")
	}
	return slices.Concat(Table{head}, t[1:])
}

// Print prints a table as wide as w shows it.
func (t Table) Print(w io.Writer) {
	for i, line := range t.Lines("", Width(w)) {
		if i == 0 {
			line = Paint(w, Dim, line)
		}
		fmt.Fprintln(w, line)
	}
}

// numeric says of each column whether it has numbers alone, which stand below each other.
func (t Table) numeric() []bool {
	out := make([]bool, len(t[0]))
	for i := range out {
		out[i] = !slices.ContainsFunc(t[1:], func(row []string) bool { return strings.Trim(row[i], "0123456789") != "" })
	}
	return out
}

// Progress tells how far something is that takes over a second: on a terminal in one line that is
// written anew, elsewhere in a line now and then. It is over when stop returns.
type Progress struct {
	W       io.Writer
	Mu      *sync.Mutex // its caller's
	Started time.Time
	Text    func(passed time.Duration) string
	shown   bool // the line stands on the terminal
	over    bool
}

// redraw is how often a terminal's line is written anew; a second passes between others.
const redraw = 200 * time.Millisecond

// Start begins to tell.
func (p *Progress) Start() (stop func()) {
	every := time.Second
	if s, ok := p.W.(Screen); ok && s.Redraws() {
		every = redraw
	}
	t := time.NewTicker(every)
	over := make(chan struct{})
	go func() {
		for n := 1; ; n++ {
			select {
			case <-t.C:
				if every == redraw || n == 1 || n%5 == 0 {
					p.tell(every == redraw)
				}
			case <-over:
				return
			}
		}
	}()
	return func() {
		t.Stop()
		close(over)
		p.Mu.Lock()
		defer p.Mu.Unlock()
		p.Erase()
		p.over = true
	}
}

func (p *Progress) tell(anew bool) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	passed := time.Since(p.Started)
	switch {
	case p.over || anew && passed < time.Second/2:
	case anew:
		line := []rune(p.Text(passed))
		fmt.Fprint(p.W, string(ClearLine)+string(line[:min(len(line), Width(p.W)-1)]))
		p.shown = true
	default:
		fmt.Fprintln(p.W, p.Text(passed))
	}
}

// Erase makes room for a line of the result. Its caller has the lock.
func (p *Progress) Erase() {
	if p != nil && p.shown {
		fmt.Fprint(p.W, string(ClearLine))
		p.shown = false
	}
}
