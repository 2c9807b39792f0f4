package redlock_test

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
)

func TestAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.setFault("set", stepFault{delay: 30 * time.Millisecond}, 1)
		start := time.Now()
		l := acquire(t, c.client(t, nil))
		if got := time.Since(start); got != 30*time.Millisecond {
			t.Errorf("took %v; want the slowest node's 30ms", got)
		}
		if want := start.Add(ttl - 102*time.Millisecond); !l.Until().Equal(want) {
			t.Errorf("until %v, want %v", l.Until(), want)
		}
		if l.Key() != "k" || l.Votes() != 5 || l.Fence() != 0 {
			t.Errorf("key %q, %d votes, fence %d; want k, 5, 0", l.Key(), l.Votes(), l.Fence())
		}
		if b, err := hex.DecodeString(l.Token()); err != nil || len(b) != 20 {
			t.Errorf("token %q is not 20 bytes in hexadecimal", l.Token())
		}
		if n := c.numHolders("k", l.Token()); n != 5 {
			t.Errorf("%d nodes hold the token, want 5", n)
		}
		if n := len(c.log.rowsFor("release")); n != 0 {
			t.Errorf("%d releases after successful acquire, want 0", n)
		}
	})
}

// A failed attempt returns an error of the right kind and leaves no keys behind, even if answers
// were lost.
func TestAcquireFails(t *testing.T) {
	lost, down, slow := stepFault{loseAnswer: true}, stepFault{refuse: true}, stepFault{delay: time.Second}
	for name, c := range map[string]struct {
		kind  error
		left  int // keys on nodes whose release failed
		setup func(c cluster)
	}{
		"taken on three":            {redlock.ErrTaken, 0, func(c cluster) { c.take("k", 0, 1, 2) }},
		"taken on two, one down":    {redlock.ErrNoQuorum, 0, func(c cluster) { c.take("k", 0, 1); c.setFault("set", down, 2) }},
		"three down":                {redlock.ErrNoQuorum, 0, func(c cluster) { c.setFault("set", down, 0, 1, 2) }},
		"three too slow":            {redlock.ErrNoQuorum, 0, func(c cluster) { c.setFault("set", slow, 0, 1, 2) }},
		"three answers lost":        {redlock.ErrNoQuorum, 0, func(c cluster) { c.setFault("set", lost, 0, 1, 2) }},
		"all lost, release refused": {redlock.ErrNoQuorum, 2, func(c cluster) { c.setFault("set", lost, 0, 1, 2, 3, 4); c.setFault("release", down, 0, 3) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := newCluster(5)
				c.setup(nodes)
				l, err := nodes.client(t, nil).Acquire(context.Background(), "k")
				if l != nil {
					t.Fatal("acquired the lock")
				}
				e := wantKind(t, err, c.kind)
				if e.Op != "acquire" || e.Tries != 1 || e.NodesAsked != 5 {
					t.Errorf("op %s, %d tries, %d nodes; want acquire, 1, 5", e.Op, e.Tries, e.NodesAsked)
				}
				token := nodes.log.rowsFor("set")[0].token
				if got := nodes.log.rowsFor("release"); len(got) != 5 || got[0].token != token {
					t.Errorf("releases: %v; want 5 of %s", got, token)
				}
				if n := nodes.numHolders("k", token); n != c.left {
					t.Errorf("%d keys are left, want %d", n, c.left)
				}
			})
		})
	}
}

func TestErrorListsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.take("k", 0, 1)
		c.setFault("set", stepFault{refuse: true}, 2)
		c.setFault("set", stepFault{delay: time.Second}, 3)
		_, err := c.client(t, func(cfg *redlock.Config) { cfg.Tries = 2 }).Acquire(context.Background(), "k")
		want := `acquire "k": no quorum of nodes agreed (2 attempts); 4 of 5 nodes did not agree:` +
			` n1 refused, n2 refused, n3 connection refused, n4 no answer in time`
		if err == nil || err.Error() != want {
			t.Errorf("error: %v\nwant:  %s", err, want)
		}
	})
}

// The elapsed time is measured from the start of an attempt to its last answer. An attempt that
// uses up the validity fails.
func TestAcquireElapsed(t *testing.T) {
	limit := ttl - 102*time.Millisecond
	for _, c := range []struct {
		elapsed time.Duration
		kind    error
	}{
		{0, nil}, {limit - 1, nil}, {limit, redlock.ErrExpired}, {ttl * 2, redlock.ErrExpired}, {-1, redlock.ErrExpired},
	} {
		t.Run(c.elapsed.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := newCluster(3)
				start, reads := time.Now(), 0
				client := nodes.client(t, func(cfg *redlock.Config) {
					cfg.Now = func() time.Time {
						reads++
						want := []int{0, 3}[(reads-1)%2]
						if got := len(nodes.log.rowsFor("set")); got != want {
							t.Errorf("clock reading %d after %d requests, want %d", reads, got, want)
						}
						return start.Add([]time.Duration{0, c.elapsed}[(reads-1)%2])
					}
				})
				l, err := client.Acquire(context.Background(), "k")
				if !errors.Is(err, c.kind) || (l == nil) != (c.kind != nil) {
					t.Errorf("error: %v, want %v", err, c.kind)
				}
				if reads != 2 {
					t.Errorf("%d clock readings, want 2", reads)
				}
				if c.kind != nil && len(nodes.log.rowsFor("release")) != 3 {
					t.Error("an expired attempt was not released on all nodes")
				}
			})
		})
	}
}

func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.take("k", 0, 1, 2)
		var waits []time.Duration
		reads := 0
		client := c.client(t, func(cfg *redlock.Config) {
			cfg.Tries, cfg.RetryMin, cfg.RetryMax = 200, 100*time.Millisecond, 100*time.Millisecond+3
			cfg.Now = func() time.Time { reads++; return time.Now() }
			cfg.After = func(d time.Duration) <-chan time.Time {
				if d != 50*time.Millisecond {
					waits = append(waits, d)
				}
				return time.After(d)
			}
		})
		_, err := client.Acquire(context.Background(), "k")
		if e := wantKind(t, err, redlock.ErrTaken); e.Tries != 200 || reads != 400 {
			t.Errorf("%d tries with %d clock readings, want 200 with 400", e.Tries, reads)
		}
		slices.Sort(waits)
		// With four possible delays, 199 random delays include each of them.
		if len(waits) != 199 || waits[0] != 100*time.Millisecond || waits[198] != 100*time.Millisecond+3 {
			t.Errorf("%d waits from %v to %v; want 199, including both bounds", len(waits), waits[0], waits[len(waits)-1])
		}
		checkTokens(t, c.log.rowsFor("set"), c.log.rowsFor("release"))
	})
}

// checkTokens checks that each attempt set its own token on all five nodes and released it on all
// of them.
func checkTokens(t *testing.T, sets, releases []row) {
	t.Helper()
	if len(sets) != len(releases) {
		t.Fatalf("%d sets and %d releases", len(sets), len(releases))
	}
	seen := map[string]int{}
	for i := range sets {
		seen[sets[i].token]++
		if sets[i].token != releases[i].token {
			t.Fatalf("set %d has token %s, but its release has %s", i, sets[i].token, releases[i].token)
		}
	}
	for token, n := range seen {
		if n != 5 {
			t.Errorf("token %s was used %d times, want 5", token, n)
		}
	}
}

func TestRetryUntilFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		holder := acquire(t, c.client(t, nil))
		time.AfterFunc(3*time.Second, func() {
			if err := holder.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
		start := time.Now()
		l := acquire(t, c.client(t, func(cfg *redlock.Config) { cfg.Tries = 0 }))
		if elapsed := time.Since(start); elapsed < 3*time.Second || elapsed > 3*time.Second+200*time.Millisecond {
			t.Errorf("waited %v; want 3s plus at most one retry delay", elapsed)
		}
		if l.Token() == holder.Token() {
			t.Error("both locks have the same token")
		}
	})
}

func TestSequential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.setFault("set", stepFault{delay: 20 * time.Millisecond}, 0, 2)
		c.setFault("set", stepFault{delay: time.Hour}, 1)
		start := time.Now()
		l := acquire(t, c.client(t, func(cfg *redlock.Config) { cfg.Sequential = true }))
		if got := time.Since(start); got != 90*time.Millisecond {
			t.Errorf("took %v; want 20ms, a timeout of 50ms and 20ms", got)
		}
		var order []string
		for _, r := range c.log.rowsFor("set") {
			order = append(order, r.node)
		}
		if got := strings.Join(order, " "); got != "n1 n2 n3" || l.Votes() != 2 {
			t.Errorf("request order %s, %d votes; want n1 n2 n3, and 2", got, l.Votes())
		}
	})
}

// A driver that ignores its context delays an acquire by at most one timeout.
func TestDriverIgnoresContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.nodes[4].ignoresContext = true
		c.setFault("set", stepFault{delay: time.Hour}, 4)
		start, timers := time.Now(), 0
		l := acquire(t, c.client(t, func(cfg *redlock.Config) {
			cfg.After = func(d time.Duration) <-chan time.Time { timers++; return time.After(d) }
		}))
		if got := time.Since(start); got != 50*time.Millisecond || l.Votes() != 4 {
			t.Errorf("took %v for %d votes; want 50ms and 4", got, l.Votes())
		}
		if timers != 1 {
			t.Errorf("%d timers in one round, want one", timers)
		}
		time.Sleep(time.Hour) // the driver's late answer must not block
		synctest.Wait()
	})
}

func TestRandomSourceFails(t *testing.T) {
	errEntropy := errors.New("no entropy")
	c := newCluster(3)
	client := c.client(t, func(cfg *redlock.Config) { cfg.Random = func(string, []byte) error { return errEntropy } })
	if _, err := client.Acquire(context.Background(), "k"); !errors.Is(err, errEntropy) {
		t.Errorf("error: %v, want %v", err, errEntropy)
	}
	if n := len(c.log.rows); n != 0 {
		t.Errorf("%d requests without a token", n)
	}
}
