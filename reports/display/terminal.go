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

// TextColor is a private-use character that sets the color of the text after it on a Screen. In
// untrusted text it can do no worse than change the color.
type TextColor rune

const (
	PlainText TextColor = 0xF0000 + iota
	BadText
	DoubtText
	GoodText
	DimText
	ClearLine // not a color: clears the line
)

// Screen describes a writer that may be connected to a terminal.
type Screen interface {
	Columns() int // 0 if unknown or not a terminal
	HasColors() bool
	CanRedraw() bool // whether a line can be overwritten
}

// Paint colors text if w supports colors.
func Paint(w io.Writer, color TextColor, text string) string {
	if s, ok := w.(Screen); !ok || !s.HasColors() || text == "" || color == PlainText {
		return text
	}
	return string(color) + text + string(PlainText)
}

// Columns returns the width of w according to the environment variable COLUMNS or else the
// terminal, or 0 if it is unknown.
func Columns(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if s, ok := w.(Screen); ok {
		return s.Columns()
	}
	return 0
}

// DefaultWidth is the width of drawings if the terminal's width is unknown.
const DefaultWidth = 100

// Width returns the width for a drawing on w, between 60 and 160.
func Width(w io.Writer) int { return min(max(cmp.Or(Columns(w), DefaultWidth), 60), 160) }

// OneLine makes untrusted text, such as a key, a path or a library's error, safe to print in a line
// of output.
func OneLine(s string) string { return Sanitize(s, math.MaxInt) }

// Wrap breaks text into lines of at most width columns. The first line starts at column start, and
// the other lines are indented by indent.
func Wrap(width, start, indent int, text string) string {
	var b strings.Builder
	at := start
	for i, word := range strings.Fields(text) {
		switch n := utf8.RuneCountInString(word); {
		case i == 0:
			at += n
		case at+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent + n
		default:
			b.WriteString(" ")
			at += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}

// PrintWrapped prints text wrapped to the width of w. It indents the first line by start and the
// other lines by indent.
func PrintWrapped(w io.Writer, start, indent int, text string) {
	fmt.Fprintf(w, "%*s%s\n", start, "", Wrap(Width(w)-1, start, indent, text))
}

// Table is a list of rows. The first row is the header.
type Table [][]string

// Lines aligns the columns and returns one string per row. If any row would exceed the width, the
// last cell of each row goes on a line of its own, except in the header. Header cells may have several
// lines.
func (t Table) Lines(indent string, width int) []string {
	headerRows := splitHeader(t[0])
	rows := slices.Concat(headerRows, t[1:])
	isNumeric, widths, maxLastCell := t.numericColumns(), make([]int, len(t[0])), 0
	for _, row := range rows {
		for i, cell := range row {
			if n := utf8.RuneCountInString(cell); i < len(row)-1 || isNumeric[i] {
				widths[i] = max(widths[i], n)
			} else {
				maxLastCell = max(maxLastCell, n)
			}
		}
	}
	total := utf8.RuneCountInString(indent) + maxLastCell
	for _, n := range widths {
		total += n + 2
	}
	var out []string
	for k, row := range rows {
		line := indent
		for i, cell := range row {
			padding := strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0))
			switch {
			case isNumeric[i]:
				line += padding + cell + "  "
			case i < len(row)-1:
				line += cell + padding + "  "
			case total > width && k >= len(headerRows):
				line = strings.TrimRight(line, " ") + "\n" + indent + "  " + cell
			default:
				line += cell
			}
		}
		out = append(out, strings.TrimRight(line, " "))
	}
	return slices.Concat([]string{strings.Join(out[:len(headerRows)], "\n")}, out[len(headerRows):])
}

// splitHeader splits a header with multi-line cells into rows. Shorter cells are at the bottom.
func splitHeader(header []string) (rows Table) {
	for i, cell := range header {
		parts := strings.Split(cell, "\n")
		for len(rows) < len(parts) {
			rows = slices.Insert(rows, 0, make([]string, len(header)))
		}
		for k, part := range parts {
			rows[len(rows)-len(parts)+k][i] = part
		}
	}
	return rows
}

// WrapHeader returns t. If its header would exceed the width, every word in the header gets its own
// line, except in the first cell.
func (t Table) WrapHeader(width int) Table {
	if utf8.RuneCountInString(t.Lines("", width)[0]) <= width {
		return t
	}
	header := slices.Clone(t[0])
	for i := range header[1:] {
		header[i+1] = strings.ReplaceAll(header[i+1], " ", "\n")
	}
	return slices.Concat(Table{header}, t[1:])
}

// Print prints the table at the width of w.
func (t Table) Print(w io.Writer) {
	for i, line := range t.Lines("", Width(w)) {
		if i == 0 {
			line = Paint(w, DimText, line)
		}
		fmt.Fprintln(w, line)
	}
}

// numericColumns reports which columns contain only numbers. These are right-aligned.
func (t Table) numericColumns() []bool {
	out := make([]bool, len(t[0]))
	for i := range out {
		out[i] = !slices.ContainsFunc(t[1:], func(row []string) bool { return strings.Trim(row[i], "0123456789") != "" })
	}
	return out
}

// Progress shows the progress of a long task until the function returned by Start is called. On a
// terminal it updates one line; elsewhere it prints a line every few seconds. It prints nothing for a
// task that takes less than half a second.
type Progress struct {
	W         io.Writer
	Mu        *sync.Mutex // the caller's lock on W
	StartTime time.Time
	Text      func(elapsed time.Duration) string
	shown     bool // the terminal shows a progress line
	stopped   bool
}

// redrawInterval is the update interval on a terminal.
const redrawInterval = 200 * time.Millisecond

// Start starts showing progress. Call stop to end it.
func (p *Progress) Start() (stop func()) {
	interval := time.Second
	if s, ok := p.W.(Screen); ok && s.CanRedraw() {
		interval = redrawInterval
	}
	t := time.NewTicker(interval)
	done := make(chan struct{})
	go func() {
		for n := 1; ; n++ {
			select {
			case <-t.C:
				if interval == redrawInterval || n == 1 || n%5 == 0 {
					p.print(interval == redrawInterval)
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		t.Stop()
		close(done)
		p.Mu.Lock()
		defer p.Mu.Unlock()
		p.Erase()
		p.stopped = true
	}
}

func (p *Progress) print(inPlace bool) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	elapsed := time.Since(p.StartTime)
	switch {
	case p.stopped || inPlace && elapsed < time.Second/2:
	case inPlace:
		line := []rune(p.Text(elapsed))
		fmt.Fprint(p.W, string(ClearLine)+string(line[:min(len(line), Width(p.W)-1)]))
		p.shown = true
	default:
		fmt.Fprintln(p.W, p.Text(elapsed))
	}
}

// Erase clears the progress line so that the caller can print a line of output. The caller must hold
// Mu.
func (p *Progress) Erase() {
	if p != nil && p.shown {
		fmt.Fprint(p.W, string(ClearLine))
		p.shown = false
	}
}
