package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"lockpick/reports/sequence"
)

// screen is what a text is written to: its zero value is a file or a pipe.
type screen struct {
	columns int  // of a terminal, 0: it is none, or does not say
	redraws bool // a line can be written anew
	colour  bool
}

// screenOf looks at where a text goes. Colours are off where NO_COLOR is set
// (https://no-color.org).
func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok {
		return screen{}
	}
	columns, ok := terminal(f)
	smart := ok && os.Getenv("TERM") != "dumb"
	return screen{columns: columns, redraws: smart, colour: smart && os.Getenv("NO_COLOR") == ""}
}

// ink is a mark in a text that output makes a terminal's. It is a character that nobody
// uses: a stranger's text that has one is coloured at worst.
type ink rune

const (
	plain ink = 0xF0000 + iota
	alarm
	doubt
	good
	faint
	anew // the line begins again
)

// codes are what a terminal obeys, with colours and without.
var (
	colours = strings.NewReplacer(string(plain), "\x1b[0m", string(alarm), "\x1b[31m", string(doubt), "\x1b[33m", string(good), "\x1b[32m",
		string(faint), "\x1b[2m", string(anew), "\r\x1b[K")
	lines = strings.NewReplacer(string(anew), "\r\x1b[K")
)

// marked makes an ink's marks a terminal's codes.
func (s screen) marked(text string) string {
	switch {
	case s.colour && s.redraws:
		return colours.Replace(text)
	case s.colour:
		return colours.Replace(strings.ReplaceAll(text, string(anew), ""))
	case s.redraws:
		return lines.Replace(text)
	}
	return text
}

// painted is a text in a colour, where w shows colours.
func painted(w io.Writer, in ink, text string) string {
	if o, ok := w.(*output); !ok || !o.screen.colour || text == "" || in == plain {
		return text
	}
	return string(in) + text + string(plain)
}

// setColour obeys --color.
func (a *app) setColour(when string) error {
	for _, w := range []io.Writer{a.out, a.errs} {
		o, ok := w.(*output)
		switch {
		case when != "auto" && when != "always" && when != "never":
			return usage(fmt.Errorf("--color %q is none of auto, always and never", when), "auto: on a terminal, unless NO_COLOR is set")
		case ok && when != "auto":
			o.screen.colour = when == "always"
		}
	}
	return nil
}

// columns is how wide what w shows may be: what COLUMNS or the terminal says, 0: nobody does.
func columns(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if o, ok := w.(*output); ok {
		return o.screen.columns
	}
	return 0
}

// width is how wide a drawing may be, within reason.
func width(w io.Writer) int { return min(max(cmp.Or(columns(w), sequence.DefaultWidth), 60), 160) }
