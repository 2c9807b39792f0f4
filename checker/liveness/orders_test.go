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

// TestSortedSearchesAgainstNaive compares searches in sorted lists with scans of every element; see
// histories.Compare.
func TestSortedSearchesAgainstNaive(t *testing.T) {
	histories.Compare(t, func(h *history.History) (*Run, bool) {
		r := facts.Read(h)
		return Read(r, spans.NewBeliefs(r)), r.Defect == ""
	}, map[string]func(*rand.Rand, *Run) (got, want string){
		"lapse": compareLapses, "grants after": compareGrants, "waiters": compareWaiters, "overlapping attempts": compareOverlaps,
	})
}

func compareLapses(rng *rand.Rand, r *Run) (got, want string) {
	at := rng.Int64N(max(1, r.End))
	client := r.Params.Clients[rng.IntN(len(r.Params.Clients))]
	life := int64(float64(r.Params.TTLOf(client).TTL) * (1 + r.Params.Rate))
	latest := at + life
	for _, nodeSteps := range r.lapses.backwardSteps {
		lapse := at + life
		for _, s := range slices.SortedStableFunc(slices.Values(nodeSteps.steps), func(a, b backwardStep) int { return cmp.Compare(a.From, b.From) }) {
			if s.To >= at && s.From <= lapse {
				lapse += s.amount
			}
		}
		latest = max(latest, lapse)
	}
	return fmt.Sprint(r.lapses.latestLapse(client, at)), fmt.Sprint(latest)
}

func compareGrants(rng *rand.Rand, r *Run) (got, want string) {
	at := rng.Int64N(r.End + 1)
	for _, c := range r.locks {
		var except *facts.Session
		if all := c.grants(); len(all) > 0 {
			except = all[rng.IntN(len(all))]
		}
		i := slices.IndexFunc(c.grants(), func(s *facts.Session) bool { return s.Acquire.Return.T > at && !sameGrant(s, except) })
		if s := c.grantAfter(at, except); s != nil {
			got += s.Name() + " "
		}
		if i >= 0 {
			want += c.grants()[i].Name() + " "
		}
	}
	return got, want
}

func compareWaiters(rng *rand.Rand, r *Run) (got, want string) {
	at := rng.Int64N(r.End + 1)
	until := at + rng.Int64N(50)
	for _, c := range r.locks {
		w := c.callers()
		for _, client := range w.clientsAfter(until, w.acquireEnds, at) {
			got += client + " "
		}
		for _, client := range c.clientNames {
			if slices.ContainsFunc(c.byClient()[client], func(s *facts.Session) bool { return s.Acquire.Call.T <= until && s.Acquire.ReturnedAt() > at }) {
				want += client + " "
			}
			d := loss{lock: c, at: at, session: c.byClient()[client][0]}
			next := c.grantAfter(at, d.session)
			if waiters, _ := d.waiters(next); (len(waiters) > 0) != d.hasWaiters(next) {
				return "has waiters: " + fmt.Sprint(d.hasWaiters(next)), fmt.Sprint(len(waiters))
			}
		}
	}
	return got, want
}

// compareOverlaps compares every pair of attempts. Two attempts overlap if the later one began
// before all commands of the earlier one had been completed.
func compareOverlaps(_ *rand.Rand, r *Run) (got, want string) {
	for _, c := range r.locks {
		if c.attempts == nil {
			continue
		}
		overlaps := make([]bool, len(c.attempts.Attempts))
		for j, b := range c.attempts.Attempts {
			for i, a := range c.attempts.Attempts[:j] {
				done := a.To
				for _, d := range a.Releases {
					done = max(done, d.T)
				}
				if done >= b.From && a.Session.Client() != b.Session.Client() {
					overlaps[i], overlaps[j] = true, true
				}
			}
		}
		got += fmt.Sprint(rivalOverlaps(c.attempts), " ")
		want += fmt.Sprint(overlaps, " ")
	}
	return got, want
}

// TestSplitVotes counts overlapping attempts on a free lock if all of them failed to get a
// majority. A grant ends a streak. An attempt with too few known answers does not count.
func TestSplitVotes(t *testing.T) {
	const begin = "params clients=c1,c2 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms\n"
	split := func(at float64, answers string) string {
		return fmt.Sprintf("%[1]f c1 invoke acquire session=c1/%[1]f\n%[1]f c2 invoke acquire session=c2/%[1]f\n%[2]f c1-n1 ok set token=A%[1]f\n%[2]f c2-n2 ok set token=B%[1]f\n", at, at+0.01) +
			fmt.Sprintf(answers, at, at+0.01) + fmt.Sprintf("%[1]f c1-n1 ok release token=A%[2]f\n%[1]f c2-n2 ok release token=B%[2]f\n%[1]f c1 fail acquire session=c1/%[2]f\n%[1]f c2 fail acquire session=c2/%[2]f\n", at+0.05, at)
	}
	const refusals = "%[2]f c1-n2 fail set token=A%[1]f\n%[2]f c2-n1 fail set token=B%[1]f\n"
	const unansweredSets = "%[2]f c1-n2 fail set token=A%[1]f answered=0\n%[2]f c2-n1 fail set token=B%[1]f\n"
	const won = "5 c1 invoke acquire session=c1/w\n5.01 c1-n1,n2 ok set token=W\n5.02 c1 ok acquire session=c1/w token=W until=14\n" +
		"5.03 c1 invoke release session=c1/w\n5.04 c1-n1,n2 ok release token=W\n5.05 c1 ok release session=c1/w\n"
	const tooSoon = "1 c1 invoke acquire session=c1/1\n1 c2 invoke acquire session=c2/1\n1.01 c1-n1 ok set token=A1\n1.02 c1-n2 fail set token=A1\n" +
		"1.1 c1-n3 ok set token=A2\n1.11 c1-n2 fail set token=A2\n1.2 c2-n2 ok set token=B\n1.21 c2-n3 fail set token=B\n" +
		"1.3 c1-n1 ok release token=A1\n1.31 c1-n3 ok release token=A2\n1.32 c2-n2 ok release token=B\n1.4 c1 fail acquire session=c1/1\n1.4 c2 fail acquire session=c2/1\n"
	for name, row := range map[string]struct {
		text                string
		split, won, longest int
	}{
		"two attempts":                           {split(1, refusals), 2, 0, 2},
		"two overlapping attempts of one client": {tooSoon, 3, 0, 3},
		"too few answers to one of two":          {split(1, unansweredSets), 1, 0, 1},
		"two pairs in a row":                     {split(1, refusals) + split(3, refusals), 4, 0, 4},
		"two pairs with a grant between them":    {split(1, refusals) + won + split(7, refusals), 4, 1, 2},
		"a grant, then two pairs in a row":       {won + split(7, refusals) + split(8, refusals), 4, 1, 4},
	} {
		r := facts.Read(histories.MustParse(begin + row.text + "20 harness end run"))
		split, won, longest := countSplitVotes(Read(r, spans.NewBeliefs(r)).locks[0])
		if split != row.split || won != row.won || longest != row.longest || r.Defect != "" {
			t.Errorf("%s: %d split votes, %d won, longest streak %d; want %d, %d and %d %s", name, split, won, longest, row.split, row.won, row.longest, r.Defect)
		}
	}
}

// TestHoldOfUnknownAcquire checks how long a client whose acquire got no answer may hold the lock:
// until its last known key has lapsed or, if the record contains no commands, forever.
func TestHoldOfUnknownAcquire(t *testing.T) {
	const begin = "params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms\n1 c1 invoke acquire session=c1/1\n"
	const unknownOutcome = "3 c1 info acquire session=c1/1\n"
	const otherAttempt = "2.1 c2-n1 fail set token=B\n" // so that the record contains commands for this lock
	for name, row := range map[string]struct {
		text     string
		from, to int64
	}{
		"commands not recorded":           {unknownOutcome, 1e9, facts.Never},
		"no command sent":                 {unknownOutcome + "2 c2 invoke acquire session=c2/1\n" + otherAttempt, 0, 0},
		"one key set":                     {unknownOutcome + "2.1 c1-n1 info set token=A sent=2 applied=2.05 answered=0\n", 2e9, 12.05e9},
		"two keys set":                    {unknownOutcome + "1.1 c1-n1 info set token=A sent=1.05 applied=1.06 answered=0\n2.1 c1-n1 info set token=A2 sent=2 applied=2.05 answered=0\n", 2e9, 12.05e9},
		"still in progress":               {"2.1 c1-n1 info set token=A sent=2 applied=2.05 answered=0\n", 2e9, 12.05e9},
		"failed and left a key":           {"2.1 c1-n1 ok set token=A sent=2 applied=2.05\n3 c1 fail acquire session=c1/1\n", 0, 0},
		"extended, commands not recorded": {unknownOutcome + "4 c1 invoke extend session=c1/1\n4.1 c1 ok extend session=c1/1 until=14\n", 1e9, facts.Never},
	} {
		r := facts.Read(histories.MustParse(begin + row.text + "20 harness end run"))
		c := Read(r, spans.NewBeliefs(r)).locks[0]
		h, ok := findHold(r, c.lapses, r.SessionByName("c1/1"), c.attempts)
		if ok != (row.to != 0) || ok && (h.From != row.from || h.To != row.to) || r.Defect != "" {
			t.Errorf("%s: may hold the lock: %t, from %d to %d, want %d to %d %s", name, ok, h.From, h.To, row.from, row.to, r.Defect)
		}
	}
}

// TestRoundsLostToStalls checks which attempts may have failed because of a stall alone, and the
// latest time at which their client retries: a node timeout and a retry delay after they began.
func TestRoundsLostToStalls(t *testing.T) {
	const text = `params clients=c1 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=100ms retryMax=200ms slack=100ms
1 c1 invoke acquire session=c1/1
1.02 nemesis begin stall node=machine
1.05 nemesis end stall node=machine
%s2 c1 fail acquire session=c1/1
20 harness end run`
	const oneVote = "1.02 c1-n1 ok set token=A sent=1.01 applied=1.015\n"
	for name, row := range map[string]struct{ answers, want string }{
		"two answers late":             {oneVote + "1.06 c1-n2 info set token=A sent=1.01 applied=0 answered=0\n", "from 1.01 s to 1.31 s (0.3 s)"},
		"enough votes":                 {oneVote + "1.03 c1-n2 ok set token=A sent=1.01 applied=1.015\n1.04 c1-n3 info set token=A sent=1.01 applied=0 answered=0\n", ""},
		"two refusals":                 {oneVote + "1.03 c1-n2 fail set token=A sent=1.01 applied=1.015\n1.04 c1-n3 fail set token=A sent=1.01 applied=1.015\n", ""},
		"one refusal, one answer late": {oneVote + "1.03 c1-n2 fail set token=A sent=1.01 applied=1.015\n", "from 1.01 s to 1.31 s (0.3 s)"},
	} {
		r := facts.Read(histories.MustParse(fmt.Sprintf(text, row.answers)))
		got := ""
		for _, s := range Read(r, spans.NewBeliefs(r)).locks[0].lostRounds()["c1"] {
			got += facts.FromTo(s.From, s.To)
		}
		if got != row.want || r.Defect != "" {
			t.Errorf("%s: lost %q, want %q %s", name, got, row.want, r.Defect)
		}
	}
}
