package liveness

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

// TestOrdersAgainstALookAtEach compares what is kept in order with a look at each: see
// histories.Compare.
func TestOrdersAgainstALookAtEach(t *testing.T) {
	histories.Compare(t, func(h *history.History) (*Run, bool) {
		r := facts.Read(h)
		return Read(r, spans.NewBeliefs(r)), r.Malformed == ""
	}, map[string]func(*rand.Rand, *Run) (got, want string){
		"lapse": lapsesAt, "grants after": grantsAfter, "waiters": waiters, "rivals": rivals,
	})
}

func lapsesAt(rng *rand.Rand, r *Run) (got, want string) {
	at := rng.Int64N(max(1, r.End))
	latest := at + r.keys.life
	for _, back := range r.keys.back {
		lapse := at + r.keys.life
		for _, s := range slices.SortedStableFunc(slices.Values(back.steps), func(a, b setBack) int { return cmp.Compare(a.From, b.From) }) {
			if s.To >= at && s.From <= lapse {
				lapse += s.by
			}
		}
		latest = max(latest, lapse)
	}
	return fmt.Sprint(r.keys.of(at)), fmt.Sprint(latest)
}

func grantsAfter(rng *rand.Rand, r *Run) (got, want string) {
	at := rng.Int64N(r.End + 1)
	for _, c := range r.locks {
		var but *facts.Session
		if all := c.grants(); len(all) > 0 {
			but = all[rng.IntN(len(all))]
		}
		i := slices.IndexFunc(c.grants(), func(s *facts.Session) bool { return s.Acquire.Return.T > at && !again(s, but) })
		if s := c.grantAfter(at, but); s != nil {
			got += s.Name() + " "
		}
		if i >= 0 {
			want += c.grants()[i].Name() + " "
		}
	}
	return got, want
}

func waiters(rng *rand.Rand, r *Run) (got, want string) {
	at := rng.Int64N(r.End + 1)
	until := at + rng.Int64N(50)
	for _, c := range r.locks {
		w := c.callers()
		for _, client := range w.clients(until, w.ended, at) {
			got += client + " "
		}
		for _, client := range c.names {
			if slices.ContainsFunc(c.byClient()[client], func(s *facts.Session) bool { return s.Acquire.Call.T <= until && s.Acquire.Ended() > at }) {
				want += client + " "
			}
			d := loss{lock: c, at: at, session: c.byClient()[client][0]}
			next := c.grantAfter(at, d.session)
			if waiters, _ := d.waiters(next); (len(waiters) > 0) != d.awaited(next) {
				return "somebody waits: " + fmt.Sprint(d.awaited(next)), fmt.Sprint(len(waiters))
			}
		}
	}
	return got, want
}

// rivals looks at each pair of attempts: both met if the later began before all that the earlier sent was done.
func rivals(_ *rand.Rand, r *Run) (got, want string) {
	for _, c := range r.locks {
		if c.wire == nil {
			continue
		}
		met := make([]bool, len(c.wire.Attempts))
		for j, b := range c.wire.Attempts {
			for i, a := range c.wire.Attempts[:j] {
				done := a.To
				for _, d := range a.Deletes {
					done = max(done, d.T)
				}
				if done >= b.From && a.Session.Client() != b.Session.Client() {
					met[i], met[j] = true, true
				}
			}
		}
		got += fmt.Sprint(metRival(c.wire), " ")
		want += fmt.Sprint(met, " ")
	}
	return got, want
}

// TestSplitVotes counts attempts on a free lock that met, and of which nobody had a majority. A grant ends
// a row of them; an attempt of which too few nodes are known to have answered is none.
func TestSplitVotes(t *testing.T) {
	const begin = "params clients=c1,c2 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms\n"
	split := func(at float64, answers string) string {
		return fmt.Sprintf("%[1]f c1 invoke acquire session=c1/%[1]f\n%[1]f c2 invoke acquire session=c2/%[1]f\n%[2]f c1-n1 ok set token=A%[1]f\n%[2]f c2-n2 ok set token=B%[1]f\n", at, at+0.01) +
			fmt.Sprintf(answers, at, at+0.01) + fmt.Sprintf("%[1]f c1-n1 ok release token=A%[2]f\n%[1]f c2-n2 ok release token=B%[2]f\n%[1]f c1 fail acquire session=c1/%[2]f\n%[1]f c2 fail acquire session=c2/%[2]f\n", at+0.05, at)
	}
	const refused = "%[2]f c1-n2 fail set token=A%[1]f\n%[2]f c2-n1 fail set token=B%[1]f\n"
	const unheard = "%[2]f c1-n2 fail set token=A%[1]f answered=0\n%[2]f c2-n1 fail set token=B%[1]f\n"
	const won = "5 c1 invoke acquire session=c1/w\n5.01 c1-n1,n2 ok set token=W\n5.02 c1 ok acquire session=c1/w token=W until=14\n" +
		"5.03 c1 invoke release session=c1/w\n5.04 c1-n1,n2 ok release token=W\n5.05 c1 ok release session=c1/w\n"
	const tooSoon = "1 c1 invoke acquire session=c1/1\n1 c2 invoke acquire session=c2/1\n1.01 c1-n1 ok set token=A1\n1.02 c1-n2 fail set token=A1\n" +
		"1.1 c1-n3 ok set token=A2\n1.11 c1-n2 fail set token=A2\n1.2 c2-n2 ok set token=B\n1.21 c2-n3 fail set token=B\n" +
		"1.3 c1-n1 ok release token=A1\n1.31 c1-n3 ok release token=A2\n1.32 c2-n2 ok release token=B\n1.4 c1 fail acquire session=c1/1\n1.4 c2 fail acquire session=c2/1\n"
	for name, row := range map[string]struct {
		text                string
		split, won, longest int
	}{
		"two attempts":                         {split(1, refused), 2, 0, 2},
		"two of one client at once":            {tooSoon, 3, 0, 3},
		"one of which nobody heard enough":     {split(1, unheard), 1, 0, 1},
		"twice two in a row":                   {split(1, refused) + split(3, refused), 4, 0, 4},
		"twice two, and a grant between":       {split(1, refused) + won + split(7, refused), 4, 1, 2},
		"a grant, and twice two in a row then": {won + split(7, refused) + split(8, refused), 4, 1, 4},
	} {
		r := facts.Read(histories.Story(begin + row.text + "20 harness end run"))
		split, won, longest := splitVotes(Read(r, spans.NewBeliefs(r)).locks[0])
		if split != row.split || won != row.won || longest != row.longest || r.Malformed != "" {
			t.Errorf("%s: %d split, %d won, %d in a row; want %d, %d and %d %s", name, split, won, longest, row.split, row.won, row.longest, r.Malformed)
		}
	}
}

// TestHoldOfAnUnknownAcquire says how long who got no answer may hold the lock: until the last key that is
// known of it has lapsed, and if nobody knows of keys, for ever.
func TestHoldOfAnUnknownAcquire(t *testing.T) {
	const begin = "params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms\n1 c1 invoke acquire session=c1/1\n"
	const gaveUp = "3 c1 info acquire session=c1/1\n"
	const another = "2.1 c2-n1 fail set token=B\n" // the links tell of this lock
	for name, row := range map[string]struct {
		text     string
		from, to int64
	}{
		"nobody knows what it asked":      {gaveUp, 1e9, facts.Never},
		"it asked nobody":                 {gaveUp + "2 c2 invoke acquire session=c2/1\n" + another, 0, 0},
		"it set a key":                    {gaveUp + "2.1 c1-n1 info set token=A sent=2 applied=2.05 answered=0\n", 2e9, 12.05e9},
		"it set two":                      {gaveUp + "1.1 c1-n1 info set token=A sent=1.05 applied=1.06 answered=0\n2.1 c1-n1 info set token=A2 sent=2 applied=2.05 answered=0\n", 2e9, 12.05e9},
		"it is still under way":           {"2.1 c1-n1 info set token=A sent=2 applied=2.05 answered=0\n", 2e9, 12.05e9},
		"it failed, and left a key":       {"2.1 c1-n1 ok set token=A sent=2 applied=2.05\n3 c1 fail acquire session=c1/1\n", 0, 0},
		"it was extended, which says all": {gaveUp + "4 c1 invoke extend session=c1/1\n4.1 c1 ok extend session=c1/1 until=14\n", 1e9, facts.Never},
	} {
		r := facts.Read(histories.Story(begin + row.text + "20 harness end run"))
		c := Read(r, spans.NewBeliefs(r)).locks[0]
		h, ok := holdOf(r, c.keys, r.Named("c1/1"), c.wire)
		if ok != (row.to != 0) || ok && (h.From != row.from || h.To != row.to) || r.Malformed != "" {
			t.Errorf("%s: it may hold the lock (%t) from %d to %d, want %d to %d %s", name, ok, h.From, h.To, row.from, row.to, r.Malformed)
		}
	}
}

// TestRoundsLostToStalls says which attempts may have failed for a stall alone, and when their client tries
// again at the latest: a node time-out and a retry delay after they began.
func TestRoundsLostToStalls(t *testing.T) {
	const text = `params clients=c1 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=100ms retryMax=200ms slack=100ms
1 c1 invoke acquire session=c1/1
1.02 nemesis begin stall node=machine
1.05 nemesis end stall node=machine
%s2 c1 fail acquire session=c1/1
20 harness end run`
	const one = "1.02 c1-n1 ok set token=A sent=1.01 applied=1.015\n"
	for name, row := range map[string]struct{ answers, want string }{
		"the other two are late":      {one + "1.06 c1-n2 info set token=A sent=1.01 applied=0 answered=0\n", "from 1.01 s to 1.31 s (0.3 s)"},
		"it had its votes":            {one + "1.03 c1-n2 ok set token=A sent=1.01 applied=1.015\n1.04 c1-n3 info set token=A sent=1.01 applied=0 answered=0\n", ""},
		"the other two refused":       {one + "1.03 c1-n2 fail set token=A sent=1.01 applied=1.015\n1.04 c1-n3 fail set token=A sent=1.01 applied=1.015\n", ""},
		"one refused and one is late": {one + "1.03 c1-n2 fail set token=A sent=1.01 applied=1.015\n", "from 1.01 s to 1.31 s (0.3 s)"},
	} {
		r := facts.Read(histories.Story(fmt.Sprintf(text, row.answers)))
		got := ""
		for _, s := range Read(r, spans.NewBeliefs(r)).locks[0].spoiled()["c1"] {
			got += facts.FromTo(s.From, s.To)
		}
		if got != row.want || r.Malformed != "" {
			t.Errorf("%s: lost %q, want %q %s", name, got, row.want, r.Malformed)
		}
	}
}
