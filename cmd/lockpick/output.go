package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
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
	lost   func()          // told that nobody will ever read; nil: it is all the same
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.tell(o.screen.marked(visible(string(b)))); err != nil {
		if o.err == nil {
			o.err = err
		}
		if o.lost != nil && errors.Is(err, syscall.EPIPE) {
			o.lost()
		}
		return 0, err
	}
	return len(b), nil
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
		case r == utf8.RuneError && size == 1, r != '\n' && r != '\t' && unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
