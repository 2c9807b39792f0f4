// Package edn reads lock histories recorded by Jepsen (history.edn), so that they can be checked
// like our own runs. It writes our runs for Jepsen's tools, too; see write.go.
//
// Its main types are form (an EDN value), operation (one of Jepsen's maps) and translation, which
// converts operations to events. Nodes and the resource are not part of a Jepsen history. The
// nemesis and all operations other than acquire and release are skipped. Operations with the same
// :time keep the order of the file.
//
// There are two ways to read a history, depending on the lock's model:
//
//   - For Read, the lock is held through a handle, and each acquire begins a session. A
//     release belongs to its process's last acquire that was granted and not yet released.
//     If there is none, the release is skipped, whatever its result. A release definitely
//     failed only if its :error contains :not-held; after any other failure its outcome is
//     unknown. Since the history does not say whether there are leases or how long they
//     last, the caller specifies NoDeadline, UnknownTTL or a TTL.
//   - For Operations, the lock is a mutex, which may know its owner but has no handles.
//     Calls and returns are not reinterpreted, and an operation that failed had no effect.
//
// We have our own reader because the EDN library for Go (olympos.io/encoding/edn) has not changed
// since 2020, is more than ten times as long, and reports errors without line numbers.
//
// Deliberately missing: models of anything but locks.
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

// spacing is the assumed interval between operations without a :time, whose order is all that is
// known.
const spacing = 1000 // nanoseconds

// Special values for a TTL. Any other TTL starts when acquire is called.
const (
	NoDeadline time.Duration = 0  // no leases: a client holds the lock until it calls release
	UnknownTTL time.Duration = -1 // a lease may expire at any time, so it is assumed to expire when it is granted
)

// Read reads a history, which consists of one map per operation, in sequence or in a vector. Events
// are numbered like the operations in the file, from 1. Events that are not in the file, such as
// the start of a client, have number 0 or a number that no other event has. The notes describe what
// was assumed or skipped. Errors contain the line number.
func Read(r io.Reader, ttl time.Duration) (h *history.History, notes []string, err error) {
	t := newTranslation()
	t.ttl = ttl
	if err := t.read(r); err != nil {
		return nil, nil, err
	}
	h, err = history.New(t.allEvents())
	return h, t.notes(), err
}

// ReadFile reads a history from a file; see Read.
func ReadFile(path string, ttl time.Duration) (h *history.History, notes []string, err error) {
	h, notes, err = readWith(path, func(r io.Reader) (*history.History, []string, error) { return Read(r, ttl) })
	if err == nil {
		h.Params.Scenario = filepath.Base(path)
	}
	return h, notes, err
}

func readWith[T any](path string, read func(io.Reader) (T, []string, error)) (result T, notes []string, err error) {
	f, err := files.Open(path, history.MaxFileBytes)
	if err != nil {
		return result, nil, fmt.Errorf("read history: %w", err)
	}
	defer f.Close()
	if result, notes, err = read(f); err != nil {
		err = fmt.Errorf("read history %s: %w", path, err)
	}
	return result, notes, err
}

// forEachOperation calls f for each operation as it is read.
func forEachOperation(r *reader, f func(form) error) (err error) {
	defer recoverFailure(&err)
	var end byte // closing byte of the vector that contains the operations; 0: none
	closed := false
	for n := 0; ; n++ {
		r.remaining = maxForm
		c, more := r.firstByte(0)
		switch {
		case !more && end == 0:
			return nil
		case n > history.MaxStoredEvents:
			fail(r.line, "more than %d operations", history.MaxStoredEvents)
		case closed && more:
			fail(r.line, "unexpected data after the vector of operations")
		case n == 0 && (c == '[' || c == '('):
			end, r.formLine = map[byte]byte{'[': ']', '(': ')'}[c], r.line
			continue
		case end != 0 && c == end:
			end, closed = 0, true
			continue
		}
		if end == 0 {
			r.formLine = r.line
		}
		if err := f(r.readForm(r.mustByte(c, more), 1)); err != nil {
			return err
		}
	}
}

// operation contains the relevant fields of one of Jepsen's maps.
type operation struct {
	line      int
	kind      history.Type
	f         string
	process   string // "" if the process is not a client
	time      int64  // -1: missing
	index     int64  // -1: missing
	key       *form  // name of the lock, or nil
	value     *form
	errorForm *form
}

// maxTime is the largest accepted time in nanoseconds, more than seventy years.
const maxTime = math.MaxInt64 / 4

func parse(f form) (o operation, err error) {
	o = operation{line: f.line, key: f.get("key"), value: f.get("value"), errorForm: f.get("error")}
	invalid := func(format string, a ...any) (operation, error) {
		return o, fmt.Errorf("line %d: %s", f.line, fmt.Sprintf(format, a...))
	}
	if f.kind != table {
		return invalid("an operation must be a map, but this is %s", abbreviate(&f))
	}
	typ, name, process := f.get("type"), f.get("f"), f.get("process")
	switch {
	case typ == nil || typ.kind != keyword:
		return invalid("the operation has no :type such as :invoke")
	case name.isNil():
		return invalid("the operation has no :f")
	case process.isNil():
		return invalid("the operation has no :process")
	}
	o.kind = history.Type(typ.text)
	switch o.kind {
	case history.Invoke, history.OK, history.Fail, history.Info:
	default:
		return invalid(":type %s is not :invoke, :ok, :fail or :info", abbreviate(typ))
	}
	o.f = name.text
	if process.kind != keyword { // such as :nemesis
		n, err := strconv.ParseUint(process.text, 10, 63)
		if process.kind != symbol || err != nil {
			return invalid(":process %s is neither a number nor a keyword such as :nemesis", abbreviate(process))
		}
		o.process = "p" + strconv.FormatUint(n, 10)
	}
	if o.time, err = parseCount(&f, "time", maxTime); err != nil {
		return invalid("%v", err)
	}
	if o.index, err = parseCount(&f, "index", maxTime/spacing); err != nil {
		return invalid("%v", err)
	}
	return o, nil
}

// parseCount returns the value of a non-negative integer field, or -1 if the field is missing.
func parseCount(f *form, name string, limit int64) (int64, error) {
	v := f.get(name)
	if v.isNil() {
		return -1, nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(v.text, "N"), 10, 64)
	if v.kind != symbol || err != nil || n < 0 || n > limit {
		return -1, fmt.Errorf(":%s %s is not an integer from 0 to %d", name, abbreviate(v), limit)
	}
	return n, nil
}

// isLock reports whether o is an acquire or release by a client.
func (o operation) isLock() bool {
	return o.process != "" && (o.f == history.OpAcquire || o.f == history.OpRelease)
}

// abbreviate shortens a form for an error message.
func abbreviate(f *form) string {
	s := []rune(f.String())
	if len(s) > 40 {
		return string(s[:40]) + "…"
	}
	return string(s)
}

// Operations reads a history's operations in call order, without assigning them to sessions. Events
// are numbered as in Read.
func Operations(r io.Reader) (ops []facts.Operation, notes []string, err error) {
	t := newTranslation()
	t.mutexModel = true
	if err := t.read(r); err != nil {
		return nil, nil, err
	}
	t.sortTimes()
	ops, err = pairOperations(t.events)
	return ops, t.notes(), err
}

// OperationsFile reads a history's operations from a file; see Operations.
func OperationsFile(path string) (ops []facts.Operation, notes []string, err error) {
	return readWith(path, Operations)
}

// pairOperations combines calls and returns into operations. The events must be in chronological
// order. The translation has already checked that each return follows its call in the file.
func pairOperations(events []history.Event) ([]facts.Operation, error) {
	lastN := map[string]int64{}
	for _, e := range events {
		if e.N < lastN[e.Process] {
			return nil, fmt.Errorf("time runs backwards in %s: its operation %d is stamped after its operation %d", e.Process, e.N, lastN[e.Process])
		}
		lastN[e.Process] = e.N
	}
	var ops []facts.Operation
	pending := map[string]int{} // index of a process's pending operation
	for i := range events {
		switch e := &events[i]; {
		case e.Op == history.OpClient:
		case e.Type == history.Invoke:
			pending[e.Process] = len(ops)
			ops = append(ops, facts.Operation{Call: e})
		default:
			ops[pending[e.Process]].Return = e
		}
	}
	return ops, nil
}

// Limits on a form. They keep files that aren't histories from exhausting memory.
const (
	maxForm  = 16 << 20 // bytes, including nested forms
	maxDepth = 100
)

// reader reads EDN (https://github.com/edn-format/edn) one form at a time. It supports the subset
// that Clojure uses to print data.
type reader struct {
	in        *bufio.Reader
	line      int
	remaining int // number of bytes left for the outermost form
	formLine  int // line where the outermost form begins
}

func newReader(r io.Reader) *reader {
	return &reader{in: bufio.NewReaderSize(r, 1<<16), line: 1, remaining: maxForm}
}

// failure is the type of the reader's panics.
type failure struct{ error }

func fail(line int, format string, a ...any) {
	panic(failure{fmt.Errorf("line %d: %w", line, fmt.Errorf(format, a...))})
}

// recoverFailure stores the reader's failure in err. Callers of the reader must defer it.
func recoverFailure(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.error
	default:
		panic(r)
	}
}

// readByte reads the next byte. more is false at the end of the file.
func (r *reader) readByte() (c byte, more bool) {
	c, err := r.in.ReadByte()
	switch {
	case errors.Is(err, io.EOF):
		return 0, false
	case err != nil:
		fail(r.line, "%v", err)
	}
	if r.remaining--; r.remaining < 0 {
		fail(r.line, "a form is longer than %d bytes", maxForm)
	}
	if c == '\n' {
		r.line++
	}
	return c, true
}

// mustByte takes the results of readByte or firstByte and returns the byte. It fails at the end of
// the file.
func (r *reader) mustByte(c byte, more bool) byte {
	if !more {
		fail(r.line, "the file ends inside the form that begins on line %d", r.formLine)
	}
	return c
}

// unread puts the last byte, c, back into the input.
func (r *reader) unread(c byte) {
	r.in.UnreadByte() // can't fail after ReadByte
	r.remaining++
	if c == '\n' {
		r.line--
	}
}

// firstByte skips white space, comments and forms discarded by #_, and reads the first byte of the
// next form. more is false if there is none.
func (r *reader) firstByte(depth int) (c byte, more bool) {
	if depth > maxDepth {
		fail(r.line, "forms are nested more than %d deep", maxDepth)
	}
	for {
		c, more := r.readByte()
		switch {
		case !more:
			return 0, false
		case isSpace(c):
		case c == ';':
			for more && c != '\n' {
				c, more = r.readByte()
			}
		case c == '#' && r.accept('_'):
			r.mustForm(depth + 1)
		default:
			return c, true
		}
	}
}

// accept reads the next byte if it is want, and reports whether it is.
func (r *reader) accept(want byte) bool {
	c, more := r.readByte()
	if more && c != want {
		r.unread(c)
	}
	return more && c == want
}

// mustForm reads the next form, and fails if there is none.
func (r *reader) mustForm(depth int) form { return r.readForm(r.mustByte(r.firstByte(depth)), depth) }

// readForm reads the rest of the form that begins with byte c.
func (r *reader) readForm(c byte, depth int) form {
	f := form{line: r.line}
	switch c {
	case '{':
		f.kind = table
		if f.items = r.readForms('}', depth); len(f.items)%2 != 0 {
			fail(f.line, "a map has a key without a value")
		}
	case '[':
		f.kind, f.items = vector, r.readForms(']', depth)
	case '(':
		f.kind, f.items = vector, r.readForms(')', depth)
	case '"':
		f.kind, f.text = text, r.readQuoted()
	case '\\': // \a, \newline, \( etc.
		f.kind, f.text = text, r.readWord(r.mustByte(r.readByte()))
	case '#':
		return r.readDispatch(f, depth)
	case ':':
		if f.kind, f.text = keyword, r.readWord(); f.text == "" {
			fail(r.line, "a colon is not followed by a keyword")
		}
	case ')', ']', '}', '@', '^', '`', '~':
		fail(r.line, "unexpected %q at the beginning of a form", c)
	default:
		f.kind, f.text = symbol, r.readWord(c)
	}
	return f
}

// readDispatch reads a form that begins with #: a set, a symbolic number such as ##NaN, a regular
// expression (read as a string), or a tagged form.
func (r *reader) readDispatch(f form, depth int) form {
	c := r.mustByte(r.readByte())
	switch {
	case c == '{':
		f.kind, f.items = set, r.readForms('}', depth)
		return f
	case c == '#':
		f.kind, f.text = symbol, r.readWord('#', '#')
		return f
	case c == '"':
		return r.readForm(c, depth)
	case isSpace(c) || isDelimiter(c):
		fail(r.line, "# is not followed by a tag")
	}
	r.readWord(c)
	return r.mustForm(depth + 1)
}

// readForms reads all forms up to the closing byte of a collection.
func (r *reader) readForms(end byte, depth int) (items []form) {
	for {
		c := r.mustByte(r.firstByte(depth))
		if c == end {
			return items
		}
		items = append(items, r.readForm(c, depth+1))
	}
}

// readQuoted reads the rest of a string after its opening quote.
func (r *reader) readQuoted() string {
	var b []byte
	for {
		c := r.mustByte(r.readByte())
		switch c {
		case '"':
			return r.validString(b)
		case '\\':
			// Decode single-character escapes. Leave all others unchanged, such as \u00e9 and a
			// regular expression's \d.
			c = r.mustByte(r.readByte())
			if i := strings.IndexByte(`"\nrt`, c); i >= 0 {
				c = "\"\\\n\r\t"[i]
			} else {
				b = append(b, '\\')
			}
		}
		b = append(b, c)
	}
}

// readWord appends everything up to the next delimiter to b.
func (r *reader) readWord(b ...byte) string {
	for {
		c, more := r.readByte()
		if more && (isSpace(c) || isDelimiter(c)) {
			r.unread(c)
			more = false
		}
		if !more {
			return r.validString(b)
		}
		b = append(b, c)
	}
}

func (r *reader) validString(b []byte) string {
	if !utf8.Valid(b) {
		fail(r.line, "the text is not valid UTF-8")
	}
	return string(b)
}

func isSpace(c byte) bool { return c <= ' ' && strings.IndexByte(" \t\r\n\f", c) >= 0 || c == ',' }

func isDelimiter(c byte) bool { return strings.IndexByte(`()[]{}";`, c) >= 0 }

// kind is a kind of form. Kinds that need not be distinguished share a constant.
type kind byte

const (
	symbol  kind = iota // nil, true, numbers and symbols, as written
	keyword             // without its colon
	text                // a string or a character, unescaped
	vector              // or a list
	table               // a map: alternating keys and values
	set
)

// form is an EDN value. Tags are skipped because their meaning is unknown.
type form struct {
	kind  kind
	text  string
	items []form
	line  int // where the form begins, from 1
}

// get returns the value of a keyword in a map, or nil.
func (f *form) get(key string) *form {
	for i := 0; i+1 < len(f.items); i += 2 {
		if k := f.items[i]; k.kind == keyword && k.text == key {
			return &f.items[i+1]
		}
	}
	return nil
}

// isNil reports whether the value is missing or nil.
func (f *form) isNil() bool { return f == nil || f.kind == symbol && f.text == "nil" }

// contains reports whether the form is the keyword key or contains it at any depth.
func (f *form) contains(key string) bool {
	if f == nil {
		return false
	}
	for i := range f.items {
		if f.items[i].contains(key) {
			return true
		}
	}
	return f.kind == keyword && f.text == key
}

// String returns the form on one line, much as Clojure would print it.
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
