package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
)

func TestQuorum(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4, 9: 5} {
		if got := redlock.Quorum(n); got != want {
			t.Errorf("quorum of %d: %d, want %d", n, got, want)
		}
	}
}

// Any two quorums share a node, and smaller sets do not guarantee that.
func TestQuorumsIntersect(t *testing.T) {
	for n := 1; n <= 8; n++ {
		disjoint := func(size int) bool { // reports whether two sets of that size can be disjoint
			for set := range uint(1 << n) {
				for other := range uint(1 << n) {
					if countOnes(set) == size && countOnes(other) == size && set&other == 0 {
						return true
					}
				}
			}
			return false
		}
		q := redlock.Quorum(n)
		if disjoint(q) {
			t.Errorf("%d nodes: two quorums of %d can be disjoint", n, q)
		}
		if n > 1 && !disjoint(q-1) {
			t.Errorf("%d nodes: a quorum of %d would suffice", n, q-1)
		}
	}
}

func countOnes(set uint) int {
	n := 0
	for ; set > 0; set /= 2 {
		n += int(set % 2)
	}
	return n
}

func TestValidity(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ ttl, elapsed, drift, want time.Duration }{
		{10 * time.Second, 0, 102 * ms, 9898 * ms},
		{10 * time.Second, 50 * ms, 102 * ms, 9848 * ms},
		{10 * time.Second, 9897 * ms, 102 * ms, 1 * ms},
		{10 * time.Second, 9898 * ms, 102 * ms, 0},
		{10 * time.Second, 12 * time.Second, 102 * ms, 0},
		{10 * time.Second, -1, 102 * ms, 0}, // a clock that stepped back
	} {
		if got := redlock.Validity(c.ttl, c.elapsed, c.drift); got != c.want {
			t.Errorf("validity of TTL %v after %v with drift %v: %v, want %v", c.ttl, c.elapsed, c.drift, got, c.want)
		}
	}
}

func TestDrift(t *testing.T) {
	for _, c := range []struct {
		ttl    time.Duration
		factor float64
		want   time.Duration
	}{
		{10 * time.Second, 0.01, 102 * time.Millisecond},
		{10 * time.Second, 0, 2 * time.Millisecond},
		{time.Second, 0.1, 102 * time.Millisecond},
	} {
		if got := redlock.Drift(c.ttl, c.factor); got != c.want {
			t.Errorf("drift for TTL %v and factor %v: %v, want %v", c.ttl, c.factor, got, c.want)
		}
	}
}

// Validity returns the same results as a naive version that uses big integers.
func TestValidityOnRandomInputs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		ttl, elapsed := r.Int64N(int64(time.Hour)), r.Int64N(int64(time.Hour))
		drift := r.Int64N(ttl + 1)
		want := new(big.Int).Sub(big.NewInt(ttl), new(big.Int).Add(big.NewInt(elapsed), big.NewInt(drift)))
		if want.Sign() < 0 {
			want.SetInt64(0)
		}
		if got := redlock.Validity(time.Duration(ttl), time.Duration(elapsed), time.Duration(drift)); int64(got) != want.Int64() {
			t.Fatalf("validity of TTL %d after %d with drift %d: %d, want %v", ttl, elapsed, drift, got, want)
		}
	}
}

// For random answers, failureKind returns the same results as a naive version that tries all
// possible answers for nodes that don't answer.
func TestFailureKindOnRandomAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for range 2_000 {
			c := newCluster(1 + r.IntN(7))
			var answers string
			for i := range c.nodes {
				switch k := r.IntN(4); k {
				case 0:
					answers += "y"
				case 1:
					c.take("k", i)
					answers += "n"
				default:
					c.setFault("set", stepFault{refuse: k == 2, loseAnswer: k == 3}, i)
					answers += "?"
				}
			}
			l, err := c.client(t, nil).Acquire(context.Background(), "k")
			yes, want := naiveFailureKind(answers)
			if !errors.Is(err, want) || err == nil && (want != nil || l.Votes() != yes) {
				t.Fatalf("answers %s: %v, want %v with %d votes", answers, err, want, yes)
			}
		}
	})
}

// naiveFailureKind tries all possible answers for the nodes that don't answer.
func naiveFailureKind(answers string) (yes int, kind error) {
	majority := func(s string) (bool, int) {
		n := 0
		for _, b := range s {
			if b == 'y' {
				n++
			}
		}
		return 2*n > len(s), n
	}
	granted, yes := majority(answers)
	if granted {
		return yes, nil
	}
	guesses := []string{""}
	for _, b := range answers {
		var next []string
		for _, g := range guesses {
			if b == '?' {
				next = append(next, g+"y", g+"n")
			} else {
				next = append(next, fmt.Sprintf("%s%c", g, b))
			}
		}
		guesses = next
	}
	for _, g := range guesses {
		if possible, _ := majority(g); possible {
			return yes, redlock.ErrNoQuorum
		}
	}
	return yes, redlock.ErrTaken
}
