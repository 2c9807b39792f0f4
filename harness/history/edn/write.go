package edn

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Write writes one of our histories in Jepsen's format: one map per line, with :index (from 0,
// without gaps), :type, :process, :f, :value and :time (nanoseconds). In addition it has :key, the
// lock, and :event, our number of the event.
//
//   - Only acquire and release are written, because the model that checks them (Knossos'
//     mutex) knows no others. :value is nil, or [lock nil] if there are several locks, as in
//     jepsen.independent.
//   - That model knows no leases. Belief that ends without a release, at the deadline, by a
//     death or by a definite no, is written as a release at that instant, with :error
//     [:expired]. The session's own release, which comes later, is omitted. An extension
//     that returns after the deadline is an acquire of its own. Nobody believed in an
//     acquire that returned after its deadline, so it is :fail with :error [:expired]. If
//     there are several releases, the first ends belief and the others are omitted.
//   - A release that failed, or whose outcome is unknown, is :info, because its client has
//     stopped believing, whatever the nodes say.
//   - A client that had an :info continues under another number, like Jepsen's processes:
//     client i of n is i, then i+n, and so on.
//   - A fault is two :info of :process :nemesis, since Jepsen's nemesis calls and returns:
//     :start-pause with [target], and the same with what was read back.
//
// Characters that EDN can't represent are escaped, and invalid UTF-8 is replaced.
func Write(w io.Writer, h *history.History) error {
	t := &writer{Facts: facts.Read(h), keys: map[string]bool{}, number: map[string]int{}, open: map[string]line{}}
	t.gather()
	out := bufio.NewWriterSize(w, 1<<16)
	for i, o := range t.operations() {
		out.WriteString("{:index " + strconv.Itoa(i) + o.text + "}\n")
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write history.edn: %w", err)
	}
	return nil
}

// line is a call or a return that has not been placed yet.
type line struct {
	t         int64
	n         int64 // number of the event; orders lines with equal t
	order     int   // orders lines of one event
	operation int   // number of its operation
	call      bool
	e         history.Event
	f         string
	cause     string // a keyword for :error
	text      string
}

type writer struct {
	*facts.Facts
	lines  []line
	count  int // number of operations
	keys   map[string]bool
	number map[string]int // a client's process number
	next   int            // number of clients so far
	open   map[string]line

	out     []line
	waiting map[string][]line // lines of processes that are in the middle of an operation
}

func (t *writer) gather() {
	for _, c := range t.Params.Clients {
		if t.Began[c] {
			t.client(c)
		}
	}
	for s := range t.Sessions() {
		t.session(s)
	}
	for _, f := range t.Faults {
		t.fault("start-", f.Begin)
		t.fault("stop-", f.End)
	}
}

// client gives a client its first process number.
func (t *writer) client(name string) {
	if _, ok := t.number[name]; !ok {
		t.number[name] = t.next
		t.next++
	}
}

// session adds what a session did with its lock. A session whose belief ended without a release is
// released only once.
func (t *writer) session(s *facts.Session) {
	t.client(s.Client())
	t.keys[s.Key()] = true
	opened, released := false, false
	for w := range t.Windows(s) {
		_, how := t.Closing(w)
		t.beliefEnds(w, how)
		opened = opened || w.Opens == s.Acquire.Return
		released = how == facts.Released || how == facts.StillBelieved
	}
	acquire := s.Acquire
	if s.Granted() && !opened {
		late := *acquire.Return
		late.Type, late.Cause = history.Fail, string(facts.Expired)
		acquire.Return = &late
	}
	t.operation(history.OpAcquire, acquire)
	for x := range s.Calls(history.OpRelease) {
		if released || !s.Granted() {
			t.operation(history.OpRelease, x)
		}
		return
	}
}

// operation adds an operation that the client called.
func (t *writer) operation(f string, o facts.Operation) {
	t.count++
	t.lines = append(t.lines, line{t: o.Call.T, n: o.Call.N, operation: t.count, call: true, e: *o.Call, f: f})
	if o.Return != nil {
		t.lines = append(t.lines, line{t: o.Return.T, n: o.Return.N, operation: t.count, e: *o.Return, f: f})
	}
}

// beliefEnds adds the parts of a belief that the model can't represent: an end that is not a
// release, and a beginning that is not an acquire.
func (t *writer) beliefEnds(w facts.Window, how facts.Ending) {
	e := history.Event{N: w.Opens.N, Process: w.Session.Client(), Key: w.Session.Key(), Session: w.Session.Name()}
	if w.Opens.Op == history.OpExtend {
		t.addPair(line{t: w.From, n: w.Opens.N, e: e, f: history.OpAcquire})
	}
	if how != facts.Released && how != facts.StillBelieved {
		t.release(e, w.To, 0, how)
	}
}

// release adds a release of a lock that nobody believes in any more.
func (t *writer) release(e history.Event, at, n int64, why facts.Ending) {
	t.addPair(line{t: at, n: n, order: 2, e: e, f: history.OpRelease, cause: string(why)})
}

// addPair adds an operation that the client did not call, and that returns at once.
func (t *writer) addPair(l line) {
	t.count++
	l.operation = t.count
	call := l
	call.call, call.cause, call.e.Type = true, "", history.Invoke
	l.order, l.e.Type = l.order+1, history.OK
	t.lines = append(t.lines, call, l)
}

func (t *writer) fault(word string, e *history.Event) {
	if e == nil {
		return
	}
	l := line{t: e.T, n: e.N, e: *e, f: word + e.Op}
	l.e.Type = history.Info
	t.lines = append(t.lines, l)
	l.order, l.e.Value = 1, "read back"
	t.lines = append(t.lines, l)
}

// operations returns the lines in order, with their text. An operation that never returned is
// :info.
func (t *writer) operations() []line {
	slices.SortStableFunc(t.lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.n, b.n), cmp.Compare(a.order, b.order))
	})
	t.waiting = map[string][]line{}
	for _, l := range t.lines {
		t.emit(l)
	}
	for len(t.open) > 0 {
		l := t.open[slices.Min(slices.Collect(maps.Keys(t.open)))]
		l.call, l.t, l.e.Type, l.e.Cause = false, 0, history.Info, "it never returned"
		t.emit(l)
	}
	return t.out
}

// rank places a call of release before everything else at the same instant. A client that believes
// until then and one that believes from then on never believe at the same time, and for Jepsen the
// order counts.
func (l line) rank() int {
	if l.call && l.f == history.OpRelease {
		return 0
	}
	return 1
}

// emit places a line. A process that is in the middle of an operation does nothing else until that
// has returned.
func (t *writer) emit(l line) {
	name := l.e.Process
	open, busy := t.open[name]
	switch {
	case name == history.Nemesis:
	case busy && open.operation != l.operation:
		t.waiting[name] = append(t.waiting[name], l)
		return
	case l.call:
		t.open[name] = l
	case !busy:
		return // a return without a call, which no recorder writes
	default:
		delete(t.open, name)
	}
	if n := len(t.out); n > 0 {
		l.t = max(l.t, t.out[n-1].t) // for a line that waited
	}
	t.out = append(t.out, t.format(l))
	if l.call {
		return
	}
	held := t.waiting[name]
	delete(t.waiting, name)
	for _, l := range held {
		t.emit(l)
	}
}

func (t *writer) format(l line) line {
	e, kind := l.e, l.e.Type
	var b strings.Builder
	if e.Process == history.Nemesis {
		fmt.Fprintf(&b, ", :type :info, :process :nemesis, :f %s, :value [%s", keywordOf(l.f), quotedText(e.Node))
		if e.Value != "" {
			b.WriteString(" " + quotedText(e.Cause))
		}
		fmt.Fprintf(&b, "], :time %d, :event %d", l.t, e.N)
		l.text = b.String()
		return l
	}
	if l.f == history.OpRelease && kind == history.Fail {
		kind = history.Info
	}
	value := "nil"
	if len(t.keys) > 1 {
		value = "[" + quotedText(e.Key) + " nil]"
	}
	fmt.Fprintf(&b, ", :type :%s, :process %d, :f :%s, :value %s, :time %d, :key %s", kind, t.number[e.Process], l.f, value, l.t, quotedText(e.Key))
	switch {
	case l.cause != "":
		b.WriteString(", :error [:" + l.cause + "]")
	case e.Cause != "" && !l.call:
		b.WriteString(", :error " + quotedText(e.Cause))
	}
	fmt.Fprintf(&b, ", :event %d", e.N)
	if kind == history.Info {
		t.number[e.Process] += max(t.next, 1)
	}
	l.text = b.String()
	return l
}

// keywordOf returns the keyword for a fault's operation. Operations other than our own are not
// expected.
func keywordOf(s string) string {
	ok := strings.IndexFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' }) < 0
	if !ok {
		return ":fault"
	}
	return ":" + s
}

// maxString bounds one string, in bytes.
const maxString = 64 << 10

// quotedText returns a string literal of EDN, on one line and restricted to what Clojure's reader
// accepts: \uNNNN replaces control characters and line separators.
func quotedText(s string) string {
	if len(s) > maxString {
		s = s[:maxString] + "…"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029:
			fmt.Fprintf(&b, `\u%04x`, r)
		case r == utf8.RuneError:
			b.WriteString(`\ufffd`)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
