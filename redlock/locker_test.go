package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/driver"
)

const ms = time.Millisecond

// granter is a memoryNode that implements Granter and Identifier, too.
type granter struct {
	*memoryNode
	id         string
	grantDelay time.Duration // if not 0, grants are not answered and take effect only after this delay
	abandoned  map[string]bool
}

var (
	_ driver.Granter    = (*granter)(nil)
	_ driver.Identifier = (*granter)(nil)
)

func (k *granter) Identity(context.Context) (string, error) { return k.id, nil }

func (k *granter) Grant(ctx context.Context, key, token string, t driver.Terms) (int64, error) {
	grant := func() int64 {
		e, taken := k.keys[key]
		switch {
		case k.abandoned[token], taken && e.token != token && time.Now().Before(e.expires):
			return 0
		case k.has(key, token):
			return max(1, k.count[key])
		}
		k.keys[key] = entry{token, time.Now().Add(t.TTL)}
		if !t.Fence {
			return 1
		}
		k.count[key]++
		return k.count[key]
	}
	if k.grantDelay > 0 {
		time.AfterFunc(k.grantDelay, func() { k.execute(context.Background(), "set", token, grant) })
		return 0, errLost
	}
	return k.execute(ctx, "set", token, grant)
}

func (k *granter) Abandon(ctx context.Context, key, token string, _ time.Duration) (bool, error) {
	n, err := k.execute(ctx, "release", token, func() int64 {
		if k.has(key, token) {
			delete(k.keys, key)
			return 1
		}
		k.abandoned[token] = true
		return 0
	})
	return n > 0, err
}

func (c cluster) granters() (out []*granter) {
	for _, m := range c.nodes {
		out = append(out, &granter{memoryNode: m, id: m.name, abandoned: map[string]bool{}})
	}
	return out
}

// locker returns a Locker that uses nodes, has a TTL of 10 s and makes one attempt. It is closed when
// the test ends. In a synctest bubble, the test then fails if any goroutine is left.
func locker[N redlock.Node](t testing.TB, nodes []N, change func(*redlock.Config)) *redlock.Locker {
	t.Helper()
	cfg := redlock.Config{TTL: ttl, Tries: 1}
	for _, n := range nodes {
		cfg.Nodes = append(cfg.Nodes, n)
	}
	if change != nil {
		change(&cfg)
	}
	l, err := redlock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func lease(t testing.TB, l *redlock.Locker) *redlock.Lease {
	t.Helper()
	s, err := l.Acquire(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantCause(t testing.TB, ctx context.Context, kind error) {
	t.Helper()
	if cause := context.Cause(ctx); cause != kind {
		t.Errorf("the context ended with cause %v, want %v", cause, kind)
	}
}

// overloadedNode has a driver that is too busy to send grants.
type overloadedNode struct{ *granter }

func (overloadedNode) Grant(context.Context, string, string, driver.Terms) (int64, error) {
	return 0, fmt.Errorf("%w: too busy", driver.ErrNotSent)
}

// Requests that were not sent are not undone, and an overloaded driver does not make the lock look
// taken.
func TestUnsentGrantsAreNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		var nodes []redlock.Node
		for i, k := range c.granters() {
			if nodes = append(nodes, k); i < 3 {
				nodes[i] = overloadedNode{k}
			}
		}
		_, err := locker(t, nodes, nil).Acquire(t.Context(), "k")
		wantKind(t, err, redlock.ErrNoQuorum)
		synctest.Wait()
		for _, r := range c.log.rowsFor("release") {
			if r.node < "n4" {
				t.Errorf("%s received a release although no grant was sent", r.node)
			}
		}
		if errors.Is(err, redlock.ErrTaken) || len(c.log.rowsFor("release")) != 2 {
			t.Errorf("%d releases, want 2 for n4 and n5; error: %v", len(c.log.rowsFor("release")), err)
		}
	})
}

func TestAcquireReturnsOnceDecided(t *testing.T) {
	for name, row := range map[string]struct {
		nodes       int
		taken, slow []int
		kind        error
	}{
		"a quorum":                  {5, nil, []int{3, 4}, nil},
		"no quorum of five":         {5, []int{0, 1, 2}, []int{3, 4}, redlock.ErrTaken},
		"half of four is no quorum": {4, []int{0, 1}, []int{2, 3}, redlock.ErrTaken},
		"three of four are needed":  {4, nil, []int{3}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(row.nodes)
				c.take("k", row.taken...)
				c.setFault("set", stepFault{delay: 40 * ms}, row.slow...)
				start := time.Now()
				l := locker(t, c.granters(), nil)
				s, err := l.Acquire(t.Context(), "k")
				if row.kind == nil && err != nil || row.kind != nil && !errors.Is(err, row.kind) {
					t.Errorf("error: %v, want %v", err, row.kind)
				}
				if elapsed := time.Since(start); elapsed != 0 {
					t.Errorf("took %v", elapsed)
				}
				if s == nil {
					time.Sleep(time.Second)
					if keys := c.numHolders("k", c.log.rowsFor("set")[0].token); keys != 0 {
						t.Errorf("%d keys are left", keys)
					}
					return
				}
				if s.Votes() != row.nodes-len(row.slow) || len(s.Refusals()) != len(row.slow) {
					t.Errorf("%d votes, refusals: %v", s.Votes(), s.Refusals())
				}
				time.Sleep(time.Second)
				if keys := c.numHolders("k", s.Token()); keys != row.nodes {
					t.Errorf("%d keys are set, want one on each node, including slow ones", keys)
				}
				err = s.Release(t.Context())
				synctest.Wait()
				if keys := c.numHolders("k", s.Token()); err != nil || keys != 0 {
					t.Errorf("release: %v, and %d keys are left", err, keys)
				}
			})
		})
	}
}

// A canceled acquire returns immediately, and its keys have been released by the time Close
// returns.
func TestCanceledAcquireIsCleanedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.setFault("set", stepFault{delay: 40 * ms}, 2, 3, 4)
		l := locker(t, c.granters(), nil)
		start := time.Now()
		_, err := l.Acquire(cancelAfter(20*ms), "k")
		wantCanceled(t, err)
		if elapsed := time.Since(start); elapsed != 20*ms {
			t.Errorf("canceled after 20ms, but took %v", elapsed)
		}
		l.Close()
		if keys := c.numHolders("k", c.log.rowsFor("set")[0].token); keys != 0 || len(c.log.rowsFor("set")) != 5 {
			t.Errorf("%d keys are left after %d sets", keys, len(c.log.rowsFor("set")))
		}
	})
}

// If a node is a Granter, a grant that arrives after its release sets no key.
func TestGrantAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		nodes := c.granters()
		for _, k := range nodes[:3] {
			k.grantDelay = time.Second
		}
		_, err := locker(t, nodes, nil).Acquire(t.Context(), "k")
		wantKind(t, err, redlock.ErrNoQuorum)
		time.Sleep(2 * time.Second)
		sets := c.log.rowsFor("set")
		if keys := c.numHolders("k", sets[0].token); len(sets) != 5 || keys != 0 {
			t.Errorf("%d requests, and %d keys are left", len(sets), keys)
		}
	})
}

// A release that is not answered is retried until the node is back.
func TestPendingReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		s := lease(t, locker(t, c.granters(), nil))
		c.setFault("release", stepFault{refuse: true}, 0, 1, 2)
		wantKind(t, s.Release(t.Context()), redlock.ErrNoQuorum)
		time.Sleep(3 * time.Second)
		if keys := c.numHolders("k", s.Token()); keys != 3 {
			t.Errorf("%d keys are left, want 3", keys)
		}
		c.setFault("release", stepFault{}, 0, 1, 2)
		time.Sleep(300 * ms)
		if keys := c.numHolders("k", s.Token()); keys != 0 {
			t.Errorf("%d keys are left although the nodes are back", keys)
		}
	})
}

// Releases are retried only until the key has expired, with one request per node at a time.
func TestPendingReleasesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		l := locker(t, c.granters(), nil)
		s := lease(t, l)
		c.setFault("release", stepFault{refuse: true}, 0, 1, 2)
		s.Release(t.Context())
		time.Sleep(time.Minute)
		numSent := len(c.log.rowsFor("release"))
		if limit := 3 * int(2*ttl/(200*ms)); numSent > limit || numSent < limit/2 {
			t.Errorf("%d releases were sent within two TTLs, want about %d", numSent, limit)
		}
		time.Sleep(time.Minute)
		if numLater := len(c.log.rowsFor("release")) - numSent; numLater != 0 {
			t.Errorf("%d releases were sent after that", numLater)
		}
	})
}

func TestContextOfLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.granters(), nil)

		s := lease(t, l)
		ctx, until := s.Context(), s.Until()
		c.setFault("extend", stepFault{delay: time.Hour}, 0, 1, 2) // requests do not delay the deadline
		for range 7 {
			time.Sleep(1230 * ms)
			s.Extend(ctx)
		}
		<-ctx.Done()
		if overrun := time.Since(until); overrun != 0 || s.Remaining() > 0 {
			t.Errorf("the context ended %v after the deadline, with %v left", overrun, s.Remaining())
		}
		wantCause(t, ctx, redlock.ErrExpired)
		s.Release(t.Context())
		c.setFault("extend", stepFault{}, 0, 1, 2)

		s = lease(t, l)
		ctx = s.Context()
		if err := s.Release(t.Context()); err != nil {
			t.Error(err)
		}
		wantCause(t, ctx, redlock.ErrReleased)
		wantKind(t, s.Extend(t.Context()), redlock.ErrReleased)

		s = lease(t, l)
		ctx = s.Context()
		synctest.Wait() // until all nodes have granted the lock
		for _, m := range c.nodes[:3] {
			clear(m.keys)
		}
		wantKind(t, s.Extend(t.Context()), redlock.ErrLost)
		wantCause(t, ctx, redlock.ErrLost)
		s.Release(t.Context())

		s = lease(t, l)
		l.Close()
		<-s.Context().Done()
		wantCause(t, s.Context(), redlock.ErrClosed)
		_, err := l.Acquire(t.Context(), "k")
		wantKind(t, err, redlock.ErrClosed)
	})
}

func TestRenewal(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*redlock.Config)
		down   bool
		lasts  time.Duration
	}{
		"as often as allowed":                           {func(c *redlock.Config) { c.Extends = 3 }, false, 9*time.Second + 9898*ms},
		"as long as allowed":                            {func(c *redlock.Config) { c.MaxHold = 17 * time.Second }, false, 6*time.Second + 9898*ms},
		"as long as allowed, with unlimited extensions": {func(c *redlock.Config) { c.MaxHold = time.Hour }, false, 3588*time.Second + 9898*ms},
		"nodes are down":                                {func(c *redlock.Config) { c.MaxHold = time.Hour }, true, 9898 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(5)
				c.setFault("extend", stepFault{refuse: row.down}, 0, 1, 2)
				s := lease(t, locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Renew = 3 * time.Second; row.change(cfg) }))
				start := time.Now()
				<-s.Context().Done()
				if lifetime := time.Since(start); lifetime != row.lasts {
					t.Errorf("the lease lasted %v, want %v", lifetime, row.lasts)
				}
				wantCause(t, s.Context(), redlock.ErrExpired)
			})
		})
	}
}

// A repair sets the key again if a minority of nodes lost it, but not if a majority lost it or
// another client holds it.
func TestRepair(t *testing.T) {
	for lost, want := range []int{5, 5, 5, 2} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(5)
			s := lease(t, locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Repair = true }))
			synctest.Wait() // until all nodes have granted the lock
			for _, m := range c.nodes[:lost] {
				clear(m.keys)
			}
			if err := s.Extend(t.Context()); (err != nil) != (want < 3) {
				t.Errorf("key lost on %d nodes: extension: %v", lost, err)
			}
			if keys := c.numHolders("k", s.Token()); keys != want {
				t.Errorf("key lost on %d nodes: %d keys, want %d", lost, keys, want)
			}
			s.Release(t.Context())
			synctest.Wait()
			if keys := c.numHolders("k", s.Token()); keys != 0 {
				t.Errorf("key lost on %d nodes: %d keys are left after the release", lost, keys)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		s := lease(t, locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Repair = true }))
		synctest.Wait()
		c.take("k", 0)
		if err := s.Extend(t.Context()); err != nil || c.nodes[0].keys["k"].token != "other" {
			t.Errorf("extension: %v; n1 has %v", err, c.nodes[0].keys["k"])
		}
	})
}

// Two votes from the same server do not make a quorum, whichever votes come first. Once all
// identities are known, every acquire fails.
func TestSameNodeTwice(t *testing.T) {
	for slow, first := range []error{nil, redlock.ErrSameNode, nil} { // if one of the duplicates is late, two different servers are a quorum
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(3)
			nodes := c.granters()
			nodes[2].id = nodes[0].id
			c.setFault("set", stepFault{delay: 10 * ms}, slow)
			l := locker(t, nodes, nil)
			for _, want := range []error{first, redlock.ErrSameNode} {
				s, err := l.Acquire(t.Context(), "k")
				time.Sleep(time.Second) // until all nodes have answered
				if want == nil && err == nil {
					s.Release(t.Context())
				} else if e := wantKind(t, err, want); e.Cause == nil || e.Cause.Error() != "n1 and n3 are the same Redis server, which has only one vote: list it once" {
					t.Errorf("n%d is slow: error: %v", slow+1, err)
				}
			}
		})
	}
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.granters(), nil)
		if err := l.Do(t.Context(), "k", func(ctx context.Context) error { return ctx.Err() }); err != nil {
			t.Error(err)
		}
		failed := errors.New("failed")
		if err := l.Do(t.Context(), "k", func(context.Context) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("error: %v", err)
		}
		err := l.Do(t.Context(), "k", func(ctx context.Context) error {
			<-ctx.Done()
			wantCause(t, ctx, redlock.ErrExpired)
			return nil
		})
		wantKind(t, err, redlock.ErrExpired)
		err = l.Do(cancelAfter(time.Second), "k", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if !errors.Is(err, context.Canceled) || errors.Is(err, redlock.ErrExpired) {
			t.Errorf("error: %v", err)
		}
	})
}

func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		c := newCluster(3)
		l := locker(t, c.granters(), func(cfg *redlock.Config) {
			cfg.Observe = func(e redlock.Event) { events = append(events, fmt.Sprint(e.Type, " ", e.Op)) }
		})
		s := lease(t, l)
		l.Acquire(t.Context(), "k")
		s.Extend(t.Context())
		<-s.Context().Done()
		s.Release(t.Context())
		want := []string{"invoke acquire", "ok acquire", "invoke acquire", "fail acquire", "invoke extend", "ok extend", "info lost", "invoke release", "ok release"}
		if !slices.Equal(events, want) {
			t.Errorf("got  %v\nwant %v", events, want)
		}
	})
}

// A Locker's fencing tokens increase even if one node's count is lower.
func TestFenceOfLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		l := locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Fence = true })
		c.nodes[0].count["k"], c.nodes[1].count["k"] = 41, 41
		for want := int64(42); want < 45; want++ {
			s := lease(t, l)
			if s.Fence() != want {
				t.Errorf("fence %d, want %d", s.Fence(), want)
			}
			if err := s.Release(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
	})
}

// New either rejects a configuration and gives a reason, or returns a Locker that can acquire and
// release a lock without leaving goroutines behind.
func FuzzNew(f *testing.F) {
	f.Add(3, int64(ttl), int64(50*ms), 0.01, int64(0), int64(0), 1, 0, int64(0), int64(0), int64(0), false, false)
	f.Add(5, int64(time.Second), int64(0), 0.5, int64(1), int64(2), 0, 3, int64(300*ms), int64(2*time.Second), int64(time.Second), true, true)
	f.Fuzz(func(t *testing.T, n int, ttl, timeout int64, drift float64, retryMin, retryMax int64, tries, extends int, renew, maxHold, quarantine int64, fence, repair bool) {
		if n < 0 || n > 9 {
			return
		}
		cfg := redlock.Config{TTL: time.Duration(ttl), Timeout: time.Duration(timeout), Drift: drift, RetryMin: time.Duration(retryMin), RetryMax: time.Duration(retryMax),
			Tries: tries, Extends: extends, Renew: time.Duration(renew), MaxHold: time.Duration(maxHold), Quarantine: time.Duration(quarantine), Fence: fence, Repair: repair}
		for _, k := range newCluster(n).granters() {
			cfg.Nodes = append(cfg.Nodes, k)
		}
		synctest.Test(t, func(t *testing.T) {
			l, err := redlock.New(cfg)
			if err != nil {
				if l != nil || len(err.Error()) < len("configure redlock: x") {
					t.Errorf("New returned a Locker or an empty error: %v", err)
				}
				return
			}
			s, err := l.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			s.Context()
			if err := s.Extend(t.Context()); err != nil {
				t.Error(err)
			}
			if err := errors.Join(s.Release(t.Context()), l.Close()); err != nil {
				t.Error(err)
			}
		})
	})
}
