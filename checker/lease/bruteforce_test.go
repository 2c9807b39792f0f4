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
	seen, numAsked, numCases := map[string]int{}, 0, histories.NumCases(randomHistories)
	for i := range numCases {
		h := histories.Random(rnd)
		if i%2 == 0 { // a lease without a deadline ends with its client
			h.Params.TTL = time.Duration(10 * histories.Beat)
		}
		h.Params.NoLossNotice = i%4 == 1
		if reason := facts.Read(h).Defect; reason != "" {
			t.Fatalf("history %d: malformed: %s:\n%s", i, reason, histories.FormatLines(h))
		}
		got, want := spans.NewBeliefs(facts.Read(h)).Overlaps(), bruteforce.FindOverlaps(h, histories.Beat)
		if gotOverlaps := (bruteforce.Overlaps{Incidents: len(got.Incidents), From: got.From, To: got.To, DoubleHold: got.DoubleHold}); gotOverlaps != want {
			t.Fatalf("history %d: got %+v, want %+v:\n%s", i, gotOverlaps, want, histories.FormatLines(h))
		}
		if want.Incidents > 0 {
			seen[verdict.MutualExclusion]++
		}
		reason := ""
		if i%porcupineStride == 0 {
			numAsked++
			reason = contradiction(h)
		} else {
			reason = bruteForceContradiction(h)
		}
		if reason != "" {
			t.Fatalf("history %d: %s:\n%s", i, reason, histories.FormatLines(h))
		}
		kind := ""
		if k := judgeLease(h).k; k.worstConflict != nil {
			kind = k.worstConflict.kind
		}
		seen[kind]++
	}
	t.Logf("%d histories, %d of them judged by porcupine: %v", numCases, numAsked, seen)
	for _, kind := range []string{verdict.MutualExclusion, "", verdict.Overlap, verdict.Buried, verdict.Phantom, verdict.DoubleRelease, verdict.HeldAfter, verdict.LostEarly} {
		if seen[kind] < numCases/1000 {
			t.Errorf("only %d of %d histories are %q; the comparison is one-sided", seen[kind], numCases, kind)
		}
	}
}

// contradiction describes how porcupine, the certificate or brute force contradicts the fast judge,
// or returns "". Porcupine judges the whole history, and then the witness's sessions alone.
func contradiction(h *history.History) string {
	c := judgeLease(h)
	want := verdict.Holds
	if c.k.worstConflict != nil {
		want = verdict.Violated
	}
	if got := second.New(c.Facts).AnswerLock(c.Locks[0], 0); got != want && got != verdict.Undecided {
		return fmt.Sprintf("judged as %s (%s), but porcupine says %s", want, c.k.kind(), got)
	}
	if c.k.worstConflict != nil {
		w := c.k.worstConflict.witness(c.End)
		if got := second.New(c.Facts).AnswerSessions(slices.Values(w.SessionFacts), 0); got != verdict.Violated {
			return fmt.Sprintf("judged as violated (%s), but porcupine says %s for the witness %v", c.k.kind(), got, w.Sessions)
		}
	}
	return bruteForceContradiction(h)
}

// bruteForceContradiction describes how the certificate or brute force contradicts the fast judge, or
// returns "" if they agree. It does not run porcupine.
func bruteForceContradiction(h *history.History) string {
	c := judgeLease(h)
	hasOrder := bruteforce.IsLeaseHistory(h)
	switch {
	case hasOrder != (c.k.worstConflict == nil):
		return fmt.Sprintf("brute force finds an order: %t, but the conflict is %q", hasOrder, c.k.kind())
	case hasOrder:
		if reason := c.k.verifyCertificate(); reason != "" {
			return "it holds, but " + reason
		}
	}
	return ""
}

func (k *leaseKey) kind() string {
	if k.worstConflict == nil {
		return ""
	}
	return k.worstConflict.kind
}
