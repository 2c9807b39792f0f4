// Package facts puts a history in order, once, for all who judge, draw or translate it.
//
// Its nouns are Facts (a history in order), Session (one acquire call and all that was
// done with its handle), Operation (a call and its return), Lock (a key and its
// sessions), Attempt (one round of asking the nodes, as the links saw it), Fault (one
// fault on one target, from its invoke to its end), Window (where a session's
// client surely believed that it held its lock), Turn (a clock that was turned, as
// numbers), Stay (a value of a key on a node, as the node told it) and Write (an entry of
// the resource's log, with the version that it met). One pass over the events finds them
// (facts.go), and fault.go says what no client can have done.
//
// Read takes any history, also one that nobody can have recorded: it pairs what makes
// sense, says in Malformed what does not, and never panics. Whoever needs to know which
// return answers which call, when a fault was over, or until when somebody believed,
// asks here, so that a picture and a verdict can't disagree.
//
// Facts are read at once; what is a function of them, such as attempts and lives, when it
// is first asked for.
//
// Deliberately missing: what any of it means. Causes, harm and words are for those who
// judge and draw.
package facts

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/history"
)

// Facts is a history in order. Events are those of the history with each ValidUntil as it
// came true; pointers to events point into it.
type Facts struct {
	Params    history.Params
	Cut       string
	Malformed string // why nobody can have recorded the history, or ""
	Events    []history.Event
	End       int64 // the instant of the last event of the run's own time

	Grants  int
	Shares  []int            // of each client that tried, its grants
	Locks   []*Lock          // in the order of first use
	Began   map[string]bool  // clients that began
	Gone    map[string]int64 // the instant at which a client ended or was about to be killed
	gone    int64            // the earliest of these
	First   int64            // instants of the clients' first event and their last; -1: there is none
	Last    int64
	Touched bool             // a client called the resource
	Loose   []*history.Event // of clients, that belong to no session or answer no call

	Interleaved bool // a client used a handle after it had begun another session

	Faults []*Fault         // in the order in which they were tried
	Turns  []Turn           // of clocks, in the order of time
	Links  []*history.Event // what the links saw of sets, extensions and releases on nodes
	Others []*history.Event // and of all else
	Lacks  []*history.Event // what the simulation doesn't have
	Log    []*history.Event // the resource's log, in the order of apply
	Stop   *history.Event   // where the run was stopped early; nil: it was not

	sessions []*Session // in the order of their acquires' calls
	named    map[string]*Session
	locks    map[string]*Lock
	wires    map[string]*Wire            // made when first asked for
	lives    *Lives                      // likewise
	departed map[string]*history.Event   // likewise: by client
	lost     map[*Session]*history.Event // the first that its client was told of
	promised map[*Session]int64          // of those: Promised
	told     []*history.Event            // of the lives of keys, by the nodes
}

// Read puts a history in order. It keeps the events, and copies them only where a clock
// was turned or a hold lost.
func Read(h *history.History) *Facts {
	if h == nil {
		h = &history.History{}
	}
	in := read(h, h.Events)
	if in.turned || len(in.lost) > 0 { // which is rare, so nobody looks for it first
		if came := history.CameTrue(h.Events); &came[0] != &h.Events[0] {
			in = read(h, came)
		}
		if len(in.lost) > 0 {
			in.promise(history.Reckoned(h.Events))
		}
	}
	in.finish()
	in.Malformed = in.malformed()
	return in.Facts
}

// read enters the events of a history, each with its ValidUntil as it came true.
func read(h *history.History, events []history.Event) *reading {
	in := &reading{
		Facts: &Facts{
			Params: h.Params, Cut: h.Cut, Events: events, First: -1, Last: -1, gone: Never,
			Began: map[string]bool{}, Gone: map[string]int64{}, locks: map[string]*Lock{},
		},
		clients: map[string]*client{}, pending: map[faultKey]*pendingFaults{}, numbers: make([]bool, len(events)+1), beyond: map[int64]bool{},
	}
	for _, name := range h.Params.Clients {
		in.client(name)
	}
	for i := range events {
		in.event(&events[i])
	}
	return in
}

// Sessions are in the order of their acquires' calls.
func (f *Facts) Sessions() iter.Seq[*Session] { return slices.Values(f.sessions) }

// Named is the session of a name, or nil.
func (f *Facts) Named(name string) *Session {
	if f.named == nil {
		f.named = map[string]*Session{}
		for _, s := range f.sessions {
			f.named[s.Name()] = s
		}
	}
	return f.named[name]
}

// Lock is the lock of a name, or nil.
func (f *Facts) Lock(key string) *Lock { return f.locks[key] }

// ReadUpToStop puts in order what happened before a run was stopped early, for whoever
// tells of it: what was done and answered as it was taken down nobody meant. Of any other
// run it is all.
func ReadUpToStop(h *history.History) *Facts {
	f := Read(h)
	if f.Stop == nil {
		return f
	}
	short := &history.History{Params: h.Params, Cut: h.Cut}
	for i := range h.Events {
		if e := &h.Events[i]; !takenDown(f.Stop, e) {
			short.Events = append(short.Events, *e)
		}
	}
	return Read(short)
}

// takenDown reports whether an event belongs to the teardown of a run after its stop. A command
// counts by when it was sent; what is read back then is of the run.
func takenDown(stop, e *history.Event) bool {
	switch {
	case e.Op == history.OpLog:
		return false
	case onWire(e) && e.Sent != 0:
		return e.Sent > stop.T
	}
	return e.T > stop.T || e.T == stop.T && e.N > stop.N
}

// leave notes when a client was gone.
func (f *Facts) leave(client string, at int64) {
	if t, ok := f.Gone[client]; !ok || at < t {
		f.Gone[client] = at
		f.gone = min(f.gone, at)
	}
}

// inOrder sorts by number: of what is read back, that is the order in which it happened,
// or in which it was asked for. It needn't be that of T.
func inOrder(events []*history.Event) {
	slices.SortStableFunc(events, func(a, b *history.Event) int { return cmp.Compare(a.N, b.N) })
}

// reading is the facts while their history is read, once from begin to end. It
// looks out for what no clients can have done that do one thing after the other.
type reading struct {
	*Facts
	clients map[string]*client
	all     []*client
	pending map[faultKey]*pendingFaults

	backwards string         // where time runs backwards, or ""
	numbers   []bool         // which numbers were seen, up to that of the events
	beyond    map[int64]bool // and which beyond
	misuse    string         // what no client can have done, or ""
	wired     bool           // there are stamps of the wire
	turned    bool           // a clock was turned
}

type client struct {
	session *Session
	lock    *Lock          // the session's
	open    *history.Event // the call whose return is awaited
	of      *Session       // whose action it is, and its place there
	place   int
	called  *history.Event // the call that has not returned
	last    *history.Event
	serial  int // the highest number in a name of its sessions
	grants  int
	dead    *history.Event // it has ended, or was killed
}

// client begins a client.
func (in *reading) client(name string) *client {
	c := &client{}
	in.clients[name] = c
	in.all = append(in.all, c)
	return c
}

func (in *reading) event(e *history.Event) {
	if in.Stop == nil {
		in.End = e.T
	}
	in.wired = in.wired || e.Applied != 0 || e.Answered != 0
	in.turned = in.turned || e.Op == history.OpClock
	c := in.clients[e.Process]
	if in.misuse == "" {
		in.misuse = in.strange(e, c != nil || e.Op == history.OpAcquire)
	}
	if c == nil && e.Op == history.OpAcquire {
		c = in.stranger(e)
	}
	switch {
	case c != nil:
		in.look(c, e)
		in.book(c, e)
	case e.Process == history.Nemesis:
		in.nemesis(e)
	case e.Op == history.OpLife && e.Life != nil:
		in.told = append(in.told, e)
	case e.Op == history.OpLife: // it tells nothing
	case e.Op == history.OpLack:
		in.Lacks = append(in.Lacks, e)
	case e.Op == history.OpLog:
		in.Log = append(in.Log, e)
	case e.Process == history.Harness:
		if e.Op == history.OpStop && in.Stop == nil {
			in.Stop = e
		}
	case e.Node == "" && e.Op == history.OpClient: // of nobody whom the run knows
	case e.Node == "":
		in.Loose = append(in.Loose, e)
	case e.Op == history.OpSet || e.Op == history.OpExtend || e.Op == history.OpRelease:
		in.Links = append(in.Links, e)
	default:
		in.Others = append(in.Others, e)
	}
}

// stranger begins a client that is not among the run's, by its acquire.
func (in *reading) stranger(e *history.Event) *client {
	in.misused("%s acquires (event %d), but is not among the clients", e.Process, e.N)
	if e.Node != "" || e.Process == history.Nemesis || e.Process == history.Harness {
		return nil
	}
	return in.client(e.Process)
}

// nemesis books a turn of a clock, or an event of a fault.
func (in *reading) nemesis(e *history.Event) {
	in.turn(e)
	in.fault(e)
	if c := in.clients[e.Node]; c != nil && e.Op == Kill && e.Type == history.Begin {
		c.die(e)
	}
}

func (in *reading) book(c *client, e *history.Event) {
	switch {
	case e.Op == history.OpClient:
		if e.Type == history.Begin {
			in.Began[e.Process] = true
		}
		if e.Type == history.End {
			in.leave(e.Process, e.T)
			c.die(e)
		}
	case e.Op == history.OpLost:
		if s := in.of(c, e); s != nil && in.lost[s] == nil {
			if in.lost == nil {
				in.lost = map[*Session]*history.Event{}
			}
			in.lost[s] = e
		}
	case e.Type == history.Invoke && e.Op == history.OpAcquire:
		in.begin(c, e)
	case e.Type == history.Invoke:
		c.open = nil
		if s := in.act(c, e, nil); s != nil {
			c.open, c.of, c.place = e, s, len(s.actions)-1
			in.Touched = in.Touched || e.Op == history.OpRead || e.Op == history.OpWrite
		}
	case c.open != nil && e.Op == c.open.Op:
		in.returned(c, e)
	case e.Op == history.OpCheck:
		in.act(c, e, e)
	default:
		in.Loose = append(in.Loose, e)
	}
}

// act enters what a client does with the handle of a session, and returns that; nil: there is none.
func (in *reading) act(c *client, call, ret *history.Event) *Session {
	s := in.of(c, call)
	if s == nil || !isAction(call.Op) && call.Op != history.OpCheck {
		in.Loose = append(in.Loose, call)
		return nil
	}
	in.Interleaved = in.Interleaved || s != c.session
	s.actions = append(s.actions, Operation{Call: call, Return: ret})
	return s
}

// returned enters the return that a client awaits.
func (in *reading) returned(c *client, e *history.Event) {
	c.open = nil
	if e.Op != history.OpAcquire {
		c.of.actions[c.place].Return = e
		return
	}
	c.session.returned(e)
	c.lock.sessions = append(c.lock.sessions, c.session)
	if e.Type == history.OK {
		in.Grants++
		c.grants++
	}
}

// acquiring reports whether the client awaits the lock.
func (c *client) acquiring() bool {
	return c.open != nil && c.open.Op == history.OpAcquire
}

func (c *client) die(by *history.Event) {
	if c.dead == nil {
		c.dead = by
	}
}

func (in *reading) begin(c *client, e *history.Event) {
	if c.acquiring() { // it never returned
		c.lock.sessions = append(c.lock.sessions, c.session)
	}
	c.session = &Session{Acquire: Operation{Call: e}, Called: e.T, Ended: Never, Until: Nothing}
	c.open = e
	in.sessions = append(in.sessions, c.session)
	c.serial = max(c.serial, serialOf(e))
	if in.named != nil {
		in.named[e.Session] = c.session
	}
	if c.lock == nil || c.lock.Name != e.Key {
		c.lock = in.lockNamed(e.Key)
	}
}

// lockNamed returns the lock of that name, which is new if nobody has asked for it before.
func (in *reading) lockNamed(key string) *Lock {
	l := in.locks[key]
	if l == nil {
		l = &Lock{Name: key}
		in.locks[key] = l
		in.Locks = append(in.Locks, l)
	}
	return l
}

// of is the client's session that an event belongs to: the one it names, or its last.
func (in *reading) of(c *client, e *history.Event) *Session {
	if e.Session == "" || c.session != nil && c.session.Name() == e.Session {
		return c.session
	}
	if s := in.Named(e.Session); s != nil && s.Client() == e.Process {
		return s
	}
	return c.session
}

// serialOf is the number in a session's name of the form "c1/3", or 0. A client that counts upwards
// can't use a name twice, so such names need no index. Building one would take as long as the rest
// of the reading.
func serialOf(e *history.Event) int {
	digits, ok := strings.CutPrefix(e.Session, e.Process+"/")
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(digits)
	return n
}

// finish books what only the end of the history tells.
func (in *reading) finish() {
	for _, c := range in.all {
		if c.acquiring() {
			c.lock.sessions = append(c.lock.sessions, c.session)
		}
		if c.session != nil {
			in.Shares = append(in.Shares, c.grants)
		}
	}
	inOrder(in.Log)
	for _, f := range in.Faults {
		if f.Kind == Kill && in.clients[f.Target] != nil {
			in.leave(f.Target, f.First().T)
		}
	}
	slices.SortStableFunc(in.Turns, func(a, b Turn) int { return cmp.Compare(a.T, b.T) })
}

// Stamps of a record lie within 73 years of its begin, and those of clocks within 146 of
// 1970, so that no sum of two that a judge forms overflows.
const (
	maxStamp = 1 << 61
	maxClock = 1 << 62
)

// strange says what in an event no record has, or "": a type or an operation that is none
// or is not the process's, a stamp that no run comes to, or a number that another has.
// What befalls processes is open: kinds of fault are the nemesis's to name.
func (in *reading) strange(e *history.Event, ofClient bool) string {
	switch {
	case !known(e, ofClient):
		return fmt.Sprintf("event %d of %s is %q of %q, which no record has", e.N, e.Process, e.Type, e.Op)
	case beyond(e.T) || beyond(e.ValidUntil) || beyond(e.Sent) || beyond(e.Applied) || beyond(e.Answered) || beyond(e.TTL), e.Local > maxClock, e.Local < -maxClock:
		return fmt.Sprintf("event %d of %s has a stamp that no run comes to", e.N, e.Process)
	case e.N > 0 && in.taken(e.N): // numbers that a record makes up are 0
		return fmt.Sprintf("two events have the number %d", e.N)
	}
	return ""
}

// taken enters the number of an event, and reports whether it is another's. Most records are
// numbered without gaps.
func (in *reading) taken(n int64) bool {
	if n >= int64(len(in.numbers)) {
		taken := in.beyond[n]
		in.beyond[n] = true
		return taken
	}
	taken := in.numbers[n]
	in.numbers[n] = true
	return taken
}

// known reports whether there are such events, of a client or of anybody else.
func known(e *history.Event, ofClient bool) bool {
	switch e.Type {
	case history.Invoke, history.OK, history.Fail, history.Info, history.Begin, history.End:
	default:
		return false
	}
	answer := e.Type == history.OK || e.Type == history.Fail || e.Type == history.Info
	switch e.Op {
	case history.OpAcquire, history.OpExtend, history.OpRead, history.OpWrite, history.OpRelease:
		return answer || ofClient && e.Type == history.Invoke
	case history.OpCheck:
		return answer
	case history.OpLost:
		return ofClient && e.Type == history.Info
	case history.OpClient, history.OpRun:
		return e.Type == history.Begin || e.Type == history.End || e.Type == history.Info
	case history.OpSet, history.OpFence, history.OpLog, history.OpStop, history.OpClock, history.OpLack, history.OpLife:
		return !ofClient && answer
	}
	return e.Process == history.Nemesis
}

func beyond(stamp int64) bool { return stamp > maxStamp || stamp < -maxStamp }

// extreme says which figure of a run no judge can reckon with, or "".
func extreme(p *history.Params) string {
	for _, f := range []struct {
		name string
		of   int64
	}{
		{"TTL", int64(p.TTL)}, {"error of the stamps", int64(p.StampError)}, {"node time-out", int64(p.NodeTimeout)}, {"retry delay", int64(p.RetryMax)},
		{"slack", int64(p.Slack)}, {"longest hold", int64(p.MaxHold)},
	} {
		if f.of < 0 || f.of > maxStamp {
			return fmt.Sprintf("the run's %s is %d ns, which no run has", f.name, f.of)
		}
	}
	if !(p.Rate >= 0 && p.Rate <= 1) {
		return fmt.Sprintf("the run's bound on the rate of clocks is %g, which no run has", p.Rate)
	}
	return ""
}

// Seconds writes an instant or a span as people read it: to the millisecond,
// and finer only where nothing else would be left.
func Seconds(ns int64) string {
	for _, digits := range []int{3, 6} {
		s := strconv.FormatFloat(history.Seconds(ns), 'f', digits, 64)
		if s = strings.TrimRight(strings.TrimRight(s, "0"), "."); ns == 0 || s != "0" && s != "-0" {
			return s + " s"
		}
	}
	return strconv.FormatInt(ns, 10) + " ns"
}

// FromTo writes a span by its ends and its length, and one whose ends look the same by
// when it was and its length in microseconds.
func FromTo(from, to int64) string {
	a, b := Seconds(from), Seconds(to)
	if a != b {
		return "from " + a + " to " + b + " (" + Seconds(to-from) + ")"
	}
	return "at " + a + " for " + strconv.FormatFloat(float64(to-from)/1e3, 'g', 3, 64) + " µs"
}
