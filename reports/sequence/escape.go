package sequence

import (
	"strings"
	"unicode"

	"lockpick/reports/display"
)

// plain lists the characters beyond ASCII that a terminal shows in one column and
// that can't change what stands beside them.
var plain = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x00a1, Hi: 0x00ac, Stride: 1}, // Latin-1, but for the soft hyphen
	{Lo: 0x00ae, Hi: 0x017f, Stride: 1},
	{Lo: 0x0391, Hi: 0x03c9, Stride: 1}, // Greek
	{Lo: 0x0410, Hi: 0x044f, Stride: 1}, // Cyrillic
	{Lo: 0x2013, Hi: 0x2014, Stride: 1}, // dashes
	{Lo: 0x2018, Hi: 0x2019, Stride: 1}, // quotes
	{Lo: 0x201c, Hi: 0x201d, Stride: 1},
	{Lo: 0x2026, Hi: 0x2026, Stride: 1}, // …
	{Lo: 0x2190, Hi: 0x2193, Stride: 1}, // arrows
	{Lo: 0x2264, Hi: 0x2265, Stride: 1}, // ≤ ≥
}}

// longestText bounds what is read of one text: nothing longer is ever shown.
const longestText = 4096

// escape makes a text from a history safe to print: what could move the cursor,
// change colours, turn the writing direction or take no or two columns is
// written as an escape. It differs from words.Visible, for a diagram in text stands in
// columns, and only what plain lists is one column wide in every terminal.
func escape(s string) string {
	if len(s) > longestText {
		s = s[:longestText] + "…"
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\uFFFD':
			b.WriteString(`\ufffd`) // not UTF-8
		case r >= ' ' && r <= '~' || r == '\u00a0' || unicode.Is(plain, r) && unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(display.Escape(r))
		}
	}
	return b.String()
}

// wrap breaks an escaped text into lines of at most width characters, at spaces
// where there are any. What needs more than most lines is cut with an ellipsis.
func wrap(s string, width, most int) []string {
	width = max(width, 1)
	var out []string
	line := []rune{}
	for word := range strings.SplitSeq(s, " ") {
		if word == "" {
			continue
		}
		w := []rune(strings.ReplaceAll(word, display.NoBreak, " "))
		if len(line) > 0 && len(line)+1+len(w) > width {
			out, line = append(out, string(line)), nil
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		for len(line)+len(w) > width { // only where the line is empty
			out = append(out, string(w[:width]))
			w = w[width:]
		}
		line = append(line, w...)
	}
	if len(line) > 0 {
		out = append(out, string(line))
	}
	if len(out) > most {
		out = out[:most]
		out[most-1] = display.Fit(out[most-1]+" …", width)
	}
	return out
}

// lines tells of a stop.
func (s *stopped) lines(width int) []string {
	return append([]string{""}, wrap(escape(capital(s.Why)+"."), width, 3)...)
}
