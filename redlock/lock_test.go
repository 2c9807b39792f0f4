package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
)

var background = context.Background()

const validity = ttl - 102*time.Millisecond

func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := acquire(t, c.client(t, nil))
		time.Sleep(5 * time.Second)
		c.setFault("extend", stepFault{delay: 10 * time.Millisecond}, 2)
		start := time.Now()
		if err := l.Extend(background); err != nil {
			t.Fatal(err)
		}
		if want := start.Add(validity); !l.Until().Equal(want) {
			t.Errorf("until %v, want %v", l.Until(), want)
		}
		time.Sleep(6 * time.Second) // past the first TTL
		if n := c.numHolders("k", l.Token()); n != 5 {
			t.Errorf("%d nodes have the extended key, want 5", n)
		}
	})
}

func TestExtendFails(t *testing.T) {
	for name, c := range map[string]struct {
		kind  error
		asked int
		setup func(t *testing.T, c cluster, l *redlock.Lock)
	}{
		"missing on three": {redlock.ErrLost, 5, func(t *testing.T, c cluster, l *redlock.Lock) {
			for _, m := range c.nodes[:3] {
				delete(m.keys, "k")
			}
		}},
		"taken on three": {redlock.ErrLost, 5, func(t *testing.T, c cluster, l *redlock.Lock) { c.take("k", 0, 1, 2) }},
		"taken on two, one down": {redlock.ErrNoQuorum, 5, func(t *testing.T, c cluster, l *redlock.Lock) {
			c.take("k", 0, 1)
			c.setFault("extend", stepFault{refuse: true}, 2)
		}},
		"three too slow": {redlock.ErrNoQuorum, 5, func(t *testing.T, c cluster, l *redlock.Lock) {
			c.setFault("extend", stepFault{delay: time.Second}, 0, 1, 2)
		}},
		"at the deadline": {redlock.ErrExpired, 0, func(t *testing.T, c cluster, l *redlock.Lock) {
			time.Sleep(time.Until(l.Until()))
		}},
		"ends after the deadline": {redlock.ErrExpired, 5, func(t *testing.T, c cluster, l *redlock.Lock) {
			c.setFault("extend", stepFault{delay: 20 * time.Millisecond}, 0)
			time.Sleep(time.Until(l.Until()) - 20*time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := newCluster(5)
				l := acquire(t, nodes.client(t, nil))
				until := l.Until()
				c.setup(t, nodes, l)
				wantKind(t, l.Extend(background), c.kind)
				if !l.Until().Equal(until) {
					t.Error("a failed extension moved the deadline")
				}
				if n := len(nodes.log.rowsFor("extend")); n != c.asked {
					t.Errorf("%d requests, want %d", n, c.asked)
				}
				if n := nodes.numHolders("k", l.Token()); name == "missing on three" && n != 2 {
					t.Errorf("%d nodes have the key, want 2: an extension must not set a missing key", n)
				}
			})
		})
	}
}

func TestExtendJustInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := acquire(t, c.client(t, nil))
		c.setFault("extend", stepFault{delay: 20 * time.Millisecond}, 0)
		time.Sleep(time.Until(l.Until()) - 20*time.Millisecond - 1)
		if err := l.Extend(background); err != nil {
			t.Error(err)
		}
	})
}

// If the clock steps back, the duration of an extension is unknown, so the extension fails.
func TestExtendWithClockStepBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		readings := 0
		l := acquire(t, c.client(t, func(cfg *redlock.Config) {
			cfg.Now = func() time.Time {
				if readings++; readings == 4 { // at the end of the extension
					return time.Now().Add(-time.Second)
				}
				return time.Now()
			}
		}))
		until := l.Until()
		time.Sleep(5 * time.Second)
		wantKind(t, l.Extend(background), redlock.ErrExpired)
		if !l.Until().Equal(until) {
			t.Error("a failed extension moved the deadline")
		}
	})
}

// Failed extensions count toward the limit, too. Otherwise the number of attempts would be
// unlimited.
func TestExtendLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		l := acquire(t, c.client(t, func(cfg *redlock.Config) { cfg.Extends = 3 }))
		for i, want := range []error{nil, redlock.ErrNoQuorum, nil, redlock.ErrLimit, redlock.ErrLimit} {
			c.setFault("extend", stepFault{refuse: i == 1}, 0, 1)
			time.Sleep(time.Second)
			if err := l.Extend(background); !errors.Is(err, want) {
				t.Errorf("extension %d: %v, want %v", i+1, err, want)
			}
		}
		if n := len(c.log.rowsFor("extend")); n != 9 {
			t.Errorf("%d requests, want 9", n)
		}
	})
}

func TestCancelDuringExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		l := acquire(t, c.client(t, nil))
		c.setFault("extend", stepFault{delay: 40 * time.Millisecond}, 0, 1)
		wantCanceled(t, l.Extend(cancelAfter(10*time.Millisecond)))
	})
}

// A loss that is already certain is reported even if the context has ended.
func TestLossIsReportedDespiteCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := acquire(t, c.client(t, nil))
		c.take("k", 0, 1, 2)
		c.setFault("extend", stepFault{delay: 40 * time.Millisecond}, 3, 4)
		wantKind(t, l.Extend(cancelAfter(10*time.Millisecond)), redlock.ErrLost)
	})
}

func TestRelease(t *testing.T) {
	down, lost := stepFault{refuse: true}, stepFault{loseAnswer: true}
	for name, c := range map[string]struct {
		kind  error
		setup func(c cluster)
	}{
		"all":                   {nil, func(c cluster) {}},
		"two down":              {nil, func(c cluster) { c.setFault("release", down, 0, 1) }},
		"two taken":             {nil, func(c cluster) { c.take("k", 0, 1) }},
		"three taken":           {redlock.ErrLost, func(c cluster) { c.take("k", 0, 1, 2) }},
		"three taken, two down": {redlock.ErrLost, func(c cluster) { c.take("k", 0, 1, 2); c.setFault("release", down, 3, 4) }},
		"two taken, one down":   {redlock.ErrNoQuorum, func(c cluster) { c.take("k", 0, 1); c.setFault("release", down, 2) }},
		"three answers lost":    {redlock.ErrNoQuorum, func(c cluster) { c.setFault("release", lost, 0, 1, 2) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := newCluster(5)
				l := acquire(t, nodes.client(t, nil))
				c.setup(nodes)
				err := l.Release(background)
				if !errors.Is(err, c.kind) || (err == nil) != (c.kind == nil) {
					t.Errorf("error: %v, want %v", err, c.kind)
				}
				if n := len(nodes.log.rowsFor("release")); n != 5 {
					t.Errorf("%d requests, want 5", n)
				}
				wantKind := redlock.ErrLost
				if err := l.Release(background); c.kind == nil && len(nodes.nodes[0].faults) == 0 && !errors.Is(err, wantKind) {
					t.Errorf("second release: %v, want %v", err, wantKind)
				}
			})
		})
	}
}

// Releasing a lock acquired on three of five nodes succeeds, although the other two nodes report
// that they don't have it.
func TestReleaseOfSmallestQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.take("k", 3, 4)
		l := acquire(t, c.client(t, nil))
		if err := l.Release(background); err != nil || l.Votes() != 3 {
			t.Errorf("release after %d votes: %v; want 3 votes and no error", l.Votes(), err)
		}
		if n := c.numHolders("k", "other"); n != 2 {
			t.Errorf("%d keys of the other client are left, want 2", n)
		}
	})
}

// With four nodes, two answers of each kind are not a quorum.
func TestReleaseOfEvenSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(4)
		l := acquire(t, c.client(t, nil))
		c.take("k", 0, 1)
		wantKind(t, l.Release(background), redlock.ErrNoQuorum)
	})
}
