package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// output is all that reaches a terminal. Texts come from histories and files that
// anybody may have written: what could move the cursor, change colours or turn
// the writing direction is written as \uXXXX, which is harmless in JSON, too.
// The first error is kept, so that a result that was lost is not taken for told.
// Once over is closed nobody waits for who does not read.
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

// oneLine is a text from data, such as a key, a path or an error of a library, as it is
// printed in a line of ours.
func oneLine(s string) string { return display.Visible(s, math.MaxInt) }

// printable is a judgement whose texts, which quote data, are one line each.
func printable(j outcome.Judgement) outcome.Judgement {
	for _, s := range []*string{&j.Property, &j.Expected, &j.Cause, &j.Node, &j.Because} {
		*s = oneLine(*s)
	}
	return j
}
