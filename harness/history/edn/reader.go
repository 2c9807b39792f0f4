package edn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Limits of one form, so that a file which is no history can't eat the memory.
const (
	maxForm  = 16 << 20 // bytes, with all that is in it
	maxDepth = 100
)

// reader reads EDN (https://github.com/edn-format/edn) one form at a time: the
// subset that Clojure prints for data.
type reader struct {
	in   *bufio.Reader
	line int
	left int // bytes that the form may still have
	top  int // line on which the outermost form begins
}

func newReader(r io.Reader) *reader {
	return &reader{in: bufio.NewReaderSize(r, 1<<16), line: 1, left: maxForm}
}

func (r *reader) wrong(format string, a ...any) error {
	return fmt.Errorf("line %d: %s", r.line, fmt.Sprintf(format, a...))
}

// byte is the next byte; its only clean error is io.EOF.
func (r *reader) byte() (byte, error) {
	c, err := r.in.ReadByte()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = r.wrong("%v", err)
		}
		return 0, err
	}
	if r.left--; r.left < 0 {
		return 0, r.wrong("a form longer than %d bytes", maxForm)
	}
	if c == '\n' {
		r.line++
	}
	return c, nil
}

// back gives back the byte that was read last.
func (r *reader) back(c byte) {
	r.in.UnreadByte() // it was just read, so it can be
	r.left++
	if c == '\n' {
		r.line--
	}
}

// begin is the first byte of what comes next. White space, comments and what #_
// discards are passed over.
func (r *reader) begin(depth int) (byte, error) {
	if depth > maxDepth {
		return 0, r.wrong("more than %d forms within each other", maxDepth)
	}
	for {
		c, err := r.byte()
		switch {
		case err != nil:
			return 0, err
		case isSpace(c):
		case c == ';':
			for c != '\n' && err == nil {
				c, err = r.byte()
			}
			if err != nil {
				return 0, err
			}
		case c == '#' && r.follows('_'):
			if _, err := r.inside(depth + 1); err != nil {
				return 0, err
			}
		default:
			return c, nil
		}
	}
}

// follows takes the next byte if it is the one that is asked for.
func (r *reader) follows(want byte) bool {
	c, err := r.byte()
	if err == nil && c != want {
		r.back(c)
	}
	return err == nil && c == want
}

// inside is a form that must come, where the file must not end.
func (r *reader) inside(depth int) (form, error) {
	c, err := r.begin(depth)
	if err != nil {
		return form{}, r.unended(err)
	}
	return r.form(c, depth)
}

func (r *reader) unended(err error) error {
	if errors.Is(err, io.EOF) {
		return r.wrong("the file ends within what begins on line %d", r.top)
	}
	return err
}

// form is the form that begins with a byte.
func (r *reader) form(c byte, depth int) (form, error) {
	f := form{line: r.line}
	var err error
	switch c {
	case '{':
		f.kind = table
		if f.items, err = r.until('}', depth); err == nil && len(f.items)%2 != 0 {
			err = fmt.Errorf("line %d: a map with a key and no value", f.line)
		}
	case '[':
		f.kind = vector
		f.items, err = r.until(']', depth)
	case '(':
		f.kind = vector
		f.items, err = r.until(')', depth)
	case '"':
		f.kind = text
		f.text, err = r.quoted()
	case '\\':
		f.kind = text
		f.text, err = r.character()
	case '#':
		return r.dispatch(f, depth)
	case ':':
		f.kind = keyword
		if f.text, err = r.word(nil); err == nil && f.text == "" {
			err = r.wrong("a colon without a keyword")
		}
	case ')', ']', '}', '@', '^', '`', '~':
		err = r.wrong("%q where a form should begin", c)
	default:
		f.kind = symbol
		f.text, err = r.word([]byte{c})
	}
	return f, err
}

// dispatch is what begins with #: a set, a number that is none such as ##NaN, a
// string that Clojure means as a pattern, or a tag with its form.
func (r *reader) dispatch(f form, depth int) (form, error) {
	c, err := r.byte()
	if err != nil {
		return f, r.unended(err)
	}
	switch {
	case c == '{':
		f.kind = set
		f.items, err = r.until('}', depth)
		return f, err
	case c == '#':
		f.kind = symbol
		f.text, err = r.word([]byte("##"))
		return f, err
	case c == '"':
		return r.form(c, depth)
	case isSpace(c) || isDelimiter(c):
		return f, r.wrong("# without a tag")
	}
	if _, err := r.word([]byte{c}); err != nil {
		return f, err
	}
	return r.inside(depth + 1)
}

// until is the forms up to the end of a collection.
func (r *reader) until(end byte, depth int) ([]form, error) {
	var items []form
	for {
		c, err := r.begin(depth)
		if err != nil {
			return nil, r.unended(err)
		}
		if c == end {
			return items, nil
		}
		f, err := r.form(c, depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, f)
	}
}

// quoted is a string, whose first quote has been read.
func (r *reader) quoted() (string, error) {
	var b []byte
	for {
		c, err := r.byte()
		if err == nil && c == '\\' {
			if c, err = r.byte(); err == nil {
				// Those that stand for another character; of the rest, such as \u00e9
				// and a pattern's \d, the text is kept as it is written.
				if i := strings.IndexByte(`"\nrt`, c); i >= 0 {
					b = append(b, "\"\\\n\r\t"[i])
				} else {
					b = append(b, '\\', c)
				}
				continue
			}
		}
		switch {
		case err != nil:
			return "", r.unended(err)
		case c == '"':
			return r.valid(b)
		}
		b = append(b, c)
	}
}

// character is \a, \newline, \( and the like, without the backslash.
func (r *reader) character() (string, error) {
	c, err := r.byte()
	if err != nil {
		return "", r.unended(err)
	}
	return r.word([]byte{c})
}

// word reads on to the next delimiter.
func (r *reader) word(b []byte) (string, error) {
	for {
		c, err := r.byte()
		switch {
		case errors.Is(err, io.EOF):
			return r.valid(b)
		case err != nil:
			return "", err
		case isSpace(c) || isDelimiter(c):
			r.back(c)
			return r.valid(b)
		}
		b = append(b, c)
	}
}

func (r *reader) valid(b []byte) (string, error) {
	if !utf8.Valid(b) {
		return "", r.wrong("not UTF-8")
	}
	return string(b), nil
}

func isSpace(c byte) bool { return c <= ' ' && strings.IndexByte(" \t\r\n\f", c) >= 0 || c == ',' }

func isDelimiter(c byte) bool { return strings.IndexByte(`()[]{}";`, c) >= 0 }
