package redlock_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
)

func withFence(cfg *redlock.Config) { cfg.Fence = true }

// Fencing tokens always increase, although the quorums and the nodes' counts differ because nodes
// are down or answers are lost.
func TestFencingTokensIncrease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		c := newCluster(5)
		client := c.client(t, withFence)
		last, raises := int64(0), 0
		for grants := 0; grants < 500; {
			for i := range c.nodes {
				step := []string{"set", "raise", "other"}[r.IntN(3)]
				c.nodes[i].faults = map[string]stepFault{}
				c.setFault(step, stepFault{refuse: r.IntN(2) == 0, loseAnswer: true}, i)
			}
			l, err := client.Acquire(background, "k")
			if err != nil {
				continue
			}
			if l.Fence() <= last {
				t.Fatalf("grant %d has token %d after token %d", grants, l.Fence(), last)
			}
			last = l.Fence()
			grants++
			if r.IntN(2) == 0 {
				if err := l.Release(background); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * ttl)
			raises = len(c.log.rowsFor("raise"))
		}
		if raises == 0 {
			t.Error("no node's count was ever too low, so nothing was tested")
		}
	})
}

func TestFenceWriteBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.nodes[0].count["k"] = 41
		c.setFault("set", stepFault{refuse: true}, 3, 4)
		c.setFault("raise", stepFault{delay: 20 * time.Millisecond}, 1)
		reads := []int{}
		start := time.Now()
		l := acquire(t, c.client(t, func(cfg *redlock.Config) {
			cfg.Fence = true
			cfg.Now = func() time.Time { reads = append(reads, len(c.log.rowsFor("raise"))); return time.Now() }
		}))
		if l.Fence() != 42 || l.Votes() != 3 {
			t.Errorf("fence %d with %d votes, want 42 with 3", l.Fence(), l.Votes())
		}
		for i, want := range []int64{42, 42, 42, 0, 0} {
			if got := c.nodes[i].count["k"]; got != want {
				t.Errorf("%s counts %d, want %d", c.nodes[i].name, got, want)
			}
		}
		if got := len(c.log.rowsFor("raise")); got != 2 {
			t.Errorf("%d write-backs, want 2", got)
		}
		if len(reads) != 2 || reads[1] != 2 {
			t.Errorf("write-backs before each reading of the clock: %v; want the second reading after both", reads)
		}
		if got := time.Since(start); got != 20*time.Millisecond {
			t.Errorf("took %v, want 20ms", got)
		}
	})
}

// If the token can't be written back to a node, the node has no vote.
func TestFenceWriteBackFails(t *testing.T) {
	for name, f := range map[string]stepFault{"down": {refuse: true}, "lost": {loseAnswer: true}, "slow": {delay: time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(5)
				c.nodes[0].count["k"] = 41
				c.setFault("set", stepFault{refuse: true}, 4)
				c.setFault("raise", f, 1, 2)
				_, err := c.client(t, withFence).Acquire(background, "k")
				wantKind(t, err, redlock.ErrNoQuorum)
				if n := c.numHolders("k", c.log.rowsFor("set")[0].token); n != 0 {
					t.Errorf("%d keys of a failed attempt are left", n)
				}
				c.setFault("raise", stepFault{}, 2)
				if l := acquire(t, c.client(t, withFence)); l.Votes() < 3 || l.Fence() != 43 {
					t.Errorf("with one failed raise: %d votes and fence %d, want 3 or 4, and 43", l.Votes(), l.Fence())
				}
			})
		})
	}
}

// Without a quorum, there is nothing to write back.
func TestNoWriteBackWithoutQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.nodes[0].count["k"] = 41
		c.take("k", 2, 3, 4)
		_, err := c.client(t, withFence).Acquire(background, "k")
		wantKind(t, err, redlock.ErrTaken)
		if n := len(c.log.rowsFor("raise")); n != 0 {
			t.Errorf("%d write-backs, want 0", n)
		}
	})
}
