package checker

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// What is found in an order that was made for it is compared with a look at each: the ways
// below are those in which one would look for it who had all the time in the world.

// TestReadingAgainstALookAtEach compares what the reading of a history keeps in order.
func TestReadingAgainstALookAtEach(t *testing.T) {
	bypasses, faults, stopped, turned := 0, 0, 0, 0
	for seed := range uint64(3000) {
		h := upheavalOf(seed)
		f := facts.Read(h)
		if want := faultsOneByOne(h); !reflect.DeepEqual(want, f.Faults) {
			t.Fatalf("seed %d: other faults", seed)
		}
		faults += len(f.Faults)
		for i := range h.Events {
			if got, want := f.Events[i].ValidUntil, h.Events[i].Reached(turnsOf(h)); got != want {
				t.Fatalf("seed %d: event %d is valid until %d, want %d", seed, i+1, got, want)
			} else if want != h.Events[i].ValidUntil {
				turned++
			}
		}
		if got, want := strings.Contains(f.Malformed, "had been stopped"), stoppedOneByOne(h, f); got != want {
			t.Fatalf("seed %d: a process did something while it was stopped: %v, want %v: %s", seed, got, want, f.Malformed)
		} else if want {
			stopped++
		}
		if f.Malformed != "" {
			continue
		}
		if want := bypassesOneByOne(h); f.Bypasses != want {
			t.Fatalf("seed %d: %d bypasses, want %d", seed, f.Bypasses, want)
		}
		bypasses += f.Bypasses
		for _, w := range f.Wires() {
			for _, a := range w.Attempts {
				for _, e := range a.Sets {
					at, sent := a.Deletion(e)
					if wantAt, wantSent := deletionOneByOne(a, e); at != wantAt || sent != wantSent {
						t.Fatalf("seed %d: a key was deleted at %d, sent %d, want %d and %d", seed, at, sent, wantAt, wantSent)
					}
				}
			}
		}
	}
	if min(bypasses, faults, stopped, turned) < 100 {
		t.Errorf("%d bypasses, %d faults, %d stopped, %d turned: too few to show anything", bypasses, faults, stopped, turned)
	}
}

func turnsOf(h *history.History) []history.Event {
	var turns []history.Event
	for _, e := range h.Events {
		if e.Op == history.OpClock && !slices.Contains(h.Params.Nodes, e.Node) {
			turns = append(turns, e)
		}
	}
	return turns
}

func faultsOneByOne(h *history.History) []*fault {
	var all []*fault
	for _, e := range history.CameTrue(h.Events) {
		if e.Process != history.Nemesis || e.Type == history.Info {
			continue
		}
		last := func(open func(*fault) bool) *fault {
			for _, x := range slices.Backward(all) {
				if x.Kind == e.Op && x.Target == e.Node && x.Step == e.Step && open(x) {
					return x
				}
			}
			all = append(all, &fault{Kind: e.Op, Target: e.Node, Step: e.Step})
			return all[len(all)-1]
		}
		switch e.Type {
		case history.Invoke:
			last(func(*fault) bool { return false }).Invoke = &e
		case history.Begin:
			last(func(x *fault) bool { return x.Begin == nil && x.End == nil && x.Fail == nil }).Begin = &e
		case history.Fail:
			last(func(x *fault) bool { return x.End == nil && x.Fail == nil }).Fail = &e
		case history.End:
			last(func(x *fault) bool { return x.Begin != nil && x.End == nil }).End = &e
		}
	}
	return all
}

// stoppedOneByOne reports whether a process did something while it was stopped, in a
// history of which nothing worse is to be said.
func stoppedOneByOne(h *history.History, f *facts.Facts) bool {
	if f.Malformed != "" && !strings.Contains(f.Malformed, "had been stopped") {
		return false
	}
	for _, e := range h.Events {
		for _, x := range f.Faults {
			if x.Begin != nil && (x.Kind == paused || x.Kind == killed) && x.Target == e.Process && e.T > x.Begin.T && (x.End == nil || e.T < x.End.T) {
				return true
			}
		}
	}
	return false
}

func bypassesOneByOne(h *history.History) int {
	n := 0
	waits, dead := map[string]history.Event{}, map[string]bool{}
	for _, e := range h.Events {
		switch {
		case e.Process == history.Nemesis:
			dead[e.Node] = dead[e.Node] || e.Op == killed && e.Type == history.Begin
		case e.Op != history.OpAcquire || e.Node != "":
		case e.Type == history.Invoke:
			waits[e.Process] = e
		default:
			called := waits[e.Process]
			delete(waits, e.Process)
			for client, w := range waits {
				if e.Type == history.OK && w.Key == called.Key && !dead[client] && w.T < called.T {
					n++
				}
			}
		}
	}
	return n
}

func deletionOneByOne(a *attempt, set *history.Event) (at, sent int64) {
	at = never
	for _, d := range a.Deletes {
		if d.Node != set.Node {
			continue
		}
		if d.Sent >= set.Sent && (sent == 0 || d.Sent < sent) { // else it was meant for an earlier key
			sent = d.Sent
		}
		if refused := d.Type == history.Fail && d.Cause != ""; !refused && d.Applied > facts.Applied(set) {
			at = min(at, d.Applied)
		}
	}
	return at, sent
}

// TestOrdersAgainstALookAtEach compares what the judges keep in order.
func TestOrdersAgainstALookAtEach(t *testing.T) {
	for seed := range uint64(3000) {
		r := newRecord(upheavalOf(seed))
		if r.Malformed != "" {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		for what, check := range map[string]func(*rand.Rand, *record) (got, want string){
			"lapse": lapses, "grants after": grantsAfter, "waiters": waits, "keys": keys, "courses": courses, "unseen writes": unseenWrites, "meetings": met, "stalls": late,
		} {
			if got, want := check(rng, r); got != want {
				t.Fatalf("seed %d: %s: got %s, want %s", seed, what, got, want)
			}
		}
	}
}

func lapses(rng *rand.Rand, r *record) (got, want string) {
	at := rng.Int64N(max(1, r.End))
	latest := at + r.life()
	for _, back := range r.setBacks() {
		lapse := at + r.life()
		for _, s := range slices.SortedStableFunc(slices.Values(back.steps), func(a, b setBack) int { return cmp.Compare(a.from, b.from) }) {
			if s.to >= at && s.from <= lapse {
				lapse += s.by
			}
		}
		latest = max(latest, lapse)
	}
	return fmt.Sprint(r.lapse(at)), fmt.Sprint(latest)
}

func grantsAfter(rng *rand.Rand, r *record) (got, want string) {
	at, but := rng.Int64N(r.End+1), r.Params.Clients[rng.IntN(len(r.Params.Clients))]
	for _, c := range r.contests() {
		i := slices.IndexFunc(c.grants(), func(s *session) bool { return s.Acquire.Return.T > at && s.Client() != but })
		if s := c.grantAfter(at, but); s != nil {
			got += s.Name() + " "
		}
		if i >= 0 {
			want += c.grants()[i].Name() + " "
		}
	}
	return got, want
}

func waits(rng *rand.Rand, r *record) (got, want string) {
	at := rng.Int64N(r.End + 1)
	until := at + rng.Int64N(50)
	for _, c := range r.contests() {
		w := r.callers(c)
		for _, client := range w.clients(until, w.ended, at) {
			got += client + " "
		}
		for _, client := range c.names {
			if slices.ContainsFunc(r.of(c)[client], func(s *session) bool { return s.Acquire.Call.T <= until && s.Acquire.Ended() > at }) {
				want += client + " "
			}
			d, next := loss{contest: c, at: at, session: r.of(c)[client][0]}, c.grantAfter(at, client)
			if waiters, _ := r.waiters(d, next); (len(waiters) > 0) != r.awaited(d, next) {
				return "somebody waits: " + fmt.Sprint(r.awaited(d, next)), fmt.Sprint(len(waiters))
			}
		}
	}
	return got, want
}

func keys(rng *rand.Rand, r *record) (got, want string) {
	at := rng.Int64N(r.End + 1)
	for _, n := range r.Params.Nodes {
		live := map[string]bool{}
		for _, e := range r.Links {
			switch {
			case e.Node != n || e.Type != history.OK || facts.Applied(e) > at:
			case e.Op == history.OpRelease:
				delete(live, e.Key)
			case facts.Applied(e)+cmp.Or(e.TTL, int64(r.Params.TTL)) >= at:
				live[e.Key] = true
			}
		}
		got += fmt.Sprint(r.keysOn(n).meets(interval{at, at}), " ")
		want += fmt.Sprint(len(live) > 0, " ")
	}
	return got, want
}

// courses asks of each session as if it were long.
func courses(rng *rand.Rand, r *record) (got, want string) {
	kept := &record{Facts: r.Facts, courses: map[*session]*course{}}
	at := rng.Int64N(r.End + 1)
	for s := range r.Sessions() {
		if !s.Granted() || r.courseOf(s) != nil {
			continue
		}
		kept.courses[s] = r.follow(s)
		for who, text := range map[*record]*string{r: &want, kept: &got} {
			w, ok := who.until(s, at)
			*text += fmt.Sprint(w.From, w.To, ok, who.claimedAt(s, at))
			for _, e := range r.Log {
				x, ok := who.answeredBy(s, e)
				*text += fmt.Sprint(x.Call, ok)
			}
		}
	}
	return got, want
}

func unseenWrites(_ *rand.Rand, r *record) (got, want string) {
	a := &applied{}
	for i, w := range readBooks(r).applied {
		w.Made, w.Version = int64(i+1), int64(i)-w.Version%5
		x, ok := a.unseen(w)
		got += fmt.Sprint(x.Made, ok, " ")
		i := slices.IndexFunc(a.writes, func(x facts.Write) bool { return x.Made > w.Version && x.Session != w.Session })
		if i < 0 {
			want += fmt.Sprint(0, false, " ")
		} else {
			want += fmt.Sprint(a.writes[i].Made, true, " ")
		}
		a.add(w)
	}
	return got, want
}

func met(_ *rand.Rand, r *record) (got, want string) {
	ε := int64(r.Params.StampError)
	for _, l := range r.Locks {
		ws, n := r.windowsOf(l), 0
		for s := range l.Sessions() {
			wait := r.wait(s)
			if slices.ContainsFunc(ws, func(w window) bool {
				meets := w.from-ε <= wait.to && w.to+ε >= wait.from
				follows := s.Acquire.Outcome() == history.Fail && w.from >= wait.to && w.from <= wait.to+int64(r.Params.TTL) && w.session.Client() != s.Client()
				return w.session != s && (meets || follows)
			}) {
				n++
			}
		}
		got += fmt.Sprint(r.meetings(l, ws), " ")
		want += fmt.Sprint(n, " ")
	}
	return got, want
}

func late(_ *rand.Rand, r *record) (got, want string) {
	for _, stall := range r.stalls() {
		made := false
		for s := range r.Sessions() {
			for b := range r.Windows(s) {
				made = made || stall.from < b.To && b.To < stall.to
			}
		}
		for _, f := range r.Faults {
			for _, e := range f.Events() {
				made = made || f.Kind != history.OpStall && e.Type != history.Fail && stall.from < e.T && e.T < stall.to+int64(r.Params.Slack)
			}
		}
		got += fmt.Sprint(r.lateness().by(stall), " ")
		want += fmt.Sprint(made, " ")
	}
	return got, want
}
