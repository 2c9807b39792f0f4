package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
)

// A failed acquire reports whether the lock was taken or the nodes were broken, however the wait
// ended.
func TestTakenLockVsBrokenNodes(t *testing.T) {
	down, slow := stepFault{refuse: true}, stepFault{delay: 40 * ms}
	for name, row := range map[string]struct {
		nodes    int
		setup    func(c cluster)
		patience time.Duration // 0 means one attempt
		taken    bool
	}{
		"taken":                                    {5, func(c cluster) { c.take("k", 0, 1, 2) }, 0, true},
		"a node with the holder's key is down":     {5, func(c cluster) { c.take("k", 0, 1, 2); c.setFault("set", down, 2) }, 0, true},
		"two other nodes are down":                 {5, func(c cluster) { c.take("k", 0, 1, 2); c.setFault("set", down, 3, 4) }, 0, true},
		"taken on two of four":                     {4, func(c cluster) { c.take("k", 0, 1) }, 0, true},
		"three are down":                           {5, func(c cluster) { c.setFault("set", down, 0, 1, 2) }, 0, false},
		"three are too slow":                       {5, func(c cluster) { c.setFault("set", stepFault{delay: time.Second}, 0, 1, 2) }, 0, false},
		"waiting for a taken lock":                 {5, func(c cluster) { c.take("k", 0, 1, 2) }, 2 * time.Second, true},
		"waiting, one node is down":                {5, func(c cluster) { c.take("k", 0, 1, 2); c.setFault("set", down, 2) }, 2 * time.Second, true},
		"waiting for broken nodes":                 {5, func(c cluster) { c.setFault("set", down, 0, 1, 2) }, 2 * time.Second, false},
		"canceled during the second attempt":       {5, func(c cluster) { c.take("k", 0, 1, 2); c.setFault("set", slow, 0, 1, 2) }, 160 * ms, true},
		"canceled during an attempt, broken nodes": {5, func(c cluster) { c.setFault("set", stepFault{delay: 40 * ms, refuse: true}, 0, 1, 2) }, 160 * ms, false},
		"canceled before any answer":               {5, func(c cluster) { c.take("k", 0, 1, 2); c.setFault("set", slow, 0, 1, 2) }, 20 * ms, false},
		"taken, then broken": {5, func(c cluster) {
			c.take("k", 0, 1, 2)
			time.AfterFunc(time.Second, func() { c.setFault("set", down, 0, 1, 2) })
		}, 2 * time.Second, false},
	} {
		for _, kind := range []string{"locker", "client"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(row.nodes)
					row.setup(c)
					ctx, change := t.Context(), func(*redlock.Config) {}
					if row.patience > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, row.patience)
						defer cancel()
						change = func(cfg *redlock.Config) { cfg.Tries, cfg.RetryMin, cfg.RetryMax = 0, 100*ms, 100*ms }
					}
					var err error
					if kind == "locker" {
						_, err = locker(t, c.granters(), change).Acquire(ctx, "k")
					} else {
						_, err = c.client(t, change).Acquire(ctx, "k")
					}
					if err == nil {
						t.Fatal("acquired the lock")
					}
					if got := errors.Is(err, redlock.ErrTaken); got != row.taken {
						t.Errorf("error matches ErrTaken: %v, want %v; error: %v", got, row.taken, err)
					}
					ended := row.patience > 0
					if errors.Is(err, redlock.ErrCanceled) != ended || errors.Is(err, context.DeadlineExceeded) != ended {
						t.Errorf("the context ended: %v; error: %v", ended, err)
					}
				})
			})
		}
	}
}

// An acquire that fails because the Locker is closed reports whether the lock was taken.
func TestTakenWhenClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.take("k", 0, 1)
		l := locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Tries = 0 })
		time.AfterFunc(time.Second, func() { l.Close() })
		_, err := l.Acquire(t.Context(), "k")
		if !errors.Is(err, redlock.ErrTaken) || !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("error: %v", err)
		}
	})
}

func TestTryAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Tries = 0 })
		s, err := l.TryAcquire(t.Context(), "k", redlock.WithTTL(time.Second))
		if err != nil || s.Remaining() > time.Second {
			t.Fatalf("lease %v, error %v", s, err)
		}
		start := time.Now()
		_, err = l.TryAcquire(t.Context(), "k", redlock.WithWait(time.Hour))
		if e := wantKind(t, err, redlock.ErrTaken); e.Tries != 1 || time.Since(start) != 0 {
			t.Errorf("%d tries in %v", e.Tries, time.Since(start))
		}
	})
}

// WithWait limits when the last attempt starts, and Config.Tries does not apply.
func TestWithWait(t *testing.T) {
	for _, row := range []struct {
		free, wait, took time.Duration // when the lock becomes free, the option, the duration of Acquire
		ok               bool
	}{
		{1010 * ms, 1050 * ms, 1050 * ms, true}, {1010 * ms, 2 * time.Second, 1100 * ms, true}, {1010 * ms, 950 * ms, 950 * ms, false},
		{1010 * ms, 0, 0, false}, {1010 * ms, -time.Second, 0, false}, {0, 0, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(5)
			if row.free > 0 {
				c.take("k", 0, 1, 2)
				time.AfterFunc(row.free, func() {
					for _, m := range c.nodes[:3] {
						m.mu.Lock()
						delete(m.keys, "k")
						m.mu.Unlock()
					}
				})
			}
			l := locker(t, c.granters(), func(cfg *redlock.Config) { cfg.RetryMin, cfg.RetryMax = 100*ms, 100*ms })
			start := time.Now()
			_, err := l.Acquire(t.Context(), "k", redlock.WithWait(row.wait))
			if elapsed := time.Since(start); elapsed != row.took || (err == nil) != row.ok {
				t.Errorf("free after %v, WithWait(%v): took %v, error: %v", row.free, row.wait, elapsed, err)
			}
			if err != nil {
				wantKind(t, err, redlock.ErrTaken)
			}
			time.Sleep(2 * time.Second) // until the lock is released
		})
	}
}

// WithTTL overrides the configured TTL everywhere: on the nodes, for the deadline, for extensions,
// and for the duration of an attempt.
func TestWithTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := locker(t, c.granters(), nil)
		for _, ttl := range []time.Duration{time.Second, time.Minute} {
			want := ttl - redlock.Drift(ttl, 0.01)
			s, err := l.Acquire(t.Context(), "k", redlock.WithTTL(ttl))
			if err != nil {
				t.Fatal(err)
			}
			life := func() time.Duration {
				synctest.Wait() // a quorum may have answered before n1
				return time.Until(c.nodes[0].expiry("k"))
			}
			if s.Remaining() != want || life() != ttl {
				t.Errorf("TTL %v: %v left, key expires in %v", ttl, s.Remaining(), life())
			}
			time.Sleep(ttl / 2)
			if err := s.Extend(t.Context()); err != nil || s.Remaining() != want || life() != ttl {
				t.Errorf("TTL %v, extended: error %v, %v left, key expires in %v", ttl, err, s.Remaining(), life())
			}
			<-s.Context().Done()
			wantCause(t, s.Context(), redlock.ErrExpired)
			time.Sleep(ttl)
		}
		c.setFault("set", stepFault{delay: 45 * ms}, 0, 1, 2)
		_, err := l.Acquire(t.Context(), "k", redlock.WithTTL(100*ms))
		if err != nil {
			t.Errorf("acquire with 53 ms of validity left: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // releases of a failed attempt are retried until its keys have expired
		c := newCluster(3)
		c.setFault("set", stepFault{loseAnswer: true}, 0, 1, 2)
		c.setFault("release", stepFault{refuse: true}, 0, 1, 2)
		l := locker(t, c.granters(), nil)
		_, err := l.Acquire(t.Context(), "k", redlock.WithTTL(time.Minute))
		wantKind(t, err, redlock.ErrNoQuorum)
		time.Sleep(30 * time.Second)
		c.setFault("release", stepFault{}, 0, 1, 2)
		time.Sleep(5 * time.Second)
		if numLeft := c.nodes[0].size() + c.nodes[1].size() + c.nodes[2].size(); numLeft > 0 {
			t.Errorf("%d keys are left", numLeft)
		}
	})
}

func TestRejectsInvalidTTLOption(t *testing.T) {
	c := newCluster(3)
	l := locker(t, c.granters(), func(cfg *redlock.Config) { cfg.Renew, cfg.MaxHold = time.Second, time.Minute })
	for want, ttl := range map[string]time.Duration{
		"TTL 0s: must be positive":          0,
		"whole number of milliseconds":      time.Second + time.Microsecond,
		"timeout 50ms with a TTL of 80ms":   80 * ms,
		"renewal every 1s with a TTL of 2s": 2 * time.Second,
		"MaxHold 1m0s with a TTL of 1h0m0s": time.Hour,
	} {
		_, err := l.Acquire(t.Context(), "k", redlock.WithTTL(ttl))
		if err == nil || !strings.HasPrefix(err.Error(), `acquire "k": `) || !strings.Contains(err.Error(), want) {
			t.Errorf("TTL %v: %v; want %q", ttl, err, want)
		}
		if err := l.Do(t.Context(), "k", func(context.Context) error { return nil }, redlock.WithTTL(ttl)); err == nil {
			t.Errorf("Do with TTL %v: no error", ttl)
		}
	}
	if n := len(c.log.rowsFor("set")); n > 0 {
		t.Errorf("%d requests were sent to nodes", n)
	}
}
