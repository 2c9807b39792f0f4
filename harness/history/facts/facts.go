// Package facts indexes a history once, for all packages that check, draw or translate it.
//
// Its main types are Facts (an indexed history), Session (one acquire call and everything done with
// its handle), Operation (a call and its return), Lock (a key and its sessions), Attempt (one round
// of requests to the nodes, as recorded by the links), Fault (one fault on one target, from its
// invoke to its end), Window (a span in which a session's client certainly believed that it held
// its lock), ClockChange (a change of a clock, in numbers), KeyInterval (an interval during which a
// key on a node had one value, as reported by the node) and Write (an entry of the resource's log,
// with the version that it found). One pass over the events finds them (facts.go). fault.go detects
// histories that no client can have produced.
//
// Read accepts any history, even an impossible one: it pairs the events that make sense, describes
// the first problem in Malformed, and never panics. Questions such as which return answers which
// call, when a fault was over and until when a client believed are answered only here, so that
// pictures and verdicts agree.
//
// Facts are read at once. Anything derived from them, such as attempts and lives, is computed when
// it is first needed.
//
// Deliberately missing: what any of it means. Causes, violations and explanations belong to the
// packages that check and draw.
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

// Facts is an indexed history. Events are those of the history, with each ValidUntil replaced by
// the actual end of belief. Pointers to events point into it.
type Facts struct {
	Params    history.Params
	Cut       string
	Malformed string // why nobody can have recorded this history, or ""
	Events    []history.Event
	End       int64 // the instant of the last event before the run's teardown

	Grants         int
	GrantsByClient []int            // number of grants of each client that tried
	Locks          []*Lock          // in order of first use
	Began          map[string]bool  // clients that began
	GoneAt         map[string]int64 // the instant at which a client ended or was about to be killed
	firstGone      int64            // the earliest of these
	First          int64            // instants of the clients' first and last event; -1: there is none
	Last           int64
	UsedResource   bool             // a client called the resource
	Unmatched      []*history.Event // events of clients that belong to no session or answer no call

	Interleaved bool // a client used an old handle after it had begun another session

	Faults        []*Fault         // in the order in which they were injected
	ClockChanges  []ClockChange    // in order of time
	LockCommands  []*history.Event // sets, extensions and releases, as recorded by the links
	OtherCommands []*history.Event // all other commands on the links
	Unsupported   []*history.Event // commands that the simulation doesn't support
	Log           []*history.Event // the resource's log, in the order of application
	Stop          *history.Event   // where the run was stopped early; may be nil

	sessions   []*Session // in the order of their acquires' calls
	byName     map[string]*Session
	locks      map[string]*Lock
	attempts   map[string]*LockAttempts    // computed when first needed
	lives      *Lives                      // computed when first needed
	departed   map[string]*history.Event   // by client; computed when first needed
	losses     map[*Session]*history.Event // the first loss of which the client was notified
	promised   map[*Session]int64          // for the sessions in losses, see Promised
	lifeEvents []*history.Event            // lives of keys, as reported by the nodes
}

// Read indexes a history. It keeps the events, and copies them only if a clock was changed or a
// hold was lost.
func Read(h *history.History) *Facts {
	if h == nil {
		h = &history.History{}
	}
	in := read(h, h.Events)
	if in.clockChanged || len(in.losses) > 0 { // rare, so don't search for it beforehand
		if came := history.WithActualDeadlines(h.Events); &came[0] != &h.Events[0] {
			in = read(h, came)
		}
		if len(in.losses) > 0 {
			in.notePromises(history.WithClockDeadlines(h.Events))
		}
	}
	in.finish()
	in.Malformed = in.malformed()
	return in.Facts
}

// read enters the events of a history, each with its actual ValidUntil.
func read(h *history.History, events []history.Event) *reader {
	in := &reader{
		Facts: &Facts{
			Params: h.Params, Cut: h.Cut, Events: events, First: -1, Last: -1, firstGone: Never,
			Began: map[string]bool{}, GoneAt: map[string]int64{}, locks: map[string]*Lock{},
		},
		clients: map[string]*client{}, pending: map[faultKey]*pendingFaults{}, numbers: make([]bool, len(events)+1), extraNumbers: map[int64]bool{},
	}
	for _, name := range h.Params.Clients {
		in.client(name)
	}
	for i := range events {
		in.add(&events[i])
	}
	return in
}

// Sessions iterates over the sessions in the order of their acquire calls.
func (f *Facts) Sessions() iter.Seq[*Session] { return slices.Values(f.sessions) }

// SessionByName returns the session with that name, or nil.
func (f *Facts) SessionByName(name string) *Session {
	if f.byName == nil {
		f.byName = map[string]*Session{}
		for _, s := range f.sessions {
			f.byName[s.Name()] = s
		}
	}
	return f.byName[name]
}

// Lock returns the lock with that name, or nil.
func (f *Facts) Lock(key string) *Lock { return f.locks[key] }

// ReadUpToStop indexes the part of a history before the run was stopped early, for descriptions of
// the run, because nobody intended what happened during the teardown. A run that was not stopped is
// indexed as a whole.
func ReadUpToStop(h *history.History) *Facts {
	f := Read(h)
	if f.Stop == nil {
		return f
	}
	short := &history.History{Params: h.Params, Cut: h.Cut}
	for i := range h.Events {
		if e := &h.Events[i]; !inTeardown(f.Stop, e) {
			short.Events = append(short.Events, *e)
		}
	}
	return Read(short)
}

// inTeardown reports whether an event belongs to the teardown after a stop. A command counts by
// when it was sent. The resource's log, which is read back during teardown, belongs to the run.
func inTeardown(stop, e *history.Event) bool {
	switch {
	case e.Op == history.OpLog:
		return false
	case isLinkCommand(e) && e.Sent != 0:
		return e.Sent > stop.T
	}
	return e.T > stop.T || e.T == stop.T && e.N > stop.N
}

// noteGone notes when a client was gone.
func (f *Facts) noteGone(client string, at int64) {
	if t, ok := f.GoneAt[client]; !ok || at < t {
		f.GoneAt[client] = at
		f.firstGone = min(f.firstGone, at)
	}
}

// sortByNumber sorts events by number. For events that are read back after the run, that is the
// order in which they happened, or were asked for, which may differ from that of T.
func sortByNumber(events []*history.Event) {
	slices.SortStableFunc(events, func(a, b *history.Event) int { return cmp.Compare(a.N, b.N) })
}

// reader builds facts in one pass over a history. It also detects what clients that do one thing at
// a time can't have done.
type reader struct {
	*Facts
	clients map[string]*client
	all     []*client
	pending map[faultKey]*pendingFaults

	backwards     string         // describes where time runs backwards, or ""
	numbers       []bool         // event numbers seen, up to the number of events
	extraNumbers  map[int64]bool // larger event numbers seen
	misuse        string         // describes what no client can have done, or ""
	hasLinkStamps bool           // there are stamps of links
	clockChanged  bool           // a clock was changed
}

type client struct {
	session       *Session
	lock          *Lock          // the session's lock
	open          *history.Event // the call that is waiting for its return
	actionSession *Session       // the session of that call and its index there
	actionIndex   int
	called        *history.Event // the call that has not returned
	last          *history.Event
	serial        int // the highest number in the names of its sessions
	grants        int
	death         *history.Event // the event by which it ended or was killed
}

// client adds a client.
func (in *reader) client(name string) *client {
	c := &client{}
	in.clients[name] = c
	in.all = append(in.all, c)
	return c
}

func (in *reader) add(e *history.Event) {
	if in.Stop == nil {
		in.End = e.T
	}
	in.hasLinkStamps = in.hasLinkStamps || e.Applied != 0 || e.Answered != 0
	in.clockChanged = in.clockChanged || e.Op == history.OpClock
	c := in.clients[e.Process]
	if in.misuse == "" {
		in.misuse = in.checkEvent(e, c != nil || e.Op == history.OpAcquire)
	}
	if c == nil && e.Op == history.OpAcquire {
		c = in.unlistedClient(e)
	}
	switch {
	case c != nil:
		in.checkClient(c, e)
		in.enter(c, e)
	case e.Process == history.Nemesis:
		in.nemesis(e)
	case e.Op == history.OpLife && e.Life != nil:
		in.lifeEvents = append(in.lifeEvents, e)
	case e.Op == history.OpLife: // without a life there is nothing to add
	case e.Op == history.OpUnsupported:
		in.Unsupported = append(in.Unsupported, e)
	case e.Op == history.OpLog:
		in.Log = append(in.Log, e)
	case e.Process == history.Harness:
		if e.Op == history.OpStop && in.Stop == nil {
			in.Stop = e
		}
	case e.Node == "" && e.Op == history.OpClient: // a client that the run doesn't know
	case e.Node == "":
		in.Unmatched = append(in.Unmatched, e)
	case e.Op == history.OpSet || e.Op == history.OpExtend || e.Op == history.OpRelease:
		in.LockCommands = append(in.LockCommands, e)
	default:
		in.OtherCommands = append(in.OtherCommands, e)
	}
}

// unlistedClient adds a client that is not in the run's list, upon its acquire.
func (in *reader) unlistedClient(e *history.Event) *client {
	in.recordMisuse("%s acquires (event %d), but is not among the clients", e.Process, e.N)
	if e.Node != "" || e.Process == history.Nemesis || e.Process == history.Harness {
		return nil
	}
	return in.client(e.Process)
}

// nemesis enters a change of a clock, or an event of a fault.
func (in *reader) nemesis(e *history.Event) {
	in.clockChange(e)
	in.fault(e)
	if c := in.clients[e.Node]; c != nil && e.Op == Kill && e.Type == history.Begin {
		c.markDead(e)
	}
}

func (in *reader) enter(c *client, e *history.Event) {
	switch {
	case e.Op == history.OpClient:
		if e.Type == history.Begin {
			in.Began[e.Process] = true
		}
		if e.Type == history.End {
			in.noteGone(e.Process, e.T)
			c.markDead(e)
		}
	case e.Op == history.OpLost:
		if s := in.sessionOf(c, e); s != nil && in.losses[s] == nil {
			if in.losses == nil {
				in.losses = map[*Session]*history.Event{}
			}
			in.losses[s] = e
		}
	case e.Type == history.Invoke && e.Op == history.OpAcquire:
		in.beginSession(c, e)
	case e.Type == history.Invoke:
		c.open = nil
		if s := in.enterAction(c, e, nil); s != nil {
			c.open, c.actionSession, c.actionIndex = e, s, len(s.actions)-1
			in.UsedResource = in.UsedResource || e.Op == history.OpRead || e.Op == history.OpWrite
		}
	case c.open != nil && e.Op == c.open.Op:
		in.returned(c, e)
	case e.Op == history.OpCheck:
		in.enterAction(c, e, e)
	default:
		in.Unmatched = append(in.Unmatched, e)
	}
}

// enterAction enters an action on a session's handle and returns the session, or nil if there is
// none.
func (in *reader) enterAction(c *client, call, ret *history.Event) *Session {
	s := in.sessionOf(c, call)
	if s == nil || !isAction(call.Op) && call.Op != history.OpCheck {
		in.Unmatched = append(in.Unmatched, call)
		return nil
	}
	in.Interleaved = in.Interleaved || s != c.session
	s.actions = append(s.actions, Operation{Call: call, Return: ret})
	return s
}

// returned enters the return that a client waits for.
func (in *reader) returned(c *client, e *history.Event) {
	c.open = nil
	if e.Op != history.OpAcquire {
		c.actionSession.actions[c.actionIndex].Return = e
		return
	}
	c.session.returned(e)
	c.lock.sessions = append(c.lock.sessions, c.session)
	if e.Type == history.OK {
		in.Grants++
		c.grants++
	}
}

// acquiring reports whether the client waits for an acquire to return.
func (c *client) acquiring() bool {
	return c.open != nil && c.open.Op == history.OpAcquire
}

func (c *client) markDead(by *history.Event) {
	if c.death == nil {
		c.death = by
	}
}

func (in *reader) beginSession(c *client, e *history.Event) {
	if c.acquiring() { // it never returned
		c.lock.sessions = append(c.lock.sessions, c.session)
	}
	c.session = &Session{Acquire: Operation{Call: e}, Called: e.T, Ended: Never, Until: NotGranted}
	c.open = e
	in.sessions = append(in.sessions, c.session)
	c.serial = max(c.serial, serialOf(e))
	if in.byName != nil {
		in.byName[e.Session] = c.session
	}
	if c.lock == nil || c.lock.Name != e.Key {
		c.lock = in.lockNamed(e.Key)
	}
}

// lockNamed returns the lock with that name, adding it if necessary.
func (in *reader) lockNamed(key string) *Lock {
	l := in.locks[key]
	if l == nil {
		l = &Lock{Name: key}
		in.locks[key] = l
		in.Locks = append(in.Locks, l)
	}
	return l
}

// sessionOf returns the client's session that an event belongs to: the one it names, or the latest.
func (in *reader) sessionOf(c *client, e *history.Event) *Session {
	if e.Session == "" || c.session != nil && c.session.Name() == e.Session {
		return c.session
	}
	if s := in.SessionByName(e.Session); s != nil && s.Client() == e.Process {
		return s
	}
	return c.session
}

// serialOf returns the number in a session name of the form "c1/3", or 0. A client that counts
// upwards can't use a name twice, so such names need no index. Building one would take as long as
// the rest of the reading.
func serialOf(e *history.Event) int {
	digits, ok := strings.CutPrefix(e.Session, e.Process+"/")
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(digits)
	return n
}

// finish enters what is known only at the end of the history.
func (in *reader) finish() {
	for _, c := range in.all {
		if c.acquiring() {
			c.lock.sessions = append(c.lock.sessions, c.session)
		}
		if c.session != nil {
			in.GrantsByClient = append(in.GrantsByClient, c.grants)
		}
	}
	sortByNumber(in.Log)
	for _, f := range in.Faults {
		if f.Kind == Kill && in.clients[f.Target] != nil {
			in.noteGone(f.Target, f.First().T)
		}
	}
	slices.SortStableFunc(in.ClockChanges, func(a, b ClockChange) int { return cmp.Compare(a.T, b.T) })
}

// Stamps of a record lie within 73 years of its beginning, and clock readings within 146 years of
// 1970, so that no sum of two of them overflows.
const (
	maxStamp = 1 << 61
	maxClock = 1 << 62
)

// checkEvent describes why no recorder can have written an event, or returns "": a type or
// operation that does not exist or does not fit the process, a stamp out of range, or a duplicate
// number. Kinds of fault are not checked, because the nemesis may name them freely.
func (in *reader) checkEvent(e *history.Event, ofClient bool) string {
	switch {
	case !isValidEvent(e, ofClient):
		return fmt.Sprintf("event %d of %s is %q of %q, which no recorder writes", e.N, e.Process, e.Type, e.Op)
	case outOfRange(e.T) || outOfRange(e.ValidUntil) || outOfRange(e.Sent) || outOfRange(e.Applied) || outOfRange(e.Answered) || outOfRange(e.TTL), e.Local > maxClock, e.Local < -maxClock:
		return fmt.Sprintf("event %d of %s has a stamp out of range", e.N, e.Process)
	case e.N > 0 && in.numberTaken(e.N): // generated events have the number 0
		return fmt.Sprintf("two events have the number %d", e.N)
	}
	return ""
}

// numberTaken enters the number of an event, and reports whether another event has it. Most records
// are numbered without gaps.
func (in *reader) numberTaken(n int64) bool {
	if n >= int64(len(in.numbers)) {
		taken := in.extraNumbers[n]
		in.extraNumbers[n] = true
		return taken
	}
	taken := in.numbers[n]
	in.numbers[n] = true
	return taken
}

// isValidEvent reports whether such events exist, for a client or for another process.
func isValidEvent(e *history.Event, ofClient bool) bool {
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
	case history.OpSet, history.OpFence, history.OpLog, history.OpStop, history.OpClock, history.OpUnsupported, history.OpLife:
		return !ofClient && answer
	}
	return e.Process == history.Nemesis
}

func outOfRange(stamp int64) bool { return stamp > maxStamp || stamp < -maxStamp }

// paramOutOfRange describes a parameter of the run that is out of range, or returns "".
func paramOutOfRange(p *history.Params) string {
	for _, f := range []struct {
		name string
		of   int64
	}{
		{"TTL", int64(p.TTL)}, {"error of the stamps", int64(p.StampError)}, {"node time-out", int64(p.NodeTimeout)}, {"retry delay", int64(p.RetryMax)},
		{"slack", int64(p.Slack)}, {"longest hold", int64(p.MaxHold)},
	} {
		if f.of < 0 || f.of > maxStamp {
			return fmt.Sprintf("the run's %s is out of range: %d ns", f.name, f.of)
		}
	}
	if !(p.Rate >= 0 && p.Rate <= 1) {
		return fmt.Sprintf("the run's bound on the rate of clocks is out of range: %g", p.Rate)
	}
	return ""
}

// Seconds formats an instant or a span for people: to the millisecond, and more precisely only if
// it would otherwise be zero.
func Seconds(ns int64) string {
	for _, digits := range []int{3, 6} {
		s := strconv.FormatFloat(history.Seconds(ns), 'f', digits, 64)
		if s = strings.TrimRight(strings.TrimRight(s, "0"), "."); ns == 0 || s != "0" && s != "-0" {
			return s + " s"
		}
	}
	return strconv.FormatInt(ns, 10) + " ns"
}

// FromTo formats a span by its ends and its length. If both ends look the same, it gives the
// beginning and the length in microseconds.
func FromTo(from, to int64) string {
	a, b := Seconds(from), Seconds(to)
	if a != b {
		return "from " + a + " to " + b + " (" + Seconds(to-from) + ")"
	}
	return "at " + a + " for " + strconv.FormatFloat(float64(to-from)/1e3, 'g', 3, 64) + " µs"
}
