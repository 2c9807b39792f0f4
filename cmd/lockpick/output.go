package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// output is all that reaches a terminal. Texts come from histories and files that
// anybody may have written: what could move the cursor, change colours or turn
// the writing direction is written as \uXXXX, which is harmless in JSON, too.
// The first error is kept, so that a result that was lost is not taken for told.
type output struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := io.WriteString(o.w, visible(string(b))); err != nil {
		if o.err == nil {
			o.err = err
		}
		return 0, err
	}
	return len(b), nil
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
