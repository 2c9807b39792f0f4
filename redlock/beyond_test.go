package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/driver"
)

// The tests in this file are about what a Locker does beyond the specification. Each detects one of
// the mistakes in mistakes_test.go.

// An extension that a quorum confirms after the deadline fails, because another client may have
// acquired the lock in the meantime.
func TestExtensionAfterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		s := lease(t, locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Timeout = 4 * time.Second }))
		until := s.Until()
		c.setFault("extend", stepFault{delay: 1950 * ms}, 0, 1, 2) // 50 ms before the keys expire
		time.Sleep(8 * time.Second)
		wantKind(t, s.Extend(t.Context()), redlock.ErrExpired)
		if s.Until() != until {
			t.Errorf("the deadline has moved by %v", s.Until().Sub(until))
		}
	})
}

// An acquire that reaches its quorum too late to leave any validity fails and leaves no keys.
func TestAcquireWithoutValidityLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Timeout, cfg.Drift = 5*time.Second, 0.6 })
		c.setFault("set", stepFault{delay: 4 * time.Second}, 0, 1, 2)
		_, err := l.Acquire(t.Context(), "k")
		wantKind(t, err, redlock.ErrExpired)
		synctest.Wait()
		if keys := c.numHolders("k", c.log.rowsFor("set")[0].token); keys != 0 {
			t.Errorf("%d keys are left", keys)
		}
	})
}

// When the caller's context ends, the call returns, but requests in progress are still executed.
// This applies to an acquire that already has its quorum, and to a release.
func TestRequestsOutliveCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.granters(), nil)
		c.setFault("set", stepFault{delay: 40 * ms}, 3, 4)
		ctx, cancel := context.WithCancel(t.Context())
		s, err := l.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Second)
		if keys := c.numHolders("k", s.Token()); keys != 5 || s.Context().Err() != nil {
			t.Errorf("%d keys, want 5; the lease ended with cause %v", keys, context.Cause(s.Context()))
		}
		c.setFault("release", stepFault{delay: 40 * ms}, 0, 1, 2, 3, 4)
		wantKind(t, s.Release(ctx), redlock.ErrCanceled)
		time.Sleep(time.Second)
		if keys := c.numHolders("k", s.Token()); keys != 0 {
			t.Errorf("%d keys are left after the release", keys)
		}
	})
}

// cancelingNode cancels a context when it grants the lock.
type cancelingNode struct {
	*granter
	cancel context.CancelFunc
}

func (q *cancelingNode) Grant(ctx context.Context, key, token string, t driver.Terms) (int64, error) {
	defer q.cancel()
	return q.granter.Grant(ctx, key, token, t)
}

// If a quorum has granted the lock by the time the caller gives up, the lock is released.
func TestCanceledWithQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(1)
		ctx, cancel := context.WithCancel(t.Context())
		q := &cancelingNode{c.granters()[0], func() {}}
		l := locker(t, []*cancelingNode{q}, nil)
		lease(t, l).Release(t.Context()) // so that the node's identity is known
		q.cancel = cancel
		_, err := l.Acquire(ctx, "k")
		wantKind(t, err, redlock.ErrCanceled)
		l.Close()
		if keys := c.numHolders("k", c.log.rowsFor("set")[1].token); keys != 0 {
			t.Errorf("%d keys are left", keys)
		}
	})
}

// A node that does not confirm the fencing token has no vote: its count is still lower, so the next
// holder's token could be lower, too.
func TestUnconfirmedFenceLosesVote(t *testing.T) {
	for name, f := range map[string]stepFault{"down": {refuse: true}, "too late": {delay: time.Second}, "lost answer": {loseAnswer: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(3)
				c.nodes[0].count["k"] = 41
				c.setFault("set", stepFault{delay: 10 * ms}, 2) // n1 and n2 are the quorum
				c.setFault("raise", f, 1)
				_, err := locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Fence = true }).Acquire(t.Context(), "k")
				wantKind(t, err, redlock.ErrNoQuorum)
			})
		})
	}
}

// A repair applies only to nodes that report the key as missing, not to nodes that don't answer. It
// waits for slow nodes, and does not count as a grant.
func TestOnlyMissingKeysAreRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		s := lease(t, locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Repair, cfg.Fence = true, true }))
		synctest.Wait()
		clear(c.nodes[0].keys)
		clear(c.nodes[1].keys)
		c.setFault("extend", stepFault{refuse: true}, 0)
		c.setFault("extend", stepFault{delay: 40 * ms}, 1)
		before, count := len(c.log.rowsFor("set")), c.nodes[1].count["k"]
		if err := s.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if newSets := c.log.rowsFor("set")[before:]; len(newSets) != 1 || newSets[0].node != "n2" {
			t.Errorf("keys were set again by %v, want only n2", newSets)
		}
		if got := c.nodes[1].count["k"]; got != count {
			t.Errorf("n2's count is %d after the repair, want %d as before", got, count)
		}
	})
}

// anonymousNode does not return its identity.
type anonymousNode struct{ *granter }

func (anonymousNode) Identity(context.Context) (string, error) { return "", errors.New("no identity") }

// A node that does not return its identity has no vote, because it may be the same server as
// another node.
func TestAnonymousNodesHaveNoVote(t *testing.T) {
	for anonymousCount, want := range []error{nil, nil, redlock.ErrNoQuorum} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(3)
			var nodes []redlock.Node
			for i, k := range c.granters() {
				if nodes = append(nodes, k); i < anonymousCount {
					nodes[i] = anonymousNode{k}
				}
			}
			_, err := locker(t, nodes, func(cfg *redlock.Config) { cfg.Tries = 1 }).Acquire(t.Context(), "k")
			if want == nil && err != nil {
				t.Errorf("%d anonymous nodes: %v", anonymousCount, err)
			} else if want != nil {
				wantKind(t, err, want)
				synctest.Wait()
				for i, n := range c.nodes {
					if len(n.keys) > 0 {
						t.Errorf("n%d still has %v", i+1, n.keys)
					}
				}
			}
		})
	}
}

// Even a node whose vote was not needed is asked for its identity.
func TestLateDuplicateNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		nodes := c.granters()
		nodes[4].id = nodes[0].id
		c.setFault("set", stepFault{delay: 10 * ms}, 4)
		l := locker(t, nodes, nil)
		if _, err := l.Acquire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * ms)
		synctest.Wait()
		_, err := l.Acquire(t.Context(), "another")
		wantKind(t, err, redlock.ErrSameNode)
	})
}

// An unresponsive node does not block pending releases on other nodes.
func TestUnresponsiveNodeDoesNotBlockReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		l := locker(t, c.granters(), nil)
		var leases []*redlock.Lease
		for _, key := range []string{"a", "b", "c"} {
			s, err := l.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, s)
		}
		synctest.Wait()
		c.setFault("release", stepFault{refuse: true}, 0, 1, 2)
		for _, s := range leases {
			s.Release(t.Context())
		}
		synctest.Wait()
		c.setFault("release", stepFault{}, 1, 2)
		time.Sleep(250 * ms) // longer than a retry delay, which is at most 200 ms
		synctest.Wait()
		for i, n := range c.nodes[1:] {
			if len(n.keys) > 0 {
				t.Errorf("n%d still has %v", i+2, n.keys)
			}
		}
	})
}

type quarantinedNode struct{ *granter }

func (c quarantinedNode) Grant(ctx context.Context, key, token string, t driver.Terms) (int64, error) {
	if t.Quarantine > 0 {
		return 0, errors.New("in quarantine")
	}
	return c.granter.Grant(ctx, key, token, t)
}

// A node in quarantine does not vote, but lets a holder confirmed by a majority repair its key.
func TestRepairInQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		var nodes []redlock.Node
		for i, k := range c.granters() {
			nodes = append(nodes, k)
			if i < 2 {
				nodes[i] = quarantinedNode{k}
			}
		}
		s := lease(t, locker(t, nodes, func(cfg *redlock.Config) { cfg.Repair, cfg.Quarantine = true, ttl }))
		synctest.Wait()
		if keys := c.numHolders("k", s.Token()); keys != 3 {
			t.Errorf("%d nodes granted the lock, want the 3 that are not in quarantine", keys)
		}
		if err := s.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if keys := c.numHolders("k", s.Token()); keys != 5 {
			t.Errorf("%d keys after the repair, want 5", keys)
		}
	})
}

// A release covers keys set by a repair, even if the answer to the repair was lost and its request
// may still be in flight.
func TestReleaseAfterRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		nodes := c.granters()
		s := lease(t, locker(t, nodes, func(cfg *redlock.Config) { cfg.Repair = true }))
		synctest.Wait()
		clear(c.nodes[0].keys)
		nodes[0].grantDelay = time.Second
		if err := s.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if keys := c.numHolders("k", s.Token()); keys != 0 {
			t.Errorf("%d keys are left", keys)
		}
	})
}

// Every pending release is retried, in order, as long as its key may exist. An extension prolongs
// that time.
func TestAllPendingReleasesAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.granters(), nil)
		var leases []*redlock.Lease
		for _, key := range []string{"k", "l", "m"} {
			s, err := l.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, s)
		}
		time.Sleep(9 * time.Second)
		for _, s := range leases {
			if err := s.Extend(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		c.setFault("release", stepFault{refuse: true}, 0, 1, 2, 3, 4)
		for _, s := range leases {
			wantKind(t, s.Release(t.Context()), redlock.ErrNoQuorum)
		}
		time.Sleep(5 * time.Second) // past the original expiry of the keys
		c.setFault("release", stepFault{}, 0, 1, 2, 3, 4)
		time.Sleep(300 * ms)
		for _, s := range leases {
			if keys := c.numHolders(s.Key(), s.Token()); keys != 0 {
				t.Errorf("%s: %d keys are left", s.Key(), keys)
			}
		}
	})
}

// A lease stops renewing itself when it has reached the limit of extensions.
func TestRenewalEndsAtLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		numAttempts := 0
		l := locker(t, newCluster(5).granters(), func(cfg *redlock.Config) {
			cfg.Renew, cfg.Extends = time.Second, 3
			cfg.Observe = func(e redlock.Event) {
				if e.Op == "extend" && e.Type == redlock.Invoke {
					numAttempts++
				}
			}
		})
		<-lease(t, l).Context().Done()
		if numAttempts != 4 {
			t.Errorf("%d extensions were attempted, want three and one that fails because of the limit", numAttempts)
		}
	})
}

// Close retries all releases that failed in the same round together, even if the nodes failed at
// slightly different times.
func TestCloseRetriesReleasesInOneRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.granters(), nil)
		s := lease(t, l)
		synctest.Wait() // until all nodes have granted the lock
		c.setFault("release", stepFault{delay: 40 * ms, refuse: true}, 0)
		c.setFault("release", stepFault{delay: 41 * ms, refuse: true}, 1)
		start := time.Now()
		if err := s.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if elapsed := time.Since(start); elapsed < 81*ms || elapsed > 100*ms { // two attempts each; with one node after the other, it would take 121 ms
			t.Errorf("took %v", elapsed)
		}
	})
}

// On a busy machine, a short timeout may pass before a driver can react to the end of its context.
// Close waits for a second before it blames the driver.
func TestCloseWaitsForSlowDriver(t *testing.T) {
	for name, row := range map[string]struct {
		late time.Duration
		took time.Duration
		want string
	}{
		"late":  {900 * ms, 900 * ms, ""},
		"never": {time.Hour, time.Second, "must respect context cancellation"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(3)
				cfg := redlock.Config{TTL: 100 * ms, Timeout: 5 * ms, Tries: 1}
				for _, n := range c.granters() {
					cfg.Nodes = append(cfg.Nodes, n)
				}
				l, err := redlock.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				c.nodes[2].ignoresContext = true
				c.setFault("set", stepFault{delay: row.late}, 2)
				lease(t, l)
				start := time.Now()
				err = l.Close()
				if elapsed := time.Since(start); elapsed < row.took-5*ms || elapsed > row.took+50*ms || (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
					t.Errorf("after %v: %v; want %q after %v", elapsed, err, row.want, row.took)
				}
				time.Sleep(time.Hour) // until the driver returns
			})
		})
	}
}

// Close ends the contexts of all leases.
func TestCloseEndsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, newCluster(5).granters(), nil)
		var all []context.Context
		for _, key := range []string{"k", "l", "m"} {
			s, err := l.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s.Context())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for _, ctx := range all {
			if cause := context.Cause(ctx); !errors.Is(cause, redlock.ErrClosed) {
				t.Errorf("a context ended with cause %v", cause)
			}
		}
	})
}

// Confirming the fencing token counts as elapsed time.
func TestFenceConfirmationCountsAsElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.nodes[0].count["k"] = 41
		c.setFault("set", stepFault{delay: 10 * ms}, 2)
		c.setFault("raise", stepFault{delay: 4 * time.Second}, 1)
		l := locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Fence, cfg.Timeout, cfg.Drift = true, 5*time.Second, 0.6 })
		_, err := l.Acquire(t.Context(), "k")
		wantKind(t, err, redlock.ErrExpired)
	})
}

// Releases of a failed attempt are retried as long as its keys may exist.
func TestFailedAttemptIsReleasedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.take("k", 0, 1, 2)
		c.setFault("release", stepFault{refuse: true}, 3, 4)
		_, err := locker(t, c.granters(), nil).Acquire(t.Context(), "k")
		wantKind(t, err, redlock.ErrTaken)
		time.Sleep(5 * time.Second)
		c.setFault("release", stepFault{}, 3, 4)
		time.Sleep(300 * ms)
		if keys := c.numHolders("k", c.log.rowsFor("set")[0].token); keys != 0 {
			t.Errorf("%d keys are left", keys)
		}
	})
}

// Nodes outside the quorum receive the release, too, because their grants may arrive after it.
func TestReleaseBeforeLateGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		nodes := c.granters()
		nodes[3].grantDelay, nodes[4].grantDelay = time.Second, time.Second
		s := lease(t, locker(t, nodes, nil))
		if err := s.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if keys := c.numHolders("k", s.Token()); keys != 0 {
			t.Errorf("%d keys are left", keys)
		}
	})
}
