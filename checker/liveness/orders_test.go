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
		"lapse": lapsesAt, "grants after": grantsAfter, "waiters": waiters,
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
