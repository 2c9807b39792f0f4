package lease

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lockpick/checker/second"
	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/bruteforce"
	"lockpick/internal/histories"
)

// TestAgainstBruteForce compares the judges of mutual exclusion and of leases with a judge that
// sees nothing but raw events and tries everything. For some histories it asks porcupine, too.
func TestAgainstBruteForce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	seen, asked, tried := map[string]int{}, 0, histories.Cases(randomHistories)
	for i := range tried {
		h := histories.Random(rnd)
		if i%2 == 0 { // a lease without a deadline ends with its client
			h.Params.TTL = time.Duration(10 * histories.Beat)
		}
		h.Params.NoLossNotice = i%4 == 1
		if why := facts.Read(h).Malformed; why != "" {
			t.Fatalf("history %d: malformed: %s:\n%s", i, why, histories.Lines(h))
		}
		got, want := spans.NewBeliefs(facts.Read(h)).Overlaps(), bruteforce.MutualExclusion(h, histories.Beat)
		if is := (bruteforce.Overlaps{Incidents: len(got.Incidents), From: got.From, To: got.To, DoubleHold: got.DoubleHold}); is != want {
			t.Fatalf("history %d: got %+v, want %+v:\n%s", i, is, want, histories.Lines(h))
		}
		if want.Incidents > 0 {
			seen[verdict.MutualExclusion]++
		}
		why := ""
		if i%porcupineStride == 0 {
			asked++
			why = contradiction(h)
		} else {
			why = againstBruteForce(h)
		}
		if why != "" {
			t.Fatalf("history %d: %s:\n%s", i, why, histories.Lines(h))
		}
		kind := ""
		if k := judgeLease(h).k; k.worst != nil {
			kind = k.worst.kind
		}
		seen[kind]++
	}
	t.Logf("%d histories, %d of them judged by porcupine: %v", tried, asked, seen)
	for _, kind := range []string{verdict.MutualExclusion, "", verdict.Overlap, verdict.Buried, verdict.Phantom, verdict.DoubleRelease, verdict.HeldAfter, verdict.LostEarly} {
		if seen[kind] < tried/1000 {
			t.Errorf("only %d of %d histories are %q; the comparison is one-sided", seen[kind], tried, kind)
		}
	}
}

// contradiction describes how porcupine, the certificate or brute force contradicts the fast judge,
// or returns "". Porcupine judges the whole history, and then the witness's sessions alone.
func contradiction(h *history.History) string {
	c := judgeLease(h)
	want := verdict.Holds
	if c.k.worst != nil {
		want = verdict.Violated
	}
	if got := second.New(c.Facts).Lock(c.Locks[0], 0); got != want && got != verdict.Undecided {
		return fmt.Sprintf("judged as %s (%s), but porcupine says %s", want, c.k.kind(), got)
	}
	if c.k.worst != nil {
		w := c.k.worst.witness(c.End)
		if got := second.New(c.Facts).Sessions(slices.Values(w.SessionFacts), 0); got != verdict.Violated {
			return fmt.Sprintf("judged as violated (%s), but porcupine says %s for the witness %v", c.k.kind(), got, w.Sessions)
		}
	}
	return againstBruteForce(h)
}

// bruteForceContradiction describes how the certificate or brute force contradicts the fast judge, or
// returns "" if they agree. It does not run porcupine.
func againstBruteForce(h *history.History) string {
	c := judgeLease(h)
	fine := bruteforce.Lease(h)
	switch {
	case fine != (c.k.worst == nil):
		return fmt.Sprintf("brute force finds an order: %t, but the conflict is %q", fine, c.k.kind())
	case fine:
		if why := c.k.verifyCertificate(); why != "" {
			return "it holds, but " + why
		}
	}
	return ""
}

func (k *leaseKey) kind() string {
	if k.worst == nil {
		return ""
	}
	return k.worst.kind
}
