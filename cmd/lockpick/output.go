package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"lockpick/reports/display"
)

// output is all that reaches a terminal. Texts come from histories and files that
// anybody may have written: what could move the cursor, change colors or turn
// the writing direction is written as an escape such as \u202e, which is harmless in JSON, too.
// The first error is kept, so that a lost result does not pass as printed.
// Once over is closed, nothing waits for a reader that does not read.
type output struct {
	mu     sync.Mutex
	w      io.Writer
	err    error
	over   <-chan struct{} // the program is to end
	stuck  bool            // nobody reads
	screen screen          // what it is written to
	github bool            // GitHub's runner reads it, and obeys lines of a certain form
	inLine bool            // what was written last has begun a line, with more than blanks
	lost   func()          // told that nobody will ever read; nil: it is all the same
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := visible(string(b))
	if o.github {
		text = o.withoutCommands(text)
	}
	return len(b), o.put(text)
}

// obeyedOutput is an output for lines that GitHub's runner is to obey.
type obeyedOutput struct{ *output }

func (c obeyedOutput) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(b), c.put(visible(string(b)))
}

func (o *output) put(text string) error {
	err := o.tell(o.screen.marked(text))
	if err == nil {
		return nil
	}
	if o.err == nil {
		o.err = err
	}
	if o.lost != nil && errors.Is(err, syscall.EPIPE) {
		o.lost()
	}
	return err
}

// withoutCommands makes lines that GitHub's runner would obey ones that it shows: ::command
// at the beginning of a line, after blanks too, and ##[command] anywhere (actions/runner,
// src/Runner.Common/ActionCommand.cs).
func (o *output) withoutCommands(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == ':' && !o.inLine, r == '[' && strings.HasSuffix(text[:i], "##"):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		o.inLine = r != '\n' && (o.inLine || !unicode.IsSpace(r))
	}
	return b.String()
}

// lastWords is how long a text may take once the program is to end.
const lastWords = time.Second

// errStuck is about a pipe that is full, or a terminal that is stopped.
var errStuck = errors.New("nobody reads what is written")

func (o *output) tell(text string) error {
	if o.stuck {
		return errStuck
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.WriteString(o.w, text)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-o.over:
	}
	select {
	case err := <-done:
		return err
	case <-time.After(lastWords):
		o.stuck = true
		return errStuck
	}
}

func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// visible replaces what a terminal would obey instead of showing it.
func visible(s string) string {
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1, r != '\n' && r != '\t' && unicode.IsControl(r), unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

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

// codes are what a terminal obeys, with colours and without.
var (
	colours = strings.NewReplacer(string(display.Plain), "\x1b[0m", string(display.Bad), "\x1b[31m", string(display.Doubt), "\x1b[33m", string(display.Good), "\x1b[32m",
		string(display.Dim), "\x1b[2m", string(display.ClearLine), "\r\x1b[K")
	lines = strings.NewReplacer(string(display.ClearLine), "\r\x1b[K")
)

// marked makes colors a terminal's codes.
func (s screen) marked(text string) string {
	switch {
	case s.colour && s.redraws:
		return colours.Replace(text)
	case s.colour:
		return colours.Replace(strings.ReplaceAll(text, string(display.ClearLine), ""))
	case s.redraws:
		return lines.Replace(text)
	}
	return text
}

// Columns, Colored and Redraws make it a display.Screen.
func (o *output) Columns() int  { return o.screen.columns }
func (o *output) Colored() bool { return o.screen.colour }
func (o *output) Redraws() bool { return o.screen.redraws }

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
