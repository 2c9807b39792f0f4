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

// TestAgainstDumb compares the sweep over belief windows with a judge that asks
// of each instant and each session whether it was believed in.
func TestAgainstDumb(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	violated := 0
	for i := range 20_000 {
		h := randomHistory(rnd)
		got, want := newRecord(h).overlapping(), dumb(h)
		if got.incidents != want.incidents || got.from != want.from || got.to != want.to || got.doubleHold != want.doubleHold {
			t.Fatalf("history %d: got %d incidents, longest %d to %d, double hold %d; want %d, %d to %d, %d:\n%s", i,
				got.incidents, got.from, got.to, got.doubleHold, want.incidents, want.from, want.to, want.doubleHold, lines(h))
		}
		if got.incidents > 0 {
			violated++
		}
	}
	if violated < 2000 || violated > 18_000 {
		t.Errorf("%d of 20000 histories violate mutual exclusion: the comparison is one-sided", violated)
	}
}

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
	name   string
	at     int64
	events []history.Event
}

func (g *randomClient) emit(typ history.Type, op, session string) *history.Event {
	g.events = append(g.events, history.Event{T: g.at, Process: g.name, Type: typ, Op: op, Session: session, Key: "k"})
	return &g.events[len(g.events)-1]
}

func (g *randomClient) pass(most int) { g.at += beat * int64(g.IntN(most+1)) }

// cycle acquires, extends and releases at random. It answers false if the client is no more.
func (g *randomClient) cycle(session string) bool {
	outcome := func() history.Type {
		return []history.Type{history.OK, history.OK, history.OK, history.Fail, history.Info}[g.IntN(5)]
	}
	g.pass(3)
	g.emit(history.Invoke, history.OpAcquire, session)
	g.pass(3)
	ret := g.emit(outcome(), history.OpAcquire, session)
	switch {
	case ret.Type == history.OK:
		g.grant(ret)
	case ret.Type == history.Fail || g.IntN(2) == 0:
		return true
	} // otherwise it goes on with a handle that may be none
	for g.IntN(3) == 0 {
		g.pass(4)
		g.emit(history.Invoke, history.OpExtend, session)
		g.pass(3)
		g.grant(g.emit(outcome(), history.OpExtend, session))
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
	g.emit(history.Invoke, history.OpRelease, session)
	g.pass(3)
	g.emit(outcome(), history.OpRelease, session)
	return true
}

func (g *randomClient) grant(ret *history.Event) {
	if g.IntN(20) > 0 {
		ret.ValidUntil = max(beat, g.at+beat*int64(g.IntN(13)-3))
	}
}

// dumbWindow is a window as the dumb judge sees it.
type dumbWindow struct {
	session  string
	from, to int64
}

// dumb finds overlaps by asking of each session and instant.
func dumb(h *history.History) overlaps {
	end := h.Events[len(h.Events)-1].T
	ε := int64(h.Params.StampError)
	var windows []dumbWindow
	for _, c := range h.Params.Clients {
		for n := '1'; n < '4'; n++ {
			s := c + "/" + string(n)
			from := int64(-1)
			for at := int64(0); at <= end; at += beat {
				switch is := at < end && believes(h, s, at+beat/2); {
				case is && from < 0:
					from = at
				case !is && from >= 0:
					if from+ε < at-ε {
						windows = append(windows, dumbWindow{s, from + ε, at - ε})
					}
					from = -1
				}
			}
		}
	}
	return compare(windows, end)
}

// believes replays one session's events up to an instant.
func believes(h *history.History, session string, at int64) bool {
	held, until := false, int64(0)
	var pending *history.Event // an extension's call
	for i := range h.Events {
		e := &h.Events[i]
		if e.T > at && pending == nil {
			break
		}
		if e.Process == history.Nemesis && e.Type == history.Invoke && e.Node == session[:2] && e.T <= at {
			return false
		}
		if e.Session != session {
			continue
		}
		extended := e.Op == history.OpExtend && e.Type != history.Invoke
		if e.T > at { // the return of an extension that is under way
			if e.Type == history.OK && e.ValidUntil != 0 && e.ValidUntil < e.T && at > max(pending.T, e.ValidUntil) {
				return false
			}
			break
		}
		switch {
		case e.Op == history.OpAcquire && e.Type == history.OK:
			held, until = true, never
			if e.ValidUntil != 0 {
				until = e.ValidUntil
			}
		case e.Op == history.OpExtend && e.Type == history.Invoke:
			pending = e
		case extended && e.Type == history.OK && e.ValidUntil != 0:
			if e.ValidUntil >= e.T {
				until = e.ValidUntil
			} else {
				until = min(until, e.T)
			}
		case extended && e.Type == history.Fail:
			until = min(until, e.T)
		case e.Op == history.OpRelease:
			return false
		}
		if extended {
			pending = nil
		}
	}
	return held && at < until
}

// compare looks at every pair of windows.
func compare(windows []dumbWindow, end int64) overlaps {
	var o overlaps
	component := make([]int, len(windows))
	for i := range windows {
		component[i] = i
	}
	hit := map[int]bool{}
	for i, a := range windows {
		for j, b := range windows {
			from, to := max(a.from, b.from), min(a.to, b.to)
			if i == j || a.session == b.session || from >= to {
				continue
			}
			if to-from > o.to-o.from || to-from == o.to-o.from && from < o.from {
				o.from, o.to = from, to
			}
			hit[i] = true
			old := component[j]
			for k, c := range component {
				if c == old {
					component[k] = component[i]
				}
			}
		}
	}
	roots := map[int]bool{}
	for i := range hit {
		roots[component[i]] = true
	}
	o.incidents = len(roots)
	for at := int64(0); at < end; at += beat {
		n := 0
		for _, w := range windows {
			if w.from <= at && at < w.to {
				n++
			}
		}
		if n > 1 {
			o.doubleHold += beat
		}
	}
	return o
}

func lines(h *history.History) string {
	var all string
	for _, e := range h.Events {
		all += seconds(e.T) + " " + e.Process + " " + string(e.Type) + " " + e.Op + " " + e.Session + e.Node + " until " + seconds(e.ValidUntil) + "\n"
	}
	return all
}
