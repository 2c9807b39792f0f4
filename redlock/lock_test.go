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
		c.set("extend", flaw{delay: 10 * time.Millisecond}, 2)
		start := time.Now()
		if err := l.Extend(background); err != nil {
			t.Fatal(err)
		}
		if want := start.Add(validity); !l.Until().Equal(want) {
			t.Errorf("until %v, want %v", l.Until(), want)
		}
		time.Sleep(6 * time.Second) // past the first TTL
		if n := c.holders("k", l.Token()); n != 5 {
			t.Errorf("%d nodes hold the extended key, want 5", n)
		}
	})
}

func TestExtendFails(t *testing.T) {
	for name, c := range map[string]struct {
		kind  error
		asked int
		setup func(t *testing.T, c cluster, l *redlock.Lock)
	}{
		"gone on three": {redlock.ErrLost, 5, func(t *testing.T, c cluster, l *redlock.Lock) {
			for _, m := range c.nodes[:3] {
				delete(m.keys, "k")
			}
		}},
		"another's on three": {redlock.ErrLost, 5, func(t *testing.T, c cluster, l *redlock.Lock) { c.take("k", 0, 1, 2) }},
		"gone on two, one down": {redlock.ErrNoQuorum, 5, func(t *testing.T, c cluster, l *redlock.Lock) {
			c.take("k", 0, 1)
			c.set("extend", flaw{down: true}, 2)
		}},
		"three too slow": {redlock.ErrNoQuorum, 5, func(t *testing.T, c cluster, l *redlock.Lock) {
			c.set("extend", flaw{delay: time.Second}, 0, 1, 2)
		}},
		"at the deadline": {redlock.ErrExpired, 0, func(t *testing.T, c cluster, l *redlock.Lock) {
			time.Sleep(time.Until(l.Until()))
		}},
		"over the deadline when it ends": {redlock.ErrExpired, 5, func(t *testing.T, c cluster, l *redlock.Lock) {
			c.set("extend", flaw{delay: 20 * time.Millisecond}, 0)
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
				if n := len(nodes.log.of("extend")); n != c.asked {
					t.Errorf("%d nodes were asked, want %d", n, c.asked)
				}
				if n := nodes.holders("k", l.Token()); name == "gone on three" && n != 2 {
					t.Errorf("%d nodes hold it, want the two that did: an extension must not set a key that is gone", n)
				}
			})
		})
	}
}

func TestExtendJustInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := acquire(t, c.client(t, nil))
		c.set("extend", flaw{delay: 20 * time.Millisecond}, 0)
		time.Sleep(time.Until(l.Until()) - 20*time.Millisecond - 1)
		if err := l.Extend(background); err != nil {
			t.Error(err)
		}
	})
}

// How long an extension took, a clock that steps back can't tell.
func TestExtendByClockThatStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		readings := 0
		l := acquire(t, c.client(t, func(cfg *redlock.Config) {
			cfg.Now = func() time.Time {
				if readings++; readings == 4 { // the end of the extension
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

// Tries count, done or not: otherwise the limit would not bound them.
func TestExtendLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		l := acquire(t, c.client(t, func(cfg *redlock.Config) { cfg.Extends = 3 }))
		for i, want := range []error{nil, redlock.ErrNoQuorum, nil, redlock.ErrLimit, redlock.ErrLimit} {
			c.set("extend", flaw{down: i == 1}, 0, 1)
			time.Sleep(time.Second)
			if err := l.Extend(background); !errors.Is(err, want) {
				t.Errorf("extension %d: %v, want %v", i+1, err, want)
			}
		}
		if n := len(c.log.of("extend")); n != 9 {
			t.Errorf("%d requests, want three times three", n)
		}
	})
}

func TestCancelDuringExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		l := acquire(t, c.client(t, nil))
		c.set("extend", flaw{delay: 40 * time.Millisecond}, 0, 1)
		wantCancelled(t, l.Extend(cancelAfter(10*time.Millisecond)))
	})
}

// What is certain already is said, though the context ended.
func TestLostDespiteCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := acquire(t, c.client(t, nil))
		c.take("k", 0, 1, 2)
		c.set("extend", flaw{delay: 40 * time.Millisecond}, 3, 4)
		wantKind(t, l.Extend(cancelAfter(10*time.Millisecond)), redlock.ErrLost)
	})
}

func TestRelease(t *testing.T) {
	down, lost := flaw{down: true}, flaw{lost: true}
	for name, c := range map[string]struct {
		kind  error
		setup func(c cluster)
	}{
		"all":                       {nil, func(c cluster) {}},
		"two down":                  {nil, func(c cluster) { c.set("release", down, 0, 1) }},
		"two another's":             {nil, func(c cluster) { c.take("k", 0, 1) }},
		"three another's":           {redlock.ErrLost, func(c cluster) { c.take("k", 0, 1, 2) }},
		"three another's, two down": {redlock.ErrLost, func(c cluster) { c.take("k", 0, 1, 2); c.set("release", down, 3, 4) }},
		"two another's, one down":   {redlock.ErrNoQuorum, func(c cluster) { c.take("k", 0, 1); c.set("release", down, 2) }},
		"three answers lost":        {redlock.ErrNoQuorum, func(c cluster) { c.set("release", lost, 0, 1, 2) }},
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
				if n := len(nodes.log.of("release")); n != 5 {
					t.Errorf("%d nodes were asked, want 5", n)
				}
				wantKind := redlock.ErrLost
				if err := l.Release(background); c.kind == nil && len(nodes.nodes[0].flaw) == 0 && !errors.Is(err, wantKind) {
					t.Errorf("second release: %v, want %v", err, wantKind)
				}
			})
		})
	}
}

// The lock was got on three of five; the other two never had it, and say so.
func TestReleaseOfSmallestQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.take("k", 3, 4)
		l := acquire(t, c.client(t, nil))
		if err := l.Release(background); err != nil || l.Votes() != 3 {
			t.Errorf("release after %d votes: %v; want 3 votes and no error", l.Votes(), err)
		}
		if n := c.holders("k", "other"); n != 2 {
			t.Errorf("%d keys of the other are left, want both", n)
		}
	})
}

// Of four nodes, two are no quorum: neither for yes nor for no.
func TestReleaseOfEvenSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(4)
		l := acquire(t, c.client(t, nil))
		c.take("k", 0, 1)
		wantKind(t, l.Release(background), redlock.ErrNoQuorum)
	})
}
