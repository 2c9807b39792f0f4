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

// failure is what is wrong with what is read, as the reader panics with it.
type failure struct{ error }

func fail(line int, format string, a ...any) {
	panic(failure{fmt.Errorf("line %d: %w", line, fmt.Errorf(format, a...))})
}

// caught is deferred by whoever calls the reader, and gives him its failure.
func caught(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.error
	default:
		panic(r)
	}
}

// byte is the next byte, if the file has more.
func (r *reader) byte() (c byte, more bool) {
	c, err := r.in.ReadByte()
	switch {
	case errors.Is(err, io.EOF):
		return 0, false
	case err != nil:
		fail(r.line, "%v", err)
	}
	if r.left--; r.left < 0 {
		fail(r.line, "a form longer than %d bytes", maxForm)
	}
	if c == '\n' {
		r.line++
	}
	return c, true
}

// must is a byte where the file must not end.
func (r *reader) must(c byte, more bool) byte {
	if !more {
		fail(r.line, "the file ends within what begins on line %d", r.top)
	}
	return c
}

// back gives back the byte that was read last.
func (r *reader) back(c byte) {
	r.in.UnreadByte() // it was just read, so it can be
	r.left++
	if c == '\n' {
		r.line--
	}
}

// begin is the first byte of what comes next, if there is more. White space, comments and
// what #_ discards are passed over.
func (r *reader) begin(depth int) (c byte, more bool) {
	if depth > maxDepth {
		fail(r.line, "more than %d forms within each other", maxDepth)
	}
	for {
		c, more := r.byte()
		switch {
		case !more:
			return 0, false
		case isSpace(c):
		case c == ';':
			for more && c != '\n' {
				c, more = r.byte()
			}
		case c == '#' && r.follows('_'):
			r.inside(depth + 1)
		default:
			return c, true
		}
	}
}

// follows takes the next byte if it is the one that is asked for.
func (r *reader) follows(want byte) bool {
	c, more := r.byte()
	if more && c != want {
		r.back(c)
	}
	return more && c == want
}

// inside is a form that must come.
func (r *reader) inside(depth int) form { return r.form(r.must(r.begin(depth)), depth) }

// form is the form that begins with a byte.
func (r *reader) form(c byte, depth int) form {
	f := form{line: r.line}
	switch c {
	case '{':
		f.kind = table
		if f.items = r.until('}', depth); len(f.items)%2 != 0 {
			fail(f.line, "a map with a key and no value")
		}
	case '[':
		f.kind, f.items = vector, r.until(']', depth)
	case '(':
		f.kind, f.items = vector, r.until(')', depth)
	case '"':
		f.kind, f.text = text, r.quoted()
	case '\\': // \a, \newline, \( and the like
		f.kind, f.text = text, r.word(r.must(r.byte()))
	case '#':
		return r.dispatch(f, depth)
	case ':':
		if f.kind, f.text = keyword, r.word(); f.text == "" {
			fail(r.line, "a colon without a keyword")
		}
	case ')', ']', '}', '@', '^', '`', '~':
		fail(r.line, "%q where a form should begin", c)
	default:
		f.kind, f.text = symbol, r.word(c)
	}
	return f
}

// dispatch is what begins with #: a set, a number that is none such as ##NaN, a
// string that Clojure means as a pattern, or a tag with its form.
func (r *reader) dispatch(f form, depth int) form {
	c := r.must(r.byte())
	switch {
	case c == '{':
		f.kind, f.items = set, r.until('}', depth)
		return f
	case c == '#':
		f.kind, f.text = symbol, r.word('#', '#')
		return f
	case c == '"':
		return r.form(c, depth)
	case isSpace(c) || isDelimiter(c):
		fail(r.line, "# without a tag")
	}
	r.word(c)
	return r.inside(depth + 1)
}

// until is the forms up to the end of a collection.
func (r *reader) until(end byte, depth int) (items []form) {
	for {
		c := r.must(r.begin(depth))
		if c == end {
			return items
		}
		items = append(items, r.form(c, depth+1))
	}
}

// quoted is a string, whose first quote has been read.
func (r *reader) quoted() string {
	var b []byte
	for {
		c := r.must(r.byte())
		switch c {
		case '"':
			return r.valid(b)
		case '\\':
			// Those that stand for another character; of the rest, such as \u00e9
			// and a pattern's \d, the text is kept as it is written.
			c = r.must(r.byte())
			if i := strings.IndexByte(`"\nrt`, c); i >= 0 {
				c = "\"\\\n\r\t"[i]
			} else {
				b = append(b, '\\')
			}
		}
		b = append(b, c)
	}
}

// word reads on to the next delimiter.
func (r *reader) word(b ...byte) string {
	for {
		c, more := r.byte()
		if more && (isSpace(c) || isDelimiter(c)) {
			r.back(c)
			more = false
		}
		if !more {
			return r.valid(b)
		}
		b = append(b, c)
	}
}

func (r *reader) valid(b []byte) string {
	if !utf8.Valid(b) {
		fail(r.line, "not UTF-8")
	}
	return string(b)
}

func isSpace(c byte) bool { return c <= ' ' && strings.IndexByte(" \t\r\n\f", c) >= 0 || c == ',' }

func isDelimiter(c byte) bool { return strings.IndexByte(`()[]{}";`, c) >= 0 }

// kind is what a form is, as far as a history cares.
type kind byte

const (
	symbol  kind = iota // nil, true, numbers and symbols, as they are written
	keyword             // without its colon
	text                // a string or a character, unescaped
	vector              // or a list
	table               // a map: keys and values by turns
	set
)

// form is one value. Its tags are passed over, for what they mean nobody here knows.
type form struct {
	kind  kind
	text  string
	items []form
	line  int // on which it begins, from 1
}

// get is the value of a keyword in a map, or nil.
func (f *form) get(key string) *form {
	for i := 0; i+1 < len(f.items); i += 2 {
		if k := f.items[i]; k.kind == keyword && k.text == key {
			return &f.items[i+1]
		}
	}
	return nil
}

// isNil reports whether a value is absent or nil.
func (f *form) isNil() bool { return f == nil || f.kind == symbol && f.text == "nil" }

// mentions reports whether a keyword is the form, or anywhere in it.
func (f *form) mentions(key string) bool {
	if f == nil {
		return false
	}
	for i := range f.items {
		if f.items[i].mentions(key) {
			return true
		}
	}
	return f.kind == keyword && f.text == key
}

// String is the form on one line, as Clojure might print it.
func (f *form) String() string {
	var parts []string
	for i := range f.items {
		parts = append(parts, f.items[i].String())
	}
	all := strings.Join(parts, " ")
	switch f.kind {
	case keyword:
		return ":" + f.text
	case vector:
		return "[" + all + "]"
	case table:
		return "{" + all + "}"
	case set:
		return "#{" + all + "}"
	}
	return f.text
}
