package checker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lockpick/checker/bruteforce"
	"lockpick/harness/history"
)

// TestAgainstBruteForce compares both judges, and porcupine where it is asked at all,
// with one that knows raw events only and tries everything.
func TestAgainstBruteForce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	seen, asked := map[string]int{}, 0
	for i := range randomHistories {
		h := randomHistory(rnd)
		if why := malformed(h); why != "" {
			t.Fatalf("history %d: malformed: %s:\n%s", i, why, lines(h))
		}
		got, want := newRecord(h).overlapping(), bruteforce.MutualExclusion(h, beat)
		if is := (bruteforce.Overlaps{Incidents: got.incidents, From: got.from, To: got.to, DoubleHold: got.doubleHold}); is != want {
			t.Fatalf("history %d: got %+v, want %+v:\n%s", i, is, want, lines(h))
		}
		if want.Incidents > 0 {
			seen[MutualExclusion]++
		}
		why := ""
		if i%porcupineStride == 0 {
			asked++
			why = contradiction(h)
		} else {
			why = againstBruteForce(h)
		}
		if why != "" {
			t.Fatalf("history %d: %s:\n%s", i, why, lines(h))
		}
		kind := ""
		if k := judgeLease(h).k; k.worst != nil {
			kind = k.worst.kind
		}
		seen[kind]++
	}
	t.Logf("%d histories, porcupine asked of %d: %v", randomHistories, asked, seen)
	for _, kind := range []string{MutualExclusion, "", Overlap, Buried, Phantom, DoubleRelease, HeldAfter, LostEarly} {
		if seen[kind] < randomHistories/1000 {
			t.Errorf("only %d of %d histories are %q: the comparison is one-sided", seen[kind], randomHistories, kind)
		}
	}
}

// contradiction says where porcupine, the certificate or brute force contradicts the fast
// procedure: about the whole, and porcupine about the sessions of the witness alone.
func contradiction(h *history.History) string {
	c := judgeLease(h)
	want := Holds
	if c.k.worst != nil {
		want = Violated
	}
	if got := c.whole(c.Locks[0], 0); got != want && got != Undecided {
		return fmt.Sprintf("said to be %s (%s), and porcupine says %s", want, c.k.kind(), got)
	}
	if c.k.worst != nil {
		w := c.k.worst.witness(c.record)
		if got := c.linearizable(slices.Values(w.of), 0); got != Violated {
			return fmt.Sprintf("said to be violated (%s), and porcupine says %s of the witness, %v", c.k.kind(), got, w.Sessions)
		}
	}
	return againstBruteForce(h)
}

// againstBruteForce is the same without porcupine.
func againstBruteForce(h *history.History) string {
	c := judgeLease(h)
	fine := bruteforce.Lease(h)
	switch {
	case fine != (c.k.worst == nil):
		return fmt.Sprintf("some order gives the answers: %t, and it is found %q", fine, c.k.kind())
	case fine:
		if why := c.k.uncertified(); why != "" {
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
