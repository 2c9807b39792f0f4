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
)

// Write writes a history of ours as Jepsen writes one: a map a line, with :index (from
// 0, none left out), :type, :process, :f, :value and :time (nanoseconds). Besides it
// has :key, the lock, and :event, our number of the event.
//
//   - Only acquire and release are there, for the model that judges them (knossos'
//     mutex) knows no others. :value is nil, and where there are several locks
//     [lock nil], as jepsen.independent has it.
//   - That model knows no leases. Belief that ends without a release, at the deadline,
//     by a death or a definite no, is written as a release at that instant, with
//     :error [:expired]; the session's own release, which comes later, is left out. An
//     extension that comes back after the deadline is an acquire of its own.
//   - A release that came to nothing, or whose outcome is unknown, is :info, for its
//     client believes no longer, whatever the nodes say.
//   - Who had an :info goes on under another number, as Jepsen's processes do:
//     client i of n is i, then i+n, and so on.
//   - A fault is two :info of :process :nemesis, as for Jepsen's nemesis, which calls
//     and returns: :start-pause with [target], and that with what was read back.
//
// beliefs are the checker's (Beliefs). What has no name in EDN is escaped, and what is not UTF-8 replaced.
func Write(w io.Writer, h *history.History, beliefs []history.Belief) error {
	t := &writing{h: h, beliefs: beliefs, number: map[string]int{}, open: map[string]history.Event{}}
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

// line is an operation before it has its place.
type line struct {
	t     int64
	n     int64 // event, by which equals are ordered
	order int   // and of one event's
	e     history.Event
	f     string
	key   string
	cause string // a keyword for :error
	text  string
}

// writing turns facts into operations.
type writing struct {
	h       *history.History
	beliefs []history.Belief
	lines   []line
	keys    map[string]bool
	number  map[string]int // a client's process
	next    int            // how many clients there are, at least one
	open    map[string]history.Event

	out     []line
	waiting map[string][]line // of processes that are busy
}

func (t *writing) gather() {
	t.keys = map[string]bool{}
	lapsed := map[string]bool{} // sessions whose belief ended without a release
	opened := map[int64]bool{}  // by these events
	extends := map[int64]bool{}
	for _, e := range t.h.Events {
		if e.Op == history.OpExtend {
			extends[e.N] = true
		}
	}
	for _, s := range t.beliefs {
		t.keys[s.Key] = true
		t.span(s, extends[s.Opens])
		lapsed[s.Session] = s.End != history.Released && s.End != history.Still
		opened[s.Opens] = true
	}
	for i, e := range t.h.Events {
		switch {
		case e.Process == history.Nemesis:
			t.fault(e)
		case e.Op == history.OpClient && e.Type == history.Begin:
			t.client(e.Process)
		case e.Session == "" || e.Op != history.OpAcquire && e.Op != history.OpRelease:
		case e.Op == history.OpRelease && lapsed[e.Session]:
		default:
			t.keys[e.Key] = true
			t.add(&t.h.Events[i], opened[e.N])
		}
	}
}

// client gives a client its first number.
func (t *writing) client(name string) {
	if _, ok := t.number[name]; !ok {
		t.number[name] = t.next
		t.next++
	}
}

// add takes an operation on the lock. An acquire that returned after its own deadline
// is given back at once.
func (t *writing) add(e *history.Event, believed bool) {
	t.client(e.Process)
	t.lines = append(t.lines, line{t: e.T, n: e.N, e: *e, f: e.Op})
	if e.Op == history.OpAcquire && e.Type == history.OK && !believed {
		t.release(*e, e.T, e.N, history.Expired)
	}
}

// span writes what the model can't know of a belief: an end that is no release, and a
// begin that is no acquire.
func (t *writing) span(s history.Belief, again bool) {
	e := history.Event{N: s.Opens, Process: s.Client, Key: s.Key, Session: s.Session}
	if again {
		for k, kind := range []history.Type{history.Invoke, history.OK} {
			x := e
			x.Type = kind
			t.lines = append(t.lines, line{t: s.From, n: s.Opens, order: k, e: x, f: history.OpAcquire})
		}
	}
	if s.End != history.Released && s.End != history.Still {
		t.release(e, s.To, 0, s.End)
	}
}

// release gives a lock back that nobody believes in any more.
func (t *writing) release(e history.Event, at, n int64, why history.Ending) {
	e.Type = history.Invoke
	t.lines = append(t.lines, line{t: at, n: n, order: 2, e: e, f: history.OpRelease})
	e.Type = history.OK
	t.lines = append(t.lines, line{t: at, n: n, order: 3, e: e, f: history.OpRelease, cause: string(why)})
}

// fault writes what the nemesis did.
func (t *writing) fault(e history.Event) {
	word := map[history.Type]string{history.Begin: "start-", history.End: "stop-"}[e.Type]
	if word == "" {
		return
	}
	e.Type = history.Info
	for k := range 2 {
		t.lines = append(t.lines, line{t: e.T, n: e.N, order: k, e: e, f: word + e.Op})
		e.Value = "read back"
	}
}

// operations are the lines in order, with their text. What never returned is :info.
func (t *writing) operations() []line {
	slices.SortStableFunc(t.lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.n, b.n), cmp.Compare(a.order, b.order))
	})
	t.waiting = map[string][]line{}
	for _, l := range t.lines {
		t.do(l)
	}
	for len(t.open) > 0 {
		e := t.open[slices.Min(slices.Collect(maps.Keys(t.open)))]
		e.Type, e.Cause = history.Info, "it never returned"
		t.do(line{e: e, f: e.Op})
	}
	return t.out
}

// do puts a line where it belongs. A process that is in the middle of an operation does
// nothing else until that has returned.
func (t *writing) do(l line) {
	name := l.e.Process
	open, busy := t.open[name]
	call := l.e.Type == history.Invoke
	switch {
	case name == history.Nemesis:
	case busy && (call || open.Session != l.e.Session || open.Op != l.f):
		t.waiting[name] = append(t.waiting[name], l)
		return
	case call:
		l.e.Op = l.f
		t.open[name] = l.e
	case !busy:
		return // a return without a call: no recorder writes it
	default:
		delete(t.open, name)
	}
	if n := len(t.out); n > 0 {
		l.t = max(l.t, t.out[n-1].t) // of one that waited
	}
	t.out = append(t.out, t.written(l))
	if call {
		return
	}
	held := t.waiting[name]
	delete(t.waiting, name)
	for _, l := range held {
		t.do(l)
	}
}

// written gives an operation its text.
func (t *writing) written(l line) line {
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
	case e.Cause != "" && kind != history.Invoke:
		b.WriteString(", :error " + quotedText(e.Cause))
	}
	fmt.Fprintf(&b, ", :event %d", e.N)
	if kind == history.Info {
		t.number[e.Process] += max(t.next, 1)
	}
	l.text = b.String()
	return l
}

// keywordOf is a keyword of a fault's name, of which none but ours is expected.
func keywordOf(s string) string {
	ok := strings.IndexFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' }) < 0
	if !ok {
		return ":fault"
	}
	return ":" + s
}

// mostString bounds one text, in bytes.
const mostString = 64 << 10

// quotedText is a string of EDN. It is one line, and no more than Clojure's reader takes:
// \uNNNN stands for what is no letter, sign or space, in UTF-16 where that needs two.
func quotedText(s string) string {
	if len(s) > mostString {
		s = s[:mostString] + "…"
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
