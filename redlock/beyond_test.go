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

// What a Locker does beyond the specification, a mistake at a time.

// An extension that a quorum agreed to is worth nothing if the lease was over by then: another
// may have had the lock.
func TestExtensionThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		s := lease(t, locker(t, c.keepers(), func(cfg *redlock.Config) { cfg.Timeout = 4 * time.Second }))
		until := s.Until()
		c.set("extend", flaw{delay: 1950 * ms}, 0, 1, 2) // the keys live for 50 ms more
		time.Sleep(8 * time.Second)
		wantKind(t, s.Extend(t.Context()), redlock.ErrExpired)
		if s.Until() != until {
			t.Errorf("the deadline has moved by %v", s.Until().Sub(until))
		}
	})
}

// An acquire whose quorum comes when the validity is used up gives no lock, and leaves none.
func TestAcquireThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.keepers(), func(cfg *redlock.Config) { cfg.Timeout, cfg.Drift = 5*time.Second, 0.6 })
		c.set("set", flaw{delay: 4 * time.Second}, 0, 1, 2)
		_, err := l.Acquire(t.Context(), "k")
		wantKind(t, err, redlock.ErrExpired)
		synctest.Wait()
		if keys := c.holders("k", c.log.of("set")[0].token); keys != 0 {
			t.Errorf("%d keys are left", keys)
		}
	})
}

// The caller's patience ends the waiting, and no request: those that are under way are carried
// out, of an acquire that has its quorum and of a release.
func TestRequestsOutliveTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.keepers(), nil)
		c.set("set", flaw{delay: 40 * ms}, 3, 4)
		ctx, cancel := context.WithCancel(t.Context())
		s, err := l.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Second)
		if keys := c.holders("k", s.Token()); keys != 5 || s.Context().Err() != nil {
			t.Errorf("%d keys, and the lease has ended by %v", keys, context.Cause(s.Context()))
		}
		c.set("release", flaw{delay: 40 * ms}, 0, 1, 2, 3, 4)
		wantKind(t, s.Release(ctx), redlock.ErrCancelled)
		time.Sleep(time.Second)
		if keys := c.holders("k", s.Token()); keys != 0 {
			t.Errorf("%d keys are left by the release", keys)
		}
	})
}

// quitter cancels a context when it grants.
type quitter struct {
	*keeper
	cancel context.CancelFunc
}

func (q *quitter) Grant(ctx context.Context, key, token string, t driver.Terms) (int64, error) {
	defer q.cancel()
	return q.keeper.Grant(ctx, key, token, t)
}

// A quorum that has granted by the time that the caller is gone is given back.
func TestCancelledWithAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(1)
		ctx, cancel := context.WithCancel(t.Context())
		q := &quitter{c.keepers()[0], func() {}}
		l := locker(t, []*quitter{q}, nil)
		lease(t, l).Release(t.Context()) // it is known by now
		q.cancel = cancel
		_, err := l.Acquire(ctx, "k")
		wantKind(t, err, redlock.ErrCancelled)
		l.Close()
		if keys := c.holders("k", c.log.of("set")[1].token); keys != 0 {
			t.Errorf("%d keys are left", keys)
		}
	})
}

// A node that does not confirm the fencing token has no vote: its count is behind, and the
// next holder's token could be as low.
func TestFenceNeedsConfirmation(t *testing.T) {
	for name, f := range map[string]flaw{"down": {down: true}, "too late": {delay: time.Second}, "answer lost": {lost: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(3)
				c.nodes[0].count["k"] = 41
				c.set("set", flaw{delay: 10 * ms}, 2) // n1 and n2 are the quorum
				c.set("raise", f, 1)
				_, err := locker(t, c.keepers(), func(cfg *redlock.Config) { cfg.Fence = true }).Acquire(t.Context(), "k")
				wantKind(t, err, redlock.ErrNoQuorum)
			})
		})
	}
}

// A repair is for nodes that say that the key is gone. Of one that says nothing this is not
// known, and one that is slow is waited for. It is no grant, and counts as none.
func TestRepairOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		s := lease(t, locker(t, c.keepers(), func(cfg *redlock.Config) { cfg.Repair, cfg.Fence = true, true }))
		synctest.Wait()
		clear(c.nodes[0].keys)
		clear(c.nodes[1].keys)
		c.set("extend", flaw{down: true}, 0)
		c.set("extend", flaw{delay: 40 * ms}, 1)
		asked, count := len(c.log.of("set")), c.nodes[1].count["k"]
		if err := s.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if more := c.log.of("set")[asked:]; len(more) != 1 || more[0].node != "n2" {
			t.Errorf("set again on %v, want n2 alone", more)
		}
		if got := c.nodes[1].count["k"]; got != count {
			t.Errorf("n2 counts %d after the repair, and %d before", got, count)
		}
	})
}

// anonymous is a node that does not say who it is.
type anonymous struct{ *keeper }

func (anonymous) Identity(context.Context) (string, error) { return "", errors.New("no word") }

// A node that does not say who it is may be another once more: it has no vote.
func TestAnonymousNodesHaveNoVote(t *testing.T) {
	for silent, want := range []error{nil, nil, redlock.ErrNoQuorum} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(3)
			var nodes []redlock.Node
			for i, k := range c.keepers() {
				if nodes = append(nodes, k); i < silent {
					nodes[i] = anonymous{k}
				}
			}
			_, err := locker(t, nodes, func(cfg *redlock.Config) { cfg.Tries = 1 }).Acquire(t.Context(), "k")
			if want == nil && err != nil {
				t.Errorf("%d are silent: %v", silent, err)
			} else if want != nil {
				wantKind(t, err, want)
				synctest.Wait()
				for i, n := range c.nodes {
					if len(n.keys) > 0 {
						t.Errorf("n%d has %v", i+1, n.keys)
					}
				}
			}
		})
	}
}

// Also a node whose vote was not waited for is asked who it is.
func TestSameNodeThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		nodes := c.keepers()
		nodes[4].id = nodes[0].id
		c.set("set", flaw{delay: 10 * ms}, 4)
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

// A node that is owed something and silent does not keep others from what they are owed.
func TestSilentNodeIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		l := locker(t, c.keepers(), nil)
		var held []*redlock.Lease
		for _, key := range []string{"a", "b", "c"} {
			s, err := l.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, s)
		}
		synctest.Wait()
		c.set("release", flaw{down: true}, 0, 1, 2)
		for _, s := range held {
			s.Release(t.Context())
		}
		synctest.Wait()
		c.set("release", flaw{}, 1, 2)
		time.Sleep(250 * ms) // once the delay of a retry, which is 200 ms at most
		synctest.Wait()
		for i, n := range c.nodes[1:] {
			if len(n.keys) > 0 {
				t.Errorf("n%d has %v", i+2, n.keys)
			}
		}
	})
}

// convalescent is a node in quarantine.
type convalescent struct{ *keeper }

func (c convalescent) Grant(ctx context.Context, key, token string, t driver.Terms) (int64, error) {
	if t.Quarantine > 0 {
		return 0, errors.New("in quarantine")
	}
	return c.keeper.Grant(ctx, key, token, t)
}

// A node in quarantine gives no vote, but takes back the key of a holder whom a majority has
// confirmed.
func TestRepairInQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		var nodes []redlock.Node
		for i, k := range c.keepers() {
			nodes = append(nodes, k)
			if i < 2 {
				nodes[i] = convalescent{k}
			}
		}
		s := lease(t, locker(t, nodes, func(cfg *redlock.Config) { cfg.Repair, cfg.Quarantine = true, ttl }))
		synctest.Wait()
		if keys := c.holders("k", s.Token()); keys != 3 {
			t.Errorf("%d nodes granted, want those that are well", keys)
		}
		if err := s.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if keys := c.holders("k", s.Token()); keys != 5 {
			t.Errorf("%d keys after the repair", keys)
		}
	})
}

// What a repair has set is given back, also where its answer was lost and its request may still
// be under way.
func TestRepairIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		nodes := c.keepers()
		s := lease(t, locker(t, nodes, func(cfg *redlock.Config) { cfg.Repair = true }))
		synctest.Wait()
		clear(c.nodes[0].keys)
		nodes[0].stray = time.Second
		if err := s.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if keys := c.holders("k", s.Token()); keys != 0 {
			t.Errorf("%d keys are left", keys)
		}
	})
}

// Each release that a node owes an answer to is paid, in order, and as long as its key can be
// there, which an extension puts off.
func TestAllDebtsArePaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.keepers(), nil)
		var held []*redlock.Lease
		for _, key := range []string{"k", "l", "m"} {
			s, err := l.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, s)
		}
		time.Sleep(9 * time.Second)
		for _, s := range held {
			if err := s.Extend(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		c.set("release", flaw{down: true}, 0, 1, 2, 3, 4)
		for _, s := range held {
			wantKind(t, s.Release(t.Context()), redlock.ErrNoQuorum)
		}
		time.Sleep(5 * time.Second) // longer than the keys would have lived without the extension
		c.set("release", flaw{}, 0, 1, 2, 3, 4)
		time.Sleep(300 * ms)
		for _, s := range held {
			if keys := c.holders(s.Key(), s.Token()); keys != 0 {
				t.Errorf("%s: %d keys are left", s.Key(), keys)
			}
		}
	})
}

// A lease that may not be extended any more stops trying.
func TestRenewalEndsAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried := 0
		l := locker(t, newCluster(5).keepers(), func(cfg *redlock.Config) {
			cfg.Renew, cfg.Extends = time.Second, 3
			cfg.Observe = func(e redlock.Event) {
				if e.Op == "extend" && e.Type == redlock.Invoke {
					tried++
				}
			}
		})
		<-lease(t, l).Context().Done()
		if tried != 4 {
			t.Errorf("%d extensions were tried, want the three allowed and one that finds that out", tried)
		}
	})
}

// What nodes owe since one round Close has asked for in one round, whichever says first that it
// owes something.
func TestCloseAsksForAllDebtsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.keepers(), nil)
		s := lease(t, l)
		synctest.Wait() // until all nodes have granted
		c.set("release", flaw{delay: 40 * ms, down: true}, 0)
		c.set("release", flaw{delay: 41 * ms, down: true}, 1)
		start := time.Now()
		if err := s.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if took := time.Since(start); took < 81*ms || took > 100*ms { // each is asked twice, and one after the other they would take 121 ms
			t.Errorf("it took %v", took)
		}
	})
}

// On a machine that has no time for a driver short time-outs pass before it can heed its context:
// Close waits a second before it calls that a mistake of the driver.
func TestCloseBlamesNoSlowMachine(t *testing.T) {
	for name, row := range map[string]struct {
		late time.Duration
		took time.Duration
		want string
	}{
		"late":  {900 * ms, 900 * ms, ""},
		"never": {time.Hour, time.Second, "must heed contexts"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(3)
				cfg := redlock.Config{TTL: 100 * ms, Timeout: 5 * ms, Tries: 1}
				for _, n := range c.keepers() {
					cfg.Nodes = append(cfg.Nodes, n)
				}
				l, err := redlock.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				c.nodes[2].deaf = true
				c.set("set", flaw{delay: row.late}, 2)
				lease(t, l)
				start := time.Now()
				err = l.Close()
				if took := time.Since(start); took < row.took-5*ms || took > row.took+50*ms || (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
					t.Errorf("after %v: %v; want %q after %v", took, err, row.want, row.took)
				}
				time.Sleep(time.Hour) // for the driver
			})
		})
	}
}

// Close ends the contexts of all leases that are held.
func TestCloseEndsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, newCluster(5).keepers(), nil)
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
				t.Errorf("a context has ended by %v", cause)
			}
		}
	})
}

// What confirming the token took is time of the lease, too.
func TestConfirmationTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.nodes[0].count["k"] = 41
		c.set("set", flaw{delay: 10 * ms}, 2)
		c.set("raise", flaw{delay: 4 * time.Second}, 1)
		l := locker(t, c.keepers(), func(cfg *redlock.Config) { cfg.Fence, cfg.Timeout, cfg.Drift = true, 5*time.Second, 0.6 })
		_, err := l.Acquire(t.Context(), "k")
		wantKind(t, err, redlock.ErrExpired)
	})
}

// What a failed attempt has set is owed as well, while it can be there.
func TestFailedAttemptIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.take("k", 0, 1, 2)
		c.set("release", flaw{down: true}, 3, 4)
		_, err := locker(t, c.keepers(), nil).Acquire(t.Context(), "k")
		wantKind(t, err, redlock.ErrTaken)
		time.Sleep(5 * time.Second)
		c.set("release", flaw{}, 3, 4)
		time.Sleep(300 * ms)
		if keys := c.holders("k", c.log.of("set")[0].token); keys != 0 {
			t.Errorf("%d keys are left", keys)
		}
	})
}

// A lease that a quorum granted is given back on the other nodes, too, whose requests may come
// later than the release.
func TestLateGrantOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		nodes := c.keepers()
		nodes[3].stray, nodes[4].stray = time.Second, time.Second
		s := lease(t, locker(t, nodes, nil))
		if err := s.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if keys := c.holders("k", s.Token()); keys != 0 {
			t.Errorf("%d keys are left", keys)
		}
	})
}
