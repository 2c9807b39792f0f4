// Package histories makes histories by dice, for the tests of several rooms.
//
// Random is a small one of a lock that does as it likes, Upheaval one of clients, links, nodes
// and faults that each do what they like. Story is one that a test writes by hand.
//
// Deliberately missing: anything that a run would use.
package histories

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/story"
)

// Beat is the grid of random histories. Events fall on beats, so that many
// coincide, and the dumb judge looks at the instants between them.
const Beat = int64(time.Millisecond)

// Random is a small well-formed history of a lock that does as it likes.
func Random(rnd *rand.Rand) *history.History {
	h := &history.History{Params: history.Params{MayBeIdle: true, StampError: time.Duration(Beat * int64(rnd.IntN(2)*rnd.IntN(2)))}}
	for _, c := range []string{"c1", "c2", "c3"}[:2+rnd.IntN(2)] {
		h.Params.Clients = append(h.Params.Clients, c)
		g := &randomClient{Rand: rnd, name: c, at: Beat * int64(rnd.IntN(6))}
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
	at      int64
	events  []history.Event
	handles []string
}

func (g *randomClient) emit(typ history.Type, op, session string) *history.Event {
	g.events = append(g.events, history.Event{T: g.at, Process: g.name, Type: typ, Op: op, Session: session, Key: "k"})
	return &g.events[len(g.events)-1]
}

func (g *randomClient) pass(most int) { g.at += Beat * int64(g.IntN(most+1)) }

// cycle acquires, extends and releases at random, by its handle or by an older one. It
// answers false if the client is no more.
func (g *randomClient) cycle(session string) bool {
	g.pass(3)
	g.emit(history.Invoke, history.OpAcquire, session)
	g.pass(3)
	ret := g.emit(g.outcome(), history.OpAcquire, session)
	switch {
	case ret.Type == history.OK:
		g.grant(ret)
	case g.IntN(6) == 0:
	case ret.Type == history.Fail || g.IntN(2) == 0:
		return true
	} // otherwise it goes on with a handle that may be none
	g.handles = append(g.handles, session)
	for g.IntN(3) == 0 {
		g.extend(g.handle(session))
	}
	g.pass(6)
	if g.IntN(10) == 0 { // the lock tells it of a loss
		g.emit(history.Info, history.OpLost, g.handle(session))
		if g.pass(2); g.IntN(3) == 0 {
			g.extend(session)
		}
	}
	switch g.IntN(8) {
	case 0:
		g.events = append(g.events, history.Event{T: g.at, Process: history.Nemesis, Type: history.Invoke, Op: facts.Kill, Node: g.name})
		g.pass(1)
		if g.IntN(3) == 0 { // nobody had seen it dead yet
			g.emit(history.Invoke, history.OpRelease, g.handle(session))
			g.pass(1)
		}
		g.events = append(g.events, history.Event{T: g.at, Process: history.Nemesis, Type: history.Begin, Op: facts.Kill, Node: g.name})
		return false
	case 1:
		return true // it forgets to release
	}
	for again := true; again; again = g.IntN(10) == 0 {
		s := g.handle(session)
		g.emit(history.Invoke, history.OpRelease, s)
		g.pass(3)
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

// handle is mostly the session's own.
func (g *randomClient) handle(session string) string {
	if g.IntN(8) > 0 {
		return session
	}
	return g.handles[g.IntN(len(g.handles))]
}

func (g *randomClient) extend(session string) {
	g.pass(4)
	g.emit(history.Invoke, history.OpExtend, session)
	g.pass(3)
	g.grant(g.emit(g.outcome(), history.OpExtend, session))
}

func (g *randomClient) grant(ret *history.Event) {
	if g.IntN(20) > 0 {
		ret.ValidUntil = max(Beat, g.at+Beat*int64(g.IntN(13)-3))
	}
}

// Lines writes a history for the message of a test that failed.
func Lines(h *history.History) string {
	var all string
	for _, e := range h.Events {
		all += facts.Seconds(e.T) + " " + e.Process + " " + string(e.Type) + " " + e.Op + " " + e.Session + e.Node + " until " + facts.Seconds(e.ValidUntil) + "\n"
	}
	return all
}

// Story is a history in the form of package story. It panics where that is none.
func Story(text string) *history.History {
	h, err := story.Parse(text)
	if err != nil {
		panic(err)
	}
	return h
}

// Names is "c1", "c2" and so on.
func Names(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, prefix+strconv.Itoa(i+1))
	}
	return all
}

// Compare holds what a judge keeps in order to what one would find who had all the time in
// the world: it asks each check of 3,000 upheavals, as the judge reads them, for both.
func Compare[R any](t *testing.T, read func(*facts.Facts) R, checks map[string]func(*rand.Rand, R) (got, want string)) {
	t.Helper()
	for seed := range uint64(3000) {
		r := facts.Read(Upheaval(seed))
		if r.Malformed != "" {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, what := range slices.Sorted(maps.Keys(checks)) {
			if got, want := checks[what](rng, read(r)); got != want {
				t.Fatalf("seed %d: %s: got %s, want %s", seed, what, got, want)
			}
		}
	}
}
