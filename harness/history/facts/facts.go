// Package facts indexes a history once for all packages that check, draw or translate it.
//
// Its main types are:
//
//   - Facts, an indexed history
//   - Session, an acquire call and everything done with its handle
//   - Operation, a call and its return
//   - Lock, a key and its sessions
//   - Attempt, one round of requests to the nodes, as recorded by the links
//   - Fault, one fault on one target, from its invoke to its end
//   - Window, a time span in which a session's client certainly considered itself the holder
//   - ClockChange, a clock's error and rate from some instant on
//   - KeyInterval, a time span in which a key on a node had one value, as reported by the node
//   - Write, a write in the resource's log, with the version that it found
//
// They are built in one pass over the events (facts.go). fault.go detects histories that no client
// can have produced.
//
// Read accepts any history, even an impossible one: it matches the events that make sense, describes
// the first problem in Defect, and never panics. Only this package decides which return belongs to
// which call, when a fault was over, and how long a client considered itself the holder, so that
// pictures and verdicts agree.
//
// Read processes every event. Derived data, such as attempts and lives, is computed when it is first
// needed.
//
// Deliberately missing: interpretation. Causes, violations and explanations belong to the packages
// that check and draw.
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

// Facts is an indexed history. Its events are the history's, with each ValidUntil replaced by the
// actual deadline (history.WithActualDeadlines). All pointers to events point into Events.
type Facts struct {
	Params     history.Params
	Truncation string
	Defect     string // why no run can have produced this history, or ""
	Events     []history.Event
	End        int64 // time of the last event before the run's teardown

	Grants          int
	GrantsByClient  []int            // grants per client that called acquire
	Locks           []*Lock          // in order of first use
	StartedClients  map[string]bool  // clients that have started
	GoneAt          map[string]int64 // by client: when it ended or was about to be killed
	firstGoneAt     int64            // the earliest time in GoneAt
	FirstClientTime int64            // times of the clients' first and last events; -1: none
	LastClientTime  int64
	UsedResource    bool             // a client sent a command to the resource
	UnmatchedEvents []*history.Event // client events without a session, and returns without a call

	HasInterleavedSessions bool // a client used an old handle after beginning another session

	Faults              []*Fault         // in injection order
	ClockChanges        []ClockChange    // in chronological order
	LockCommands        []*history.Event // sets, extensions and releases, as recorded by the links
	OtherCommands       []*history.Event // all other commands on the links
	UnsupportedCommands []*history.Event // commands that the simulation does not support
	Log                 []*history.Event // the resource's log, in the order in which the resource handled the commands
	StopEvent           *history.Event   // the event that stopped the run early, or nil

	sessions          []*Session // in the order of their acquire calls
	byName            map[string]*Session
	locks             map[string]*Lock
	attempts          map[string]*LockAttempts    // computed when first needed
	lives             *Lives                      // computed when first needed
	killFaults        map[string]*history.Event   // by client: the fault that killed it; computed when first needed
	losses            map[*Session]*history.Event // each session's first loss event
	promisedDeadlines map[*Session]int64          // for sessions in losses; see PromisedDeadline
	lifeEvents        []*history.Event            // changes to keys, as reported by the nodes
}

// Read indexes a history. The result refers to the history's own events, or to copies if a clock
// was changed or a hold was lost.
func Read(h *history.History) *Facts {
	if h == nil {
		h = &history.History{}
	}
	in := read(h, h.Events)
	if in.clockChanged || len(in.losses) > 0 { // too rare to check beforehand
		if corrected := history.WithActualDeadlines(h.Events); &corrected[0] != &h.Events[0] {
			in = read(h, corrected)
		}
		if len(in.losses) > 0 {
			in.recordPromises(history.WithClockDeadlines(h.Events))
		}
	}
	in.finish()
	in.Defect = in.findDefect()
	return in.Facts
}

// read indexes events, which are h's events or copies with actual deadlines.
func read(h *history.History, events []history.Event) *reader {
	in := &reader{
		Facts: &Facts{
			Params: h.Params, Truncation: h.Truncation, Events: events, FirstClientTime: -1, LastClientTime: -1, firstGoneAt: Never,
			StartedClients: map[string]bool{}, GoneAt: map[string]int64{}, locks: map[string]*Lock{},
		},
		clients: map[string]*client{}, pending: map[faultKey]*pendingFaults{}, seenNumbers: make([]bool, len(events)+1), extraSeenNumbers: map[int64]bool{},
	}
	for _, name := range h.Params.Clients {
		in.addClient(name)
	}
	for i := range events {
		in.add(&events[i])
	}
	return in
}

// Sessions iterates over the sessions in the order of their acquire calls.
func (f *Facts) Sessions() iter.Seq[*Session] { return slices.Values(f.sessions) }

// SessionByName returns the session with the given name, or nil.
func (f *Facts) SessionByName(name string) *Session {
	if f.byName == nil {
		f.byName = map[string]*Session{}
		for _, s := range f.sessions {
			f.byName[s.Name()] = s
		}
	}
	return f.byName[name]
}

// Lock returns the lock with the given name, or nil.
func (f *Facts) Lock(key string) *Lock { return f.locks[key] }

// ReadUpToStop is like Read but ignores the teardown of a run that was stopped early. Descriptions
// of a run use it, because the teardown is not part of the scenario.
func ReadUpToStop(h *history.History) *Facts {
	f := Read(h)
	if f.StopEvent == nil {
		return f
	}
	truncated := &history.History{Params: h.Params, Truncation: h.Truncation}
	for i := range h.Events {
		if e := &h.Events[i]; !isInTeardown(f.StopEvent, e) {
			truncated.Events = append(truncated.Events, *e)
		}
	}
	return Read(truncated)
}

// isInTeardown reports whether an event belongs to the teardown after a stop. For a command, the
// time at which it was sent decides. The resource's log does not belong to the teardown, although
// it is read then.
func isInTeardown(stop, e *history.Event) bool {
	switch {
	case e.Op == history.OpLog:
		return false
	case isLinkCommand(e) && e.SentAt != 0:
		return e.SentAt > stop.T
	}
	return e.T > stop.T || e.T == stop.T && e.N > stop.N
}

func (f *Facts) recordDeparture(client string, at int64) {
	if t, ok := f.GoneAt[client]; !ok || at < t {
		f.GoneAt[client] = at
		f.firstGoneAt = min(f.firstGoneAt, at)
	}
}

// sortByNumber sorts events by number. Events that are read after the run are numbered in the order
// in which the resource logged them, which may differ from the order of their T.
func sortByNumber(events []*history.Event) {
	slices.SortStableFunc(events, func(a, b *history.Event) int { return cmp.Compare(a.N, b.N) })
}

// reader builds Facts in one pass over a history. It detects events that can't come from clients
// that do one thing at a time.
type reader struct {
	*Facts
	clients    map[string]*client
	allClients []*client
	pending    map[faultKey]*pendingFaults

	timeReversal     string         // where time runs backwards, or ""
	seenNumbers      []bool         // event numbers seen that are at most the number of events
	extraSeenNumbers map[int64]bool // larger event numbers seen
	misuse           string         // what no client can have done, or ""
	hasLinkStamps    bool
	clockChanged     bool
}

type client struct {
	session       *Session
	lock          *Lock          // the session's lock
	pending       *history.Event // call on a session that has not returned
	actionSession *Session       // session of the pending call, and the call's index in its actions
	actionIndex   int
	pendingCall   *history.Event // pending call according to checkPairing, which sees invalid events, too
	lastEvent     *history.Event
	maxSerial     int // the largest number in a session name
	grants        int
	death         *history.Event // event that recorded the client's end or kill
}

func (in *reader) addClient(name string) *client {
	c := &client{}
	in.clients[name] = c
	in.allClients = append(in.allClients, c)
	return c
}

func (in *reader) add(e *history.Event) {
	if in.StopEvent == nil {
		in.End = e.T
	}
	in.hasLinkStamps = in.hasLinkStamps || e.AppliedAt != 0 || e.AnsweredAt != 0
	in.clockChanged = in.clockChanged || e.Op == history.OpClock
	c := in.clients[e.Process]
	if in.misuse == "" {
		in.misuse = in.checkEvent(e, c != nil || e.Op == history.OpAcquire)
	}
	if c == nil && e.Op == history.OpAcquire {
		c = in.addUnlistedClient(e)
	}
	switch {
	case c != nil:
		in.checkClient(c, e)
		in.addClientEvent(c, e)
	case e.Process == history.Nemesis:
		in.addNemesisEvent(e)
	case e.Op == history.OpLife && e.Life != nil:
		in.lifeEvents = append(in.lifeEvents, e)
	case e.Op == history.OpLife: // an event without a Life is ignored
	case e.Op == history.OpUnsupported:
		in.UnsupportedCommands = append(in.UnsupportedCommands, e)
	case e.Op == history.OpLog:
		in.Log = append(in.Log, e)
	case e.Process == history.Harness:
		if e.Op == history.OpStop && in.StopEvent == nil {
			in.StopEvent = e
		}
	case e.Node == "" && e.Op == history.OpClient: // a client that the params don't list
	case e.Node == "":
		in.UnmatchedEvents = append(in.UnmatchedEvents, e)
	case e.Op == history.OpSet || e.Op == history.OpExtend || e.Op == history.OpRelease:
		in.LockCommands = append(in.LockCommands, e)
	default:
		in.OtherCommands = append(in.OtherCommands, e)
	}
}

// addUnlistedClient adds a client that is not listed in the run's params when it calls acquire.
func (in *reader) addUnlistedClient(e *history.Event) *client {
	in.recordMisuse("%s acquires (event %d), but is not among the clients", e.Process, e.N)
	if e.Node != "" || e.Process == history.Nemesis || e.Process == history.Harness {
		return nil
	}
	return in.addClient(e.Process)
}

func (in *reader) addNemesisEvent(e *history.Event) {
	in.addClockChange(e)
	in.addFaultEvent(e)
	if c := in.clients[e.Node]; c != nil && e.Op == Kill && e.Type == history.Begin {
		c.recordDeath(e)
	}
}

func (in *reader) addClientEvent(c *client, e *history.Event) {
	switch {
	case e.Op == history.OpClient:
		if e.Type == history.Begin {
			in.StartedClients[e.Process] = true
		}
		if e.Type == history.End {
			in.recordDeparture(e.Process, e.T)
			c.recordDeath(e)
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
		c.pending = nil
		if s := in.addAction(c, e, nil); s != nil {
			c.pending, c.actionSession, c.actionIndex = e, s, len(s.actions)-1
			in.UsedResource = in.UsedResource || e.Op == history.OpRead || e.Op == history.OpWrite
		}
	case c.pending != nil && e.Op == c.pending.Op:
		in.recordReturn(c, e)
	case e.Op == history.OpCheck:
		in.addAction(c, e, e)
	default:
		in.UnmatchedEvents = append(in.UnmatchedEvents, e)
	}
}

// addAction adds an action to the session whose handle it was called on. It returns the session, or
// nil if there is none.
func (in *reader) addAction(c *client, call, ret *history.Event) *Session {
	s := in.sessionOf(c, call)
	if s == nil || !isAction(call.Op) && call.Op != history.OpCheck {
		in.UnmatchedEvents = append(in.UnmatchedEvents, call)
		return nil
	}
	in.HasInterleavedSessions = in.HasInterleavedSessions || s != c.session
	s.actions = append(s.actions, Operation{Call: call, Return: ret})
	return s
}

// recordReturn adds the return of a client's pending call.
func (in *reader) recordReturn(c *client, e *history.Event) {
	c.pending = nil
	if e.Op != history.OpAcquire {
		c.actionSession.actions[c.actionIndex].Return = e
		return
	}
	c.session.recordReturn(e)
	c.lock.sessions = append(c.lock.sessions, c.session)
	if e.Type == history.OK {
		in.Grants++
		c.grants++
	}
}

// isAcquiring reports whether the client is waiting for an acquire to return.
func (c *client) isAcquiring() bool {
	return c.pending != nil && c.pending.Op == history.OpAcquire
}

func (c *client) recordDeath(cause *history.Event) {
	if c.death == nil {
		c.death = cause
	}
}

func (in *reader) beginSession(c *client, e *history.Event) {
	if c.isAcquiring() { // that acquire never returned
		c.lock.sessions = append(c.lock.sessions, c.session)
	}
	c.session = &Session{Acquire: Operation{Call: e}, CalledAt: e.T, EndedAt: Never, Deadline: NotGranted}
	c.pending = e
	in.sessions = append(in.sessions, c.session)
	c.maxSerial = max(c.maxSerial, serialOf(e))
	if in.byName != nil {
		in.byName[e.Session] = c.session
	}
	if c.lock == nil || c.lock.Name != e.Key {
		c.lock = in.findOrAddLock(e.Key)
	}
}

// findOrAddLock returns the lock with the given name, creating it if necessary.
func (in *reader) findOrAddLock(key string) *Lock {
	l := in.locks[key]
	if l == nil {
		l = &Lock{Name: key}
		in.locks[key] = l
		in.Locks = append(in.Locks, l)
	}
	return l
}

// sessionOf returns the session that a client's event belongs to: the session named by the event,
// or else the client's latest.
func (in *reader) sessionOf(c *client, e *history.Event) *Session {
	if e.Session == "" || c.session != nil && c.session.Name() == e.Session {
		return c.session
	}
	if s := in.SessionByName(e.Session); s != nil && s.Client() == e.Process {
		return s
	}
	return c.session
}

// serialOf returns the number in a session name of the form "c1/3", or 0. While these numbers
// increase, a client can't use a name twice, so no index of names is needed. Building one would
// take as long as the rest of Read.
func serialOf(e *history.Event) int {
	digits, ok := strings.CutPrefix(e.Session, e.Process+"/")
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(digits)
	return n
}

// finish adds what is known only at the end of the history.
func (in *reader) finish() {
	for _, c := range in.allClients {
		if c.isAcquiring() {
			c.lock.sessions = append(c.lock.sessions, c.session)
		}
		if c.session != nil {
			in.GrantsByClient = append(in.GrantsByClient, c.grants)
		}
	}
	sortByNumber(in.Log)
	for _, f := range in.Faults {
		if f.Kind == Kill && in.clients[f.Target] != nil {
			in.recordDeparture(f.Target, f.FirstEvent().T)
		}
	}
	slices.SortStableFunc(in.ClockChanges, func(a, b ClockChange) int { return cmp.Compare(a.T, b.T) })
}

// Limits on stamps (73 years after the beginning of the history) and on clock readings (146 years
// after 1970). They keep sums of two values from overflowing.
const (
	maxStamp = 1 << 61
	maxClock = 1 << 62
)

// checkEvent returns why no recorder can have written an event, or "": its type or operation does
// not exist or does not fit the process, a stamp is out of range, or its number is a duplicate.
// Kinds of fault are not checked, because the nemesis may use any name.
func (in *reader) checkEvent(e *history.Event, isClient bool) string {
	switch {
	case !isValidEvent(e, isClient):
		return fmt.Sprintf("event %d of %s has type %q and operation %q, which no recorder writes", e.N, e.Process, e.Type, e.Op)
	case outOfRange(e.T) || outOfRange(e.ValidUntil) || outOfRange(e.SentAt) || outOfRange(e.AppliedAt) || outOfRange(e.AnsweredAt) || outOfRange(e.TTL), e.Local > maxClock, e.Local < -maxClock:
		return fmt.Sprintf("event %d of %s has a stamp out of range", e.N, e.Process)
	case e.N > 0 && in.takeNumber(e.N): // generated events have number 0
		return fmt.Sprintf("two events have the number %d", e.N)
	}
	return ""
}

// takeNumber marks an event number as taken, and reports whether it already was. It is optimized
// for histories numbered without gaps.
func (in *reader) takeNumber(n int64) bool {
	if n >= int64(len(in.seenNumbers)) {
		taken := in.extraSeenNumbers[n]
		in.extraSeenNumbers[n] = true
		return taken
	}
	taken := in.seenNumbers[n]
	in.seenNumbers[n] = true
	return taken
}

// isValidEvent reports whether e's type and operation fit a client or, if isClient is false, any
// other process.
func isValidEvent(e *history.Event, isClient bool) bool {
	switch e.Type {
	case history.Invoke, history.OK, history.Fail, history.Info, history.Begin, history.End:
	default:
		return false
	}
	isReturn := e.Type == history.OK || e.Type == history.Fail || e.Type == history.Info
	switch e.Op {
	case history.OpAcquire, history.OpExtend, history.OpRead, history.OpWrite, history.OpRelease:
		return isReturn || isClient && e.Type == history.Invoke
	case history.OpCheck:
		return isReturn
	case history.OpLost:
		return isClient && e.Type == history.Info
	case history.OpClient, history.OpRun:
		return e.Type == history.Begin || e.Type == history.End || e.Type == history.Info
	case history.OpSet, history.OpFence, history.OpLog, history.OpStop, history.OpClock, history.OpUnsupported, history.OpLife:
		return !isClient && isReturn
	}
	return e.Process == history.Nemesis
}

func outOfRange(stamp int64) bool { return stamp > maxStamp || stamp < -maxStamp }

// paramOutOfRange describes a parameter that is out of range. It returns "" if there is none.
func paramOutOfRange(p *history.Params) string {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"TTL", int64(p.MaxTTL())}, {"timestamp uncertainty", int64(p.TimestampUncertainty)}, {"node timeout", int64(p.NodeTimeout)}, {"retry delay", int64(p.RetryMax)},
		{"slack", int64(p.Slack)}, {"maximum hold", int64(p.MaxHold)},
	} {
		if f.value < 0 || f.value > maxStamp {
			return fmt.Sprintf("the run's %s is out of range: %d ns", f.name, f.value)
		}
	}
	if !(p.Rate >= 0 && p.Rate <= 1) {
		return fmt.Sprintf("the run's clock rate bound is out of range: %g", p.Rate)
	}
	return ""
}

// Seconds formats a time or duration for people: to the millisecond, or more precisely if it would
// otherwise be shown as zero.
func Seconds(ns int64) string {
	for _, digits := range []int{3, 6} {
		s := strconv.FormatFloat(history.Seconds(ns), 'f', digits, 64)
		if s = strings.TrimRight(strings.TrimRight(s, "0"), "."); ns == 0 || s != "0" && s != "-0" {
			return s + " s"
		}
	}
	return strconv.FormatInt(ns, 10) + " ns"
}

// FromTo formats a time span as its start, end and length. If the start and end would look the
// same, it shows the start and the length in microseconds.
func FromTo(from, to int64) string {
	a, b := Seconds(from), Seconds(to)
	if a != b {
		return "from " + a + " to " + b + " (" + Seconds(to-from) + ")"
	}
	return "at " + a + " for " + strconv.FormatFloat(float64(to-from)/1e3, 'g', 3, 64) + " µs"
}
