package checker

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lockpick/harness/history"
)

// beat is the grid of random histories. Events fall on beats, so that many
// coincide, and the dumb judge looks at the instants between them.
const beat = int64(time.Millisecond)

// TestAgainstPorcupine puts what violates mutual exclusion before the second
// judge, whole and reduced to the witness.
func TestAgainstPorcupine(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	violated, fine := 0, 0
	for violated < 2000 {
		h := randomHistory(rnd)
		if why := malformed(h); why != "" {
			t.Fatalf("malformed: %s:\n%s", why, lines(h))
		}
		r := newRecord(h)
		second := r.second(SecondTimeout)
		if v := Check(h); v.Disagreement != "" || v.Second != v.Result(LeaseLinearizable).Outcome.answer() {
			t.Fatalf("%s:\n%s", v.Disagreement, lines(h))
		}
		if second == Holds {
			fine++
		}
		if r.overlapping().incidents == 0 {
			continue
		}
		violated++
		if second != Violated {
			t.Fatalf("porcupine says %s of the whole:\n%s", second, lines(h))
		}
		res := judge(r, MutualExclusion)
		if why := disagreement(r, &res); res.Outcome != Violated || why != "" {
			t.Fatalf("%s: %s:\n%s", res.Outcome, why, lines(h))
		}
	}
	if fine < 500 {
		t.Errorf("porcupine found nothing wrong with %d histories only: it says no to everything", fine)
	}
}

// TestGarbage checks that a history which nobody could have recorded is judged
// without a panic, in the assumptions or anywhere else.
func TestGarbage(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		h := randomHistory(rnd)
		for range 1 + rnd.IntN(6) {
			a, b := rnd.IntN(len(h.Events)), rnd.IntN(len(h.Events))
			switch rnd.IntN(5) {
			case 0:
				h.Events[a].Process = h.Events[b].Process
			case 1:
				h.Events[a].Type = h.Events[b].Type
			case 2:
				h.Events[a].Op = []string{history.OpSet, history.OpLog, history.OpWrite, history.OpRead}[rnd.IntN(4)]
			case 3:
				h.Events = slices.Delete(h.Events, a, a+1)
			case 4:
				h.Events[a].Session, h.Events[a].Key = h.Events[b].Session, ""
			}
			if len(h.Events) == 0 {
				break
			}
		}
		for _, res := range Check(h).Results {
			if len(res.Because) == 0 || res.Because[:min(11, len(res.Because))] == "the checker" {
				t.Fatalf("%s: %q:\n%s", res.Property, res.Because, lines(h))
			}
		}
	}
}

// randomHistory is a small well-formed history of a lock that does as it likes.
func randomHistory(rnd *rand.Rand) *history.History {
	h := &history.History{Params: history.Params{MayBeIdle: true, StampError: time.Duration(beat * int64(rnd.IntN(2)*rnd.IntN(2)))}}
	for _, c := range []string{"c1", "c2", "c3"}[:2+rnd.IntN(2)] {
		h.Params.Clients = append(h.Params.Clients, c)
		g := &randomClient{Rand: rnd, name: c, at: beat * int64(rnd.IntN(6))}
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

func (g *randomClient) pass(most int) { g.at += beat * int64(g.IntN(most+1)) }

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
	switch g.IntN(8) {
	case 0:
		g.events = append(g.events, history.Event{T: g.at, Process: history.Nemesis, Type: history.Invoke, Op: killed, Node: g.name})
		g.pass(1)
		g.events = append(g.events, history.Event{T: g.at, Process: history.Nemesis, Type: history.Begin, Op: killed, Node: g.name})
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
		ret.ValidUntil = max(beat, g.at+beat*int64(g.IntN(13)-3))
	}
}

func lines(h *history.History) string {
	var all string
	for _, e := range h.Events {
		all += seconds(e.T) + " " + e.Process + " " + string(e.Type) + " " + e.Op + " " + e.Session + e.Node + " until " + seconds(e.ValidUntil) + "\n"
	}
	return all
}
