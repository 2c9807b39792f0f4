package edn

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockpick/harness/history"
)

// translation converts operations to events, in the order of the file.
type translation struct {
	events     []history.Event
	processes  map[string]*process
	clients    []string // in order of their first operation
	numOps     int64    // number of operations read
	hasTimes   bool     // operations have :time
	hasIndexes bool     // operations have an :index but no :time
	hasKeys    bool     // operations name their lock
	keys       map[string]bool

	mutexModel bool          // don't assign operations to sessions
	ttl        time.Duration // may be NoDeadline or UnknownTTL

	numAcquires          int
	numOtherOps          int // operations other than acquire and release
	numReleasesNotHeld   int // releases by processes that did not hold the lock
	numReleasesNotHeldOK int // such releases that returned ok
}

// process is the state of one of Jepsen's processes.
type process struct {
	pending      *operation // call that has not returned
	recorded     bool       // the call was recorded, so its return must be
	session      string     // session of that call, or ""
	numSessions  int
	heldSessions map[string][]string // by lock: sessions granted but not released, the latest last
	crashed      bool                // an outcome was unknown, so Jepsen continues with another process number
}

// onlyLock is the name used for a lock that has no name in the history.
const onlyLock = "lock"

func newTranslation() *translation {
	return &translation{processes: map[string]*process{}, keys: map[string]bool{}}
}

func (t *translation) read(r io.Reader) error {
	in := newReader(r)
	if err := forEachOperation(in, t.add); err != nil {
		return err
	}
	if t.numAcquires == 0 {
		return fmt.Errorf("line %d: no operation has :f :acquire, so this is not a lock history", in.line)
	}
	return nil
}

func (t *translation) add(f form) error {
	o, err := parse(f)
	if err != nil {
		return err
	}
	t.numOps++
	if err := t.addOperation(o); err != nil {
		return fmt.Errorf("line %d: %w", o.line, err)
	}
	return nil
}

func (t *translation) addOperation(o operation) error {
	at, err := t.timeOf(o)
	if err != nil || o.process == "" {
		return err
	}
	p := t.processes[o.process]
	if p == nil {
		p = &process{heldSessions: map[string][]string{}}
		t.processes[o.process] = p
		t.clients = append(t.clients, o.process)
		t.record(history.Event{T: at, Process: o.process, Type: history.Begin, Op: history.OpClient})
	}
	if o.kind == history.Invoke {
		return t.addCall(p, o, at)
	}
	return t.addReturn(p, o, at)
}

// timeOf returns the time of an operation. It fails if only some operations have a :time.
func (t *translation) timeOf(o operation) (int64, error) {
	if t.numOps == 1 {
		t.hasTimes, t.hasIndexes = o.time >= 0, o.time < 0 && o.index >= 0
	}
	switch {
	case t.hasTimes != (o.time >= 0):
		return 0, fmt.Errorf("some operations have a :time and some don't, so they can't be ordered")
	case t.hasTimes:
		return o.time, nil
	case t.hasIndexes && o.index < 0:
		return 0, fmt.Errorf("an operation has neither :time nor :index, while others have an :index")
	case t.hasIndexes:
		return o.index * spacing, nil
	}
	return (t.numOps - 1) * spacing, nil
}

func (t *translation) record(e history.Event) {
	e.N = t.numOps
	t.events = append(t.events, e)
}

func (t *translation) addCall(p *process, o operation, at int64) error {
	if p.pending != nil {
		return fmt.Errorf("process %s calls :%s while its :%s of line %d has not returned", processNumber(o), o.f, p.pending.f, p.pending.line)
	}
	if p.crashed && (o.f == history.OpAcquire || t.mutexModel && o.isLock()) {
		return fmt.Errorf("process %s calls :%s after an :info; after a crash, a process must continue under another number", processNumber(o), o.f)
	}
	p.pending, p.recorded, p.session = &o, false, ""
	if !o.isLock() {
		t.numOtherOps++
		return nil
	}
	key, err := t.lockName(o)
	if err != nil {
		return err
	}
	if o.f == history.OpAcquire {
		t.numAcquires++
	}
	switch sessions := p.heldSessions[key]; {
	case t.mutexModel:
	case o.f == history.OpAcquire:
		p.numSessions++
		p.session = o.process + "/" + strconv.Itoa(p.numSessions)
	case len(sessions) > 0 && !p.crashed:
		p.session = sessions[len(sessions)-1]
	default:
		t.numReleasesNotHeld++
		return nil
	}
	p.recorded = true
	t.record(history.Event{T: at, Process: o.process, Type: history.Invoke, Op: o.f, Key: key, Session: p.session})
	return nil
}

// addReturn adds the return of a call. If the outcome is unknown, the process counts as crashed,
// and its client ends, so that it no longer counts as the holder of a lock.
func (t *translation) addReturn(p *process, o operation, at int64) error {
	call := p.pending
	if call == nil || call.f != o.f {
		return fmt.Errorf("process %s returns from :%s, which it had not called", processNumber(o), o.f)
	}
	p.pending = nil
	if !t.mutexModel && !p.recorded && call.isLock() && o.kind == history.OK {
		t.numReleasesNotHeldOK++
	}
	if p.recorded {
		key, _ := t.lockName(*call) // can't fail because it succeeded for the call
		e := history.Event{T: at, Process: o.process, Type: o.kind, Op: o.f, Key: key, Session: p.session}
		if !t.mutexModel {
			e.Type = o.outcome()
		}
		if !o.errorForm.isNil() {
			e.Cause = o.errorForm.String()
		}
		t.record(e)
		switch sessions := p.heldSessions[key]; {
		case t.mutexModel || o.kind != history.OK:
		case o.f == history.OpAcquire:
			p.heldSessions[key] = append(sessions, p.session)
		default:
			p.heldSessions[key] = sessions[:len(sessions)-1] // a release belongs to the latest session
		}
	}
	if o.kind == history.Info && !p.crashed {
		p.crashed = true
		t.record(history.Event{T: at, Process: o.process, Type: history.End, Op: history.OpClient, Cause: "crashed: an outcome is unknown"})
	}
	return nil
}

// outcome returns the type of a return. In Jepsen, a release with :fail had no effect. In our
// histories, Fail also means that the lock was not held, so :error must say so.
func (o operation) outcome() history.Type {
	if o.kind == history.Fail && o.f == history.OpRelease && !o.errorForm.contains("not-held") {
		return history.Info
	}
	return o.kind
}

// lockName returns the name of an operation's lock: its :key, the first element of a :value [key
// value] as recorded by jepsen.independent, or else onlyLock.
func (t *translation) lockName(o operation) (string, error) {
	name := o.key
	if name.isNil() && !o.value.isNil() && o.value.kind == vector && len(o.value.items) == 2 {
		name = &o.value.items[0]
	}
	if first := len(t.keys) == 0; first {
		t.hasKeys = !name.isNil()
	} else if t.hasKeys == name.isNil() {
		return "", fmt.Errorf("some operations name their lock, by :key or a :value of two elements, and some don't")
	}
	key := onlyLock
	if t.hasKeys {
		key = name.String()
	}
	t.keys[key] = true
	return key, nil
}

func processNumber(o operation) string { return strings.TrimPrefix(o.process, "p") }

// allEvents returns all events, including the beginning and end of the run. An operation that never
// returned has no return event, so its outcome is unknown, as in Jepsen.
func (t *translation) allEvents() []history.Event {
	t.sortTimes()
	t.clearNumbers()
	t.setDeadlines()
	begin := history.Event{T: t.events[0].T, Process: history.Harness, Type: history.Begin, Op: history.OpRun,
		Params: &history.Params{Schema: history.Schema, Scenario: "history.edn", Backend: "jepsen", Clients: t.clients}}
	last := t.events[len(t.events)-1].T
	end := history.Event{N: t.numOps + 1, T: last, Process: history.Harness, Type: history.End, Op: history.OpRun}
	return slices.Concat([]history.Event{begin}, t.events, []history.Event{end})
}

// sortTimes puts events in chronological order, and simultaneous events in the order of the file,
// which is what counts for Jepsen. If stamps are whole milliseconds, consecutive operations may
// have the same stamp and look concurrent. Therefore each operation gets a distinct time, if
// necessary 1 ns after the previous one.
func (t *translation) sortTimes() {
	history.Sort(t.events) // event numbers are positions in the file
	last, n := int64(-1), int64(0)
	for i := range t.events {
		e := &t.events[i]
		if e.N != n {
			last, n = max(e.T, last+1), e.N
		}
		e.T = last
	}
}

// clearNumbers sets the numbers of events that are not in the file to 0: the start of a client, and
// its end after an unknown outcome. It moves that end 1 ns past the outcome.
func (t *translation) clearNumbers() {
	for i := range t.events {
		e := &t.events[i]
		switch {
		case e.Op != history.OpClient:
		case e.Type == history.Begin && i+1 < len(t.events) && t.events[i+1].N == e.N:
			e.N = 0
		case e.Type == history.End && t.events[i-1].N == e.N:
			e.N, e.T = 0, e.T+1
		}
	}
}

// setDeadlines makes each granted lease expire one TTL after the call of acquire. The lock granted
// the lease no earlier than that, so the client can't rely on it for longer.
func (t *translation) setDeadlines() {
	if t.ttl == NoDeadline {
		return
	}
	callTimes := map[string]int64{}
	for i := range t.events {
		switch e := &t.events[i]; {
		case e.Op != history.OpAcquire:
		case e.Type == history.Invoke:
			callTimes[e.Process] = e.T
		case e.Type == history.OK && t.ttl == UnknownTTL:
			e.ValidUntil = e.T
		case e.Type == history.OK:
			e.ValidUntil = callTimes[e.Process] + min(int64(t.ttl), maxTime)
		}
	}
}

func (t *translation) notes() []string {
	var notes []string
	add := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }
	switch {
	case t.mutexModel:
	case t.ttl > 0:
		add("leases are assumed to last %v from the call of acquire", t.ttl)
	case t.ttl == UnknownTTL:
		add("the duration of leases is unknown: a lease may have expired as soon as it was granted, so only replies show which locks were held; --ttl sets the duration")
	default:
		add("the history has no leases: a client is assumed to hold the lock until it calls release, so a lease that expired earlier counts as a violation; use --model lease to let leases expire, and --ttl to set their duration")
	}
	switch {
	case t.hasIndexes:
		add("there is no :time: operations are placed 1 µs apart by :index, so durations are meaningless")
	case !t.hasTimes:
		add("there is no :time or :index: operations are placed 1 µs apart in file order, so durations are meaningless")
	}
	if t.hasKeys {
		add("the history covers %d locks, distinguished by :key or by the first of two elements of :value", len(t.keys))
	}
	if t.numReleasesNotHeld > 0 {
		add("skipped releases by processes that did not hold the lock: %d", t.numReleasesNotHeld)
	}
	if t.numReleasesNotHeldOK > 0 {
		add("%d of these releases returned ok, which --model owner-mutex checks", t.numReleasesNotHeldOK)
	}
	if t.numOtherOps > 0 {
		add("skipped operations other than acquire and release: %d", t.numOtherOps)
	}
	return notes
}
