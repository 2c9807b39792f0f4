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

// output writes to standard output or standard error. Texts may come from untrusted histories and
// files, so it escapes characters that move the cursor, change colors or change the writing
// direction, as in \u202e, which is valid in JSON, too. It keeps the first error, so that lost
// results are noticed. After done is closed, it waits no longer than finalWriteTimeout for a
// reader.
type output struct {
	mu           sync.Mutex
	w            io.Writer
	err          error
	done         <-chan struct{} // closed when the program must end
	stuck        bool            // the reader has stopped reading
	screen       screen
	github       bool   // the reader is GitHub's runner, which executes commands in the text
	midLine      bool   // the last write ended within a line, after more than blanks
	onBrokenPipe func() // called when the reader has closed the pipe; may be nil
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := escapeControls(string(b))
	if o.github {
		text = o.escapeCommands(text)
	}
	return len(b), o.writeText(text)
}

// commandOutput is an output that leaves commands to GitHub's runner intact.
type commandOutput struct{ *output }

func (c commandOutput) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(b), c.writeText(escapeControls(string(b)))
}

func (o *output) writeText(text string) error {
	err := o.writeRaw(o.screen.render(text))
	if err == nil {
		return nil
	}
	if o.err == nil {
		o.err = err
	}
	if o.onBrokenPipe != nil && errors.Is(err, syscall.EPIPE) {
		o.onBrokenPipe()
	}
	return err
}

// escapeCommands escapes text that GitHub's runner would execute as a command: ::command at the
// start of a line, even after blanks, and ##[command] anywhere (actions/runner,
// src/Runner.Common/ActionCommand.cs).
func (o *output) escapeCommands(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == ':' && !o.midLine, r == '[' && strings.HasSuffix(text[:i], "##"):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		o.midLine = r != '\n' && (o.midLine || !unicode.IsSpace(r))
	}
	return b.String()
}

// finalWriteTimeout is the time limit of a write when the program is about to exit.
const finalWriteTimeout = time.Second

// errStuck means that a pipe is full or a terminal is stopped.
var errStuck = errors.New("the reader of the output has stopped reading")

func (o *output) writeRaw(text string) error {
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
	case <-o.done:
	}
	select {
	case err := <-done:
		return err
	case <-time.After(finalWriteTimeout):
		o.stuck = true
		return errStuck
	}
}

func (o *output) firstError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// escapeControls escapes characters that a terminal would interpret instead of showing.
func escapeControls(s string) string {
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

// A screen describes where output goes. The zero value is a file or a pipe.
type screen struct {
	columns   int  // width of the terminal; 0: unknown, or not a terminal
	canRedraw bool // lines can be rewritten
	hasColor  bool
}

// newScreen returns the screen that w writes to. Colors are off if NO_COLOR is set
// (https://no-color.org).
func newScreen(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok {
		return screen{}
	}
	columns, ok := terminal(f)
	ansi := ok && os.Getenv("TERM") != "dumb"
	return screen{columns: columns, canRedraw: ansi, hasColor: ansi && os.Getenv("NO_COLOR") == ""}
}

// Replacers from markup to terminal control codes.
var (
	colorCodes = strings.NewReplacer(string(display.PlainText), "\x1b[0m", string(display.BadText), "\x1b[31m", string(display.DoubtText), "\x1b[33m", string(display.GoodText), "\x1b[32m",
		string(display.DimText), "\x1b[2m", string(display.ClearLine), "\r\x1b[K")
	clearLineCodes = strings.NewReplacer(string(display.ClearLine), "\r\x1b[K")
)

// render replaces markup with control codes that the screen supports.
func (s screen) render(text string) string {
	switch {
	case s.hasColor && s.canRedraw:
		return colorCodes.Replace(text)
	case s.hasColor:
		return colorCodes.Replace(strings.ReplaceAll(text, string(display.ClearLine), ""))
	case s.canRedraw:
		return clearLineCodes.Replace(text)
	}
	return text
}

// Columns, Colored and Redraws implement display.Screen.
func (o *output) Columns() int    { return o.screen.columns }
func (o *output) HasColors() bool { return o.screen.hasColor }
func (o *output) CanRedraw() bool { return o.screen.canRedraw }

// setColor applies --color.
func (a *app) setColor(mode string) error {
	for _, w := range []io.Writer{a.out, a.errOut} {
		o, ok := w.(*output)
		switch {
		case mode != "auto" && mode != "always" && mode != "never":
			return usageError(fmt.Errorf("invalid --color %q: want auto, always or never", mode), "auto: on a terminal, unless NO_COLOR is set")
		case ok && mode != "auto":
			o.screen.hasColor = mode == "always"
		}
	}
	return nil
}
