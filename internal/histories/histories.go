// Package histories creates histories for tests.
//
// Random returns a small history of a lock that behaves arbitrarily. RandomWithFaults returns a
// history in which clients, links, nodes and faults all behave arbitrarily. MustParse parses a
// handwritten history in the format described at Parse.
package histories

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
)

// Beat is the grid spacing of event times in random histories. Many events therefore coincide, and
// the brute-force check looks at the instants between beats.
const Beat = int64(time.Millisecond)

// Random returns a small well-formed history of a lock that behaves arbitrarily.
func Random(rnd *rand.Rand) *history.History {
	h := &history.History{Params: history.Params{MayBeIdle: true, TimestampUncertainty: time.Duration(Beat * int64(rnd.IntN(2)*rnd.IntN(2)))}}
	for _, c := range []string{"c1", "c2", "c3"}[:2+rnd.IntN(2)] {
		h.Params.Clients = append(h.Params.Clients, c)
		g := &randomClient{Rand: rnd, name: c, now: Beat * int64(rnd.IntN(6))}
		g.emit(history.Begin, history.OpClient, "")
		for n := range 1 + rnd.IntN(3) {
			if !g.cycle(c + "/" + string(rune('1'+n))) {
				break
			}
		}
		h.Events = append(h.Events, g.events...)
	}
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return int(a.T - b.T) })
	for i := range h.Events {
		h.Events[i].N = int64(i + 1)
	}
	return h
}

type randomClient struct {
	*rand.Rand
	name    string
	now     int64
	events  []history.Event
	handles []string
}

func (g *randomClient) emit(typ history.Type, op, session string) *history.Event {
	g.events = append(g.events, history.Event{T: g.now, Process: g.name, Type: typ, Op: op, Session: session, Key: "k"})
	return &g.events[len(g.events)-1]
}

func (g *randomClient) advance(limit int) { g.now += Beat * int64(g.IntN(limit+1)) }

// cycle acquires, extends and releases the lock at random, with the session's handle or an older
// one. It returns false if the client was killed.
func (g *randomClient) cycle(session string) bool {
	g.advance(3)
	g.emit(history.Invoke, history.OpAcquire, session)
	g.advance(3)
	ret := g.emit(g.outcome(), history.OpAcquire, session)
	switch {
	case ret.Type == history.OK:
		g.grant(ret)
	case g.IntN(6) == 0:
	case ret.Type == history.Fail || g.IntN(2) == 0:
		return true
	} // otherwise the client continues with a handle that may be invalid
	g.handles = append(g.handles, session)
	for g.IntN(3) == 0 {
		g.extend(g.handle(session))
	}
	g.advance(6)
	if g.IntN(10) == 0 { // the lock notifies the client of a loss
		g.emit(history.Info, history.OpLost, g.handle(session))
		if g.advance(2); g.IntN(3) == 0 {
			g.extend(session)
		}
	}
	switch g.IntN(8) {
	case 0:
		g.events = append(g.events, history.Event{T: g.now, Process: history.Nemesis, Type: history.Invoke, Op: "kill", Node: g.name})
		g.advance(1)
		if g.IntN(3) == 0 { // the client's death is not visible yet
			g.emit(history.Invoke, history.OpRelease, g.handle(session))
			g.advance(1)
		}
		g.events = append(g.events, history.Event{T: g.now, Process: history.Nemesis, Type: history.Begin, Op: "kill", Node: g.name})
		return false
	case 1:
		return true // the client forgets to release the lock
	}
	for more := true; more; more = g.IntN(10) == 0 {
		s := g.handle(session)
		g.emit(history.Invoke, history.OpRelease, s)
		g.advance(3)
		g.emit(g.outcome(), history.OpRelease, s)
		if g.IntN(12) == 0 {
			g.extend(s)
		}
	}
	return true
}

func (g *randomClient) outcome() history.Type {
	return []history.Type{history.OK, history.OK, history.OK, history.Fail, history.Info}[g.IntN(5)]
}

// handle usually returns the session's handle, and sometimes an older one.
func (g *randomClient) handle(session string) string {
	if g.IntN(8) > 0 {
		return session
	}
	return g.handles[g.IntN(len(g.handles))]
}

func (g *randomClient) extend(session string) {
	g.advance(4)
	g.emit(history.Invoke, history.OpExtend, session)
	g.advance(3)
	g.grant(g.emit(g.outcome(), history.OpExtend, session))
}

func (g *randomClient) grant(ret *history.Event) {
	if g.IntN(20) > 0 {
		ret.ValidUntil = max(Beat, g.now+Beat*int64(g.IntN(13)-3))
	}
}

// FormatLines formats a history for a test failure message, one event per line.
func FormatLines(h *history.History) string {
	var out string
	for _, e := range h.Events {
		out += formatSeconds(e.T) + " " + e.Process + " " + string(e.Type) + " " + e.Op + " " + e.Session + e.Node + " until " + formatSeconds(e.ValidUntil) + "\n"
	}
	return out
}

// MustParse is like Parse, but panics on errors.
func MustParse(text string) *history.History {
	h, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return h
}

func formatSeconds(ns int64) string { return fmt.Sprintf("%g s", history.Seconds(ns)) }

// NumberedNames returns "c1", "c2" and so on, for the prefix "c".
func NumberedNames(prefix string, n int) []string {
	var names []string
	for i := range n {
		names = append(names, prefix+strconv.Itoa(i+1))
	}
	return names
}

// NumCases returns how many of n random cases a test tries: all of them, or a quarter with -short, as
// in make test. Mutation tests and nightly checks run without -short.
func NumCases(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// Compare runs each check on NumCases(3000) random histories with faults, converted by read. It fails
// the test if a check's result, got, differs from that of an exhaustive search, want. It skips
// malformed histories, for which read returns false.
func Compare[R any](t *testing.T, read func(*history.History) (R, bool), checks map[string]func(*rand.Rand, R) (got, want string)) {
	t.Helper()
	for seed := range uint64(NumCases(3000)) {
		h := RandomWithFaults(seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, what := range slices.Sorted(maps.Keys(checks)) {
			r, ok := read(h)
			if !ok {
				break
			}
			if got, want := checks[what](rng, r); got != want {
				t.Fatalf("seed %d: %s: got %s, want %s", seed, what, got, want)
			}
		}
	}
}

// faultyHistory generates unlikely histories: clients, links, nodes and all kinds of faults behave
// arbitrarily, mostly one at a time. No property needs to hold, because tests only compare two ways
// of computing the same result.
type faultyHistory struct {
	*rand.Rand
	params  history.Params
	events  []history.Event
	log     []history.Event
	now     int64
	clients map[string]*clientState
	faults  []*history.Event // the latest event of each fault
	keys    []string
	value   int64
}

type clientState struct {
	history.Event    // its pending call, or its current hold
	numSessions      int
	pending, stopped bool
}

// RandomWithFaults returns a random history with faults. It depends only on the seed.
func RandomWithFaults(seed uint64) *history.History {
	u := &faultyHistory{Rand: rand.New(rand.NewPCG(seed, 7)), clients: map[string]*clientState{}}
	u.params = history.Params{
		Schema: history.Schema, Clients: NumberedNames("c", 1+u.IntN(4)), Nodes: NumberedNames("n", 1+u.IntN(4)), Resource: "resource",
		TTL: time.Duration(5 + u.IntN(60)), NodeTimeout: time.Duration(1 + u.IntN(4)), RetryMax: time.Duration(1 + u.IntN(6)),
		Slack: time.Duration(u.IntN(10)), Rounds: 1 + u.IntN(3), TimestampUncertainty: time.Duration(u.IntN(3) / 2), Epoch: 1000,
	}
	if ttls := rand.New(rand.NewPCG(seed, 8)); ttls.IntN(2) == 0 {
		u.params.TTLs = []history.ClientTTL{{Client: "c1", TTL: time.Duration(5 + ttls.IntN(60))}}
	}
	u.keys = NumberedNames("k", 1+u.IntN(2))
	u.events = []history.Event{{Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: &u.params}}
	for _, c := range u.params.Clients {
		u.clients[c] = &clientState{}
	}
	for i := range 4 {
		kind := []string{"clock-jump", "pause", "kill", "clock-rate"}[i]
		u.params.Steps = append(u.params.Steps, history.PlannedStep{Step: i + 1, Fault: kind, Offset: time.Duration(u.IntN(40) - 30)})
	}
	for range 20 + u.IntN(200) {
		switch u.IntN(8) {
		case 0:
			u.addFaultEvent()
		case 1, 2:
			u.addCommandEvent()
		default:
			u.addClientEvent(u.pick(u.params.Clients))
		}
	}
	for _, e := range append(u.log, history.Event{Process: history.Harness, Type: history.End, Op: history.OpRun}) {
		u.emit(e)
	}
	for i := range u.events {
		u.events[i].N = int64(i + 1)
	}
	h, err := history.New(u.events)
	if err != nil {
		panic(err)
	}
	return h
}

func (u *faultyHistory) pick(all []string) string { return all[u.IntN(len(all))] }

func (u *faultyHistory) emit(e history.Event) {
	u.now += int64(max(0, u.IntN(6)-1))
	if u.IntN(40) == 0 {
		u.now += int64(u.IntN(100))
	}
	e.T = u.now
	u.events = append(u.events, e)
}

// addClientEvent makes the client call an operation, or makes its pending call return.
func (u *faultyHistory) addClientEvent(name string) {
	c := u.clients[name]
	if c.stopped && u.IntN(100) > 0 {
		return
	}
	e := c.Event
	e.Process = name
	if c.numSessions > 0 && u.IntN(40) == 0 {
		u.emit(history.Event{Process: name, Type: history.Info, Op: history.OpLost, Session: e.Session, Key: e.Key})
		return
	}
	if !c.pending {
		e.Type, e.Op = history.Invoke, u.pick([]string{history.OpAcquire, history.OpExtend, history.OpRelease, history.OpWrite, history.OpRead})
		if e.Op == history.OpAcquire || c.numSessions == 0 {
			c.numSessions++
			e.Op, e.Session, e.Key = history.OpAcquire, fmt.Sprintf("%s/%d", name, c.numSessions), u.pick(u.keys)
		}
		e.Value, e.Version = "", 0
		if e.Op == history.OpWrite {
			u.value++
			e.Value, e.Version = fmt.Sprint(u.value), u.value/4
		}
		c.Event, c.pending = e, true
		u.emit(e)
		return
	}
	e.Type = []history.Type{history.OK, history.OK, history.OK, history.Fail, history.Info}[u.IntN(5)]
	if e.Type == history.OK && (e.Op == history.OpAcquire || e.Op == history.OpExtend) && u.IntN(5) > 0 {
		e.ValidUntil, e.Local, e.WallClock = u.now+int64(u.IntN(60)), u.params.Epoch+u.now, u.IntN(2) == 0
	}
	if e.Op == history.OpWrite || e.Op == history.OpRead {
		l := history.Event{Process: "resource", Type: e.Type, Op: history.OpLog, Cause: e.Op, Key: e.Key, Session: e.Session, Value: e.Value, Version: e.Version, AppliedAt: u.now}
		u.log = append(u.log, l)
	}
	c.pending = false
	u.emit(e)
}

func (u *faultyHistory) addCommandEvent() {
	client, node := u.pick(u.params.Clients), u.pick(u.params.Nodes)
	c := u.clients[client]
	if c.numSessions == 0 {
		return
	}
	e := history.Event{Process: client + "-" + node, Node: node, Op: u.pick([]string{history.OpSet, history.OpRelease, history.OpExtend}), Key: c.Key,
		Token: fmt.Sprint(client, c.numSessions/3), Type: []history.Type{history.OK, history.Fail, history.Info}[u.IntN(3)], SentAt: max(0, u.now-int64(u.IntN(6)))}
	if u.IntN(4) > 0 {
		e.AppliedAt = e.SentAt + int64(u.IntN(3))
	}
	if u.IntN(4) > 0 {
		e.AnsweredAt = max(e.SentAt, e.AppliedAt) + int64(u.IntN(2))
	}
	u.now = max(u.now, e.AnsweredAt, e.AppliedAt)
	u.emit(e)
}

// addFaultEvent begins, continues or ends a fault, or changes a clock.
func (u *faultyHistory) addFaultEvent() {
	process := u.pick(append(u.params.Clients, u.params.Nodes...))
	if u.IntN(3) == 0 {
		u.emit(history.Event{Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: process,
			Local: u.params.Epoch + u.now + int64(u.IntN(60)-30), Drift: int64(u.IntN(3)-1) * 400_000_000, WallClock: u.IntN(2) == 0})
		return
	}
	step := u.IntN(5)
	e := history.Event{Process: history.Nemesis, Type: history.Invoke, Op: u.pick([]string{"cut", "shutdown", history.OpStall, "delay"}), Node: process, Step: step}
	if step > 0 {
		e.Op = u.params.Steps[step-1].Fault
	}
	if e.Op == "cut" || e.Op == "delay" {
		e.Node = u.pick(u.params.Clients) + "-" + u.pick(u.params.Nodes)
	}
	if len(u.faults) > 0 && u.IntN(3) > 0 { // an earlier fault continues
		i := u.IntN(len(u.faults))
		e = *u.faults[i]
		e.Type = []history.Type{history.Begin, history.Begin, history.End, history.End, history.Fail}[u.IntN(5)]
		u.faults[i].Type = e.Type
	}
	if e.Op == "kill" && u.clients[e.Node] != nil && u.IntN(4) > 0 {
		return
	}
	u.faults = append(u.faults, &e)
	if c := u.clients[e.Node]; c != nil && !strings.HasPrefix(e.Op, "clock-") {
		c.stopped = e.Type == history.Begin
	}
	u.emit(e)
}
