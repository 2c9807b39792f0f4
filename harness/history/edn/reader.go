// Package edn reads the history of a lock that Jepsen recorded, its
// history.edn, so that it can be judged like a run of our own, and writes a run of
// ours for Jepsen's tools (write.go says how).
//
// Its nouns are the form (a value of EDN), the operation (one of Jepsen's maps)
// and the facts that they are turned into. What such a history does not say is
// left empty: there are no nodes and no resource. Operations other than acquire
// and release are passed over, and whatever the nemesis did. Operations of one
// :time are in the order of the file.
//
// There are two ways to read it, by what the lock is taken for:
//
//   - Read takes it for a lock that is held by a handle. Each acquire is a
//     session. A release belongs to its process's last acquire that was granted
//     and not yet given back; one that finds none is passed over, whatever its
//     answer. It is a definite no only where its :error has :not-held, and of
//     unknown outcome where it failed in another way. Whether it has a
//     lease, and how long that lasts, no such history says: Never, Unknown or a TTL.
//   - Operations takes it for a mutex, which may know its owner and knows no
//     handle: calls and returns are as they stand, and what failed did not happen.
//
// The reader is our own: the EDN library for Go (olympos.io/encoding/edn) has no
// release and no change since 2020, is more than ten times as long, and its
// errors tell no lines.
//
// Deliberately missing: any model but the lock.
package edn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/files"
)

// apart is how far operations without a time are put from each other: time is
// then their order, and nothing else.
const apart = 1000 // nanoseconds

// When a lease lapses, if not a TTL after its acquire was called.
const (
	Never   time.Duration = 0  // it is believed in until its release is called
	Unknown time.Duration = -1 // at any instant after it was granted: nobody is believed in for longer
)

// Read reads a history: one map an operation, one after the other or in one
// vector. Events have the numbers of the operations in the file, from 1; those
// that the file has not, such as the beginning of a client, have 0 or a
// number that no other event has. The notes say in words what was assumed or passed
// over. An error names the line.
func Read(r io.Reader, ttl time.Duration) (h *history.History, notes []string, err error) {
	t := newTranslation()
	t.ttl = ttl
	if err := t.read(r); err != nil {
		return nil, nil, err
	}
	h, err = history.New(t.finish())
	return h, t.notes(), err
}

// ReadFile reads the history in a file.
func ReadFile(path string, ttl time.Duration) (h *history.History, notes []string, err error) {
	h, notes, err = fromFile(path, func(r io.Reader) (*history.History, []string, error) { return Read(r, ttl) })
	if err == nil {
		h.Params.Scenario = filepath.Base(path)
	}
	return h, notes, err
}

func fromFile[T any](path string, read func(io.Reader) (T, []string, error)) (all T, notes []string, err error) {
	f, err := files.Open(path, history.MaxFile)
	if err != nil {
		return all, nil, fmt.Errorf("read history: %w", err)
	}
	defer f.Close()
	if all, notes, err = read(f); err != nil {
		err = fmt.Errorf("read history %s: %w", path, err)
	}
	return all, notes, err
}

// each calls do for each operation as it is read.
func each(r *reader, do func(form) error) (err error) {
	defer caught(&err)
	var end byte // of the vector in which operations lie; 0: in none
	closed := false
	for n := 0; ; n++ {
		r.left = maxForm
		c, more := r.begin(0)
		switch {
		case !more && end == 0:
			return nil
		case n > history.MaxStored:
			fail(r.line, "it has more than %d operations", history.MaxStored)
		case closed && more:
			fail(r.line, "something follows the vector of operations")
		case n == 0 && (c == '[' || c == '('):
			end, r.top = map[byte]byte{'[': ']', '(': ')'}[c], r.line
			continue
		case end != 0 && c == end:
			end, closed = 0, true
			continue
		}
		if end == 0 {
			r.top = r.line
		}
		if err := do(r.form(r.must(c, more), 1)); err != nil {
			return err
		}
	}
}

// operation is one of Jepsen's maps, as far as a lock's history needs it.
type operation struct {
	line    int
	kind    history.Type
	f       string
	process string // "" if it is no client
	time    int64  // -1: not told
	index   int64  // -1: not told
	key     *form  // the lock's name, if :key says it
	value   *form
	failure *form
}

// mostTime bounds what is taken for a time: over seventy years.
const mostTime = math.MaxInt64 / 4

func parse(f form) (o operation, err error) {
	o = operation{line: f.line, key: f.get("key"), value: f.get("value"), failure: f.get("error")}
	wrong := func(format string, a ...any) (operation, error) {
		return o, fmt.Errorf("line %d: %s", f.line, fmt.Sprintf(format, a...))
	}
	if f.kind != table {
		return wrong("%s is no map, and an operation is one", shortened(&f))
	}
	typ, name, process := f.get("type"), f.get("f"), f.get("process")
	switch {
	case typ == nil || typ.kind != keyword:
		return wrong("an operation without a :type such as :invoke")
	case name.isNil():
		return wrong("an operation without :f")
	case process.isNil():
		return wrong("an operation without :process")
	}
	o.kind = history.Type(typ.text)
	switch o.kind {
	case history.Invoke, history.OK, history.Fail, history.Info:
	default:
		return wrong(":type %s is none of :invoke, :ok, :fail and :info", shortened(typ))
	}
	o.f = name.text
	if process.kind != keyword { // such as :nemesis
		n, err := strconv.ParseUint(process.text, 10, 63)
		if process.kind != symbol || err != nil {
			return wrong(":process %s is neither a number nor a keyword such as :nemesis", shortened(process))
		}
		o.process = "p" + strconv.FormatUint(n, 10)
	}
	if o.time, err = count(&f, "time", mostTime); err != nil {
		return wrong("%v", err)
	}
	if o.index, err = count(&f, "index", mostTime/apart); err != nil {
		return wrong("%v", err)
	}
	return o, nil
}

// count is a whole number from 0 on, -1 if it isn't there.
func count(f *form, name string, most int64) (int64, error) {
	v := f.get(name)
	if v.isNil() {
		return -1, nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(v.text, "N"), 10, 64)
	if v.kind != symbol || err != nil || n < 0 || n > most {
		return -1, fmt.Errorf(":%s %s is no whole number from 0 to %d", name, shortened(v), most)
	}
	return n, nil
}

// isLock reports whether the operation is one on a lock.
func (o operation) isLock() bool {
	return o.process != "" && (o.f == history.OpAcquire || o.f == history.OpRelease)
}

// shortened is a form as an error shows it.
func shortened(f *form) string {
	s := []rune(f.String())
	if len(s) > 40 {
		return string(s[:40]) + "…"
	}
	return string(s)
}

// Operations reads the calls and returns of a history as they stand in it, in the
// order of calls. Their events are numbered as in Read and have no session.
func Operations(r io.Reader) (ops []facts.Operation, notes []string, err error) {
	t := newTranslation()
	t.plain = true
	if err := t.read(r); err != nil {
		return nil, nil, err
	}
	t.rise()
	ops, err = paired(t.events)
	return ops, t.notes(), err
}

// OperationsFile reads those of the history in a file.
func OperationsFile(path string) (ops []facts.Operation, notes []string, err error) {
	return fromFile(path, Operations)
}

// paired is operations by their events in the order of time. That each return has
// its call the translation has seen, in the order of the file.
func paired(events []history.Event) ([]facts.Operation, error) {
	last := map[string]int64{}
	for _, e := range events {
		if e.N < last[e.Process] {
			return nil, fmt.Errorf("time runs backwards in %s: its operation %d is stamped after its operation %d", e.Process, e.N, last[e.Process])
		}
		last[e.Process] = e.N
	}
	var ops []facts.Operation
	open := map[string]int{} // a process's operation that has not returned
	for i := range events {
		switch e := &events[i]; {
		case e.Op == history.OpClient:
		case e.Type == history.Invoke:
			open[e.Process] = len(ops)
			ops = append(ops, facts.Operation{Call: e})
		default:
			ops[open[e.Process]].Return = e
		}
	}
	return ops, nil
}

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
