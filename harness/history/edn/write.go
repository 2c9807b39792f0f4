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
// without gaps), :type, :process, :f, :value and :time (in nanoseconds). Two additional keys are
// :key, the lock's name, and :event, the number of our event.
//
//   - Only acquires and releases are written, because the model that checks them (Knossos'
//     mutex) has no other operations. :value is nil, or [lock nil] if there are several
//     locks, as in jepsen.independent.
//   - That model has no leases. If a window (facts.Window) ends without a release (at the
//     deadline, at the client's death, or because the lock is known to be lost), its end is
//     written as a release whose :error says how it ended, such as [:expired]. The session's
//     later release is omitted. A window opened by an extension is written as a new acquire.
//     An acquire that returned after its deadline opens no window, so it is :fail with
//     :error [:expired]. If there are several releases, only the first is written.
//   - A release that failed or whose outcome is unknown is :info, because the client no
//     longer considers itself the holder, whatever the nodes say.
//   - After an :info, a client continues under another number, like Jepsen's processes:
//     client i of n is i, then i+n, and so on.
//   - The begin and end of a fault are written as two :info operations each by :process
//     :nemesis, since Jepsen's nemesis calls and returns: for example, :start-pause with
//     [target], then :start-pause with [target read-back].
//
// Characters that EDN can't represent are escaped, and invalid UTF-8 is replaced.
func Write(w io.Writer, h *history.History) error {
	t := &writer{Facts: facts.Read(h), keys: map[string]bool{}, processNumbers: map[string]int{}, pending: map[string]line{}}
	t.addAll()
	out := bufio.NewWriterSize(w, 1<<16)
	for i, o := range t.operations() {
		out.WriteString("{:index " + strconv.Itoa(i) + o.text + "}\n")
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write history.edn: %w", err)
	}
	return nil
}

// line is a line of the file, for a call or a return.
type line struct {
	t         int64
	n         int64 // event number, which determines the order of lines with equal t
	order     int   // order of lines for the same event
	operation int   // number of the line's operation
	call      bool
	e         history.Event
	f         string
	cause     string // keyword in :error, without its colon
	text      string
}

type writer struct {
	*facts.Facts
	lines          []line
	numOps         int // operations so far
	keys           map[string]bool
	processNumbers map[string]int // each client's current process number
	numClients     int            // clients so far
	pending        map[string]line

	out     []line
	delayed map[string][]line // lines to be written when their process's pending operation has returned
}

func (t *writer) addAll() {
	for _, c := range t.Params.Clients {
		if t.StartedClients[c] {
			t.assignNumber(c)
		}
	}
	for s := range t.Sessions() {
		t.addSession(s)
	}
	for _, f := range t.Faults {
		t.addFault("start-", f.Begin)
		t.addFault("stop-", f.End)
	}
}

// assignNumber gives a client its first process number unless it has one.
func (t *writer) assignNumber(name string) {
	if _, ok := t.processNumbers[name]; !ok {
		t.processNumbers[name] = t.numClients
		t.numClients++
	}
}

// addSession adds a session's acquire, the start and end of its windows, and its release, unless
// the end of the last window was already written as a release.
func (t *writer) addSession(s *facts.Session) {
	t.assignNumber(s.Client())
	t.keys[s.Key()] = true
	opened, released := false, false
	for w := range t.Windows(s) {
		_, ending := t.WindowEnd(w)
		t.addWindowEnds(w, ending)
		opened = opened || w.OpenEvent == s.Acquire.Return
		released = ending == facts.Released || ending == facts.StillBelieved
	}
	acquire := s.Acquire
	if s.Granted() && !opened {
		failedReturn := *acquire.Return
		failedReturn.Type, failedReturn.Cause = history.Fail, string(facts.Expired)
		acquire.Return = &failedReturn
	}
	t.addOperation(history.OpAcquire, acquire)
	for x := range s.Calls(history.OpRelease) {
		if released || !s.Granted() {
			t.addOperation(history.OpRelease, x)
		}
		return
	}
}

// addOperation adds an operation that the client called.
func (t *writer) addOperation(f string, o facts.Operation) {
	t.numOps++
	t.lines = append(t.lines, line{t: o.Call.T, n: o.Call.N, operation: t.numOps, call: true, e: *o.Call, f: f})
	if o.Return != nil {
		t.lines = append(t.lines, line{t: o.Return.T, n: o.Return.N, operation: t.numOps, e: *o.Return, f: f})
	}
}

// addWindowEnds adds an acquire for a window opened by an extension, and a release for a window not
// ended by a release.
func (t *writer) addWindowEnds(w facts.Window, ending facts.Ending) {
	e := history.Event{N: w.OpenEvent.N, Process: w.Session.Client(), Key: w.Session.Key(), Session: w.Session.Name()}
	if w.OpenEvent.Op == history.OpExtend {
		t.addPair(line{t: w.From, n: w.OpenEvent.N, e: e, f: history.OpAcquire})
	}
	if ending != facts.Released && ending != facts.StillBelieved {
		t.addRelease(e, w.To, 0, ending)
	}
}

// addRelease adds a release at the end of a window that was not ended by a release.
func (t *writer) addRelease(e history.Event, at, n int64, ending facts.Ending) {
	t.addPair(line{t: at, n: n, order: 2, e: e, f: history.OpRelease, cause: string(ending)})
}

// addPair adds an operation that the client did not call. It returns immediately.
func (t *writer) addPair(l line) {
	t.numOps++
	l.operation = t.numOps
	call := l
	call.call, call.cause, call.e.Type = true, "", history.Invoke
	l.order, l.e.Type = l.order+1, history.OK
	t.lines = append(t.lines, call, l)
}

func (t *writer) addFault(word string, e *history.Event) {
	if e == nil {
		return
	}
	l := line{t: e.T, n: e.N, e: *e, f: word + e.Op}
	l.e.Type = history.Info
	t.lines = append(t.lines, l)
	l.order, l.e.Value = 1, "read back"
	t.lines = append(t.lines, l)
}

// operations returns all lines in order, with their text. Operations that never returned get an
// :info at the end.
func (t *writer) operations() []line {
	slices.SortStableFunc(t.lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.n, b.n), cmp.Compare(a.order, b.order))
	})
	t.delayed = map[string][]line{}
	for _, l := range t.lines {
		t.emit(l)
	}
	for len(t.pending) > 0 {
		l := t.pending[slices.Min(slices.Collect(maps.Keys(t.pending)))]
		l.call, l.t, l.e.Type, l.e.Cause = false, 0, history.Info, "it never returned"
		t.emit(l)
	}
	return t.out
}

// rank puts calls of release before everything else at the same instant. If one window ends when
// another begins, they don't overlap, and in Jepsen only the order of lines counts.
func (l line) rank() int {
	if l.call && l.f == history.OpRelease {
		return 0
	}
	return 1
}

// emit adds a line to the output. If the process has another pending operation, the line is delayed
// until that operation has returned.
func (t *writer) emit(l line) {
	name := l.e.Process
	pending, busy := t.pending[name]
	switch {
	case name == history.Nemesis:
	case busy && pending.operation != l.operation:
		t.delayed[name] = append(t.delayed[name], l)
		return
	case l.call:
		t.pending[name] = l
	case !busy:
		return // no recorder writes a return without a call
	default:
		delete(t.pending, name)
	}
	if n := len(t.out); n > 0 {
		l.t = max(l.t, t.out[n-1].t) // a delayed line is late
	}
	t.out = append(t.out, t.format(l))
	if l.call {
		return
	}
	delayed := t.delayed[name]
	delete(t.delayed, name)
	for _, l := range delayed {
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
	fmt.Fprintf(&b, ", :type :%s, :process %d, :f :%s, :value %s, :time %d, :key %s", kind, t.processNumbers[e.Process], l.f, value, l.t, quotedText(e.Key))
	switch {
	case l.cause != "":
		b.WriteString(", :error [:" + l.cause + "]")
	case e.Cause != "" && !l.call:
		b.WriteString(", :error " + quotedText(e.Cause))
	}
	fmt.Fprintf(&b, ", :event %d", e.N)
	if kind == history.Info {
		t.processNumbers[e.Process] += max(t.numClients, 1)
	}
	l.text = b.String()
	return l
}

// keywordOf returns the keyword for a fault's operation. It returns :fault for an unknown name that
// can't be a keyword.
func keywordOf(s string) string {
	ok := strings.IndexFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' }) < 0
	if !ok {
		return ":fault"
	}
	return ":" + s
}

// maxString is the maximum length of a string in bytes.
const maxString = 64 << 10

// quotedText returns s as an EDN string on one line, restricted to what Clojure's reader accepts.
// Control characters and line separators are written as \uNNNN.
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
