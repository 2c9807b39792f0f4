package facts

import (
	"math"
	"math/rand/v2"
	"testing"

	"lockpick/harness/history"
)

// choices is an endless source of choices: first its bytes, then zeros.
type choices []byte

func (p *choices) next(n int) int {
	if len(*p) == 0 {
		return 0
	}
	b := (*p)[0]
	*p = (*p)[1:]
	return int(b) % n
}

func choose[T any](p *choices, of ...T) T { return of[p.next(len(of))] }

// randomHistory returns a history that combines valid names and values at random.
func randomHistory(p *choices) *history.History {
	names := []string{"c1", "c1", "c1", "c1", "c2", "c2", "c3", "n1", "c1-n1", "c2-r1", "r1", history.Nemesis, history.Harness, history.Machine, ""}
	ops := []string{history.OpAcquire, history.OpAcquire, history.OpAcquire, history.OpAcquire, history.OpRead, history.OpCheck, history.OpWrite, history.OpRelease, history.OpExtend, history.OpSet,
		history.OpLog, history.OpClient, history.OpRun, history.OpClock, history.OpStop, history.OpUnsupported, history.OpLife, Pause, Kill, history.OpStall, "\x00"}
	types := []history.Type{history.Invoke, history.Invoke, history.OK, history.OK, history.Fail, history.Info, history.Begin, history.End, "?"}
	times := []int64{0, 1, 5e8, 1e9, 1e9 + 1, 2e9, 11e9, -1, math.MaxInt64, math.MinInt64}
	h := &history.History{Params: history.Params{Epoch: choose(p, times...)}}
	for range p.next(5) {
		h.Params.Clients = append(h.Params.Clients, choose(p, names...))
	}
	for len(*p) > 0 {
		h.Events = append(h.Events, history.Event{
			N: int64(len(h.Events) + 1), T: choose(p, times...), Process: choose(p, names...), Type: choose(p, types...), Op: choose(p, ops...),
			Key: choose(p, "k", "k", "l", ""), Session: choose(p, "c1/1", "c1/2", "c2/1", ""), Token: choose(p, "a", "b", ""), Fence: choose(p, times...),
			ValidUntil: choose(p, times...), Local: choose(p, times...), WallClock: p.next(2) == 0, Drift: choose(p, times...), Node: choose(p, "", "", "n1", "c1", "c1-n1"),
			Life:    choose(p, nil, &history.Life{Kind: choose(p, history.KeySet, history.KeyExpiry, history.KeyChanged, history.KeyDeleted, history.KeyGap), Seq: int64(p.next(9))}),
			Version: choose(p, times...), SentAt: choose(p, times...), AppliedAt: choose(p, times...), Step: p.next(3), Cause: choose(p, "", "write", "read"),
		})
	}
	if p.next(2) == 0 {
		history.Sort(h.Events)
	}
	return h
}

// checkInvariants checks properties of the facts from any history: for example, each event occurs
// at most once, and in the right place.
func checkInvariants(t *testing.T, f *Facts) {
	t.Helper()
	counts := map[*history.Event]int{}
	put := func(events ...*history.Event) {
		for _, e := range events {
			if e == nil {
				continue
			}
			if counts[e]++; counts[e] > 1 {
				t.Fatalf("event %d occurs twice", e.N)
			}
		}
	}
	operation := func(s *Session, o Operation) {
		if put(o.Call); o.Return != o.Call {
			put(o.Return)
		}
		if o.Return != nil && (o.Return.Op != o.Call.Op || o.Return.Process != s.Client()) {
			t.Fatalf("event %d can't be the return of event %d", o.Return.N, o.Call.N)
		}
	}
	numSessions, lockSessions := 0, 0
	for s := range f.Sessions() {
		numSessions++
		operation(s, s.Acquire)
		for a := range s.Actions() {
			operation(s, a)
		}
		lastEnd := int64(math.MinInt64)
		for w := range f.Windows(s) {
			if w.From > w.To || w.From == w.To && !f.StillOpen(w) || w.From < lastEnd || w.OpenEvent == nil {
				t.Fatalf("%s has a window from %d to %d after time %d", s.Name(), w.From, w.To, lastEnd)
			}
			lastEnd = w.To
			f.WindowEnd(w)
		}
	}
	for _, l := range f.Locks {
		for s := range l.Sessions() {
			if lockSessions++; s.Key() != l.Name {
				t.Fatalf("%s belongs to lock %s, not to %s", s.Name(), s.Key(), l.Name)
			}
		}
	}
	if lockSessions > numSessions {
		t.Fatalf("the locks have %d sessions, but there are only %d", lockSessions, numSessions)
	}
	for _, x := range f.Faults {
		put(x.Events()...)
		checkFault(t, f, x)
	}
	for _, list := range [][]*history.Event{f.LockCommands, f.OtherCommands, f.UnsupportedCommands, f.Log, f.UnmatchedEvents} {
		put(list...)
	}
	if put(f.StopEvent); len(f.SentCommands()) != len(f.LockCommands)+len(f.OtherCommands) {
		t.Fatal("a command is missing or listed twice")
	}
	checkDerived(t, f)
	f.AllWindows()
	f.Writes()
	f.LockCommandsByNode()
}

// checkDerived checks the data that is computed when first needed.
func checkDerived(t *testing.T, f *Facts) {
	t.Helper()
	for _, w := range f.AttemptsByLock() {
		for _, a := range w.Attempts {
			if len(a.Sets) > 0 && a.Session.Client() != Sender(a.Sets[0]) {
				t.Fatalf("an attempt of %s was sent by another client", a.Session.Name())
			}
		}
	}
	for _, key := range f.Lives().Keys {
		for _, s := range f.Lives().Intervals("n1", key) {
			if s.To(); s.Start == nil || s.Start.Process != "n1" || s.Start.Key != key {
				t.Fatalf("a value of %s on n1 has no valid start event", key)
			}
		}
	}
}

func checkFault(t *testing.T, f *Facts, x *Fault) {
	t.Helper()
	if x.FirstEvent() == nil || x.To() < x.From() && f.Defect == "" && x.End.N > x.Begin.N {
		t.Fatalf("%s %s lasts from %d to %d", x.Kind, x.Target, x.From(), x.To())
	}
	for _, e := range x.Events() {
		if e.Op != x.Kind || e.Node != x.Target || e.Step != x.Step {
			t.Fatalf("event %d does not belong to %s %s", e.N, x.Kind, x.Target)
		}
	}
}

func TestReadAcceptsAnyHistory(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	numGrants, numUnmatched := 0, 0
	for range 3000 {
		raw := make([]byte, rng.IntN(2000))
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		p := choices(raw)
		h := randomHistory(&p)
		f := Read(h)
		checkInvariants(t, f)
		checkInvariants(t, ReadUpToStop(h))
		numGrants += f.Grants
		numUnmatched += len(f.UnmatchedEvents)
	}
	if numGrants < 200 || numUnmatched < 1000 {
		t.Errorf("all histories together have only %d grants and %d unmatched events", numGrants, numUnmatched)
	}
}

func TestReadNil(t *testing.T) {
	if f := Read(nil); f.Defect != "" || f.FirstClientTime != -1 {
		t.Errorf("got facts %+v", f)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x03\x01\x01\x02 acquire ok acquire"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := choices(raw)
		h := randomHistory(&p)
		checkInvariants(t, Read(h))
		checkInvariants(t, ReadUpToStop(h))
	})
}
