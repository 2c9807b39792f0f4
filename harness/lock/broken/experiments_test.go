package broken

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"lockpick/harness/lock"
)

var errDown = errors.New("down")

// values records what a lock sets in three attempts that nobody answers.
func (n nodes) values(mistake string, changes ...func(*lock.Env)) []string {
	var values []string
	l := n.open(mistake, append(changes, func(e *lock.Env) { e.Settings.Tries, e.Settings.Ask = 3, "sequential" })...)
	l.set = func(_ context.Context, node int, _, value string) (int64, error) {
		if node == 0 {
			values = append(values, value)
		}
		return 0, errDown
	}
	if h, err := l.Acquire(n.t.Context(), "k"); h != nil || err == nil || len(values) != 3 {
		n.t.Errorf("%s: three attempts that nobody answers: %v, %v, %d values", mistake, h, err, len(values))
	}
	return values
}

// lease is how long a lock claims what it got in an attempt that took elapsed, 0 if it didn't get it.
func (n nodes) lease(mistake string, elapsed time.Duration) time.Duration {
	n.take(0)
	h, _ := n.open(mistake, ticking(elapsed)).Acquire(n.t.Context(), "k")
	if h == nil {
		return 0
	}
	return h.Deadline().Sub(epoch)
}

// pastDeadline is a hold whose deadline has passed, and none of its lock's timers has fired since
// it was acquired.
func (n nodes) pastDeadline(mistake string) lock.Handle {
	n.take(0)
	var late atomic.Int64
	h := n.acquire(n.open(mistake, func(e *lock.Env) {
		e.Now = func() time.Time { return epoch.Add(time.Duration(late.Load())) }
		e.Wall = e.Now
		e.After = func(time.Duration) <-chan time.Time { return nil }
	}))
	if listens, ok := h.(lock.Loser); ok {
		listens.Lost()
	}
	late.Store(int64(time.Minute))
	return h
}

const validity = 9898 * time.Millisecond // TTL less drift

// experiments tell for each mistake whether a lock makes it.
var experiments = map[string]func(nodes, string) bool{
	"no-elapsed-check": func(n nodes, mistake string) bool {
		return n.lease(mistake, 12*time.Second) == 12*time.Second+validity
	},
	"elapsed-not-subtracted": func(n nodes, mistake string) bool {
		return n.lease(mistake, 5*time.Second) == 5*time.Second+validity && n.lease(mistake, 12*time.Second) == 0
	},
	"no-drift-margin": func(n nodes, mistake string) bool {
		return n.lease(mistake, 5*time.Second) == 10*time.Second
	},
	"returns-late": func(n nodes, mistake string) bool {
		return n.lease(mistake, 12*time.Second) == validity
	},
	// TestTellsLate has the rest.
	"tells-late": func(n nodes, mistake string) bool {
		n.take(0)
		h := n.acquire(n.open(mistake))
		_, tells := h.(lock.Loser)
		return tells && h.Deadline().IsZero()
	},
	// No node answers the release.
	"renews-after-failed-release": func(n nodes, mistake string) bool {
		n.take(0)
		l := n.open(mistake)
		h := n.acquire(l)
		l.del = func(context.Context, int, string, string) (int64, error) { return 0, errDown }
		if err := h.Release(n.t.Context()); err == nil {
			n.t.Errorf("%s: a release that no node answered succeeded", mistake)
		}
		w, renews := h.(*renewing)
		if !renews {
			return false
		}
		select {
		case <-w.over:
			return false
		default:
			return true
		}
	},
	// Its holder asks after the deadline, and no timer has fired: a context that was not in use is alive.
	"context-by-timer": func(n nodes, mistake string) bool {
		h, isContexter := n.pastDeadline(mistake).(lock.Contexter)
		_, listens := h.(lock.Loser)
		return isContexter && !listens && h.Context().Err() == nil
	},
	// So is one that was.
	"context-by-ticker": func(n nodes, mistake string) bool {
		h, isContexter := n.pastDeadline(mistake).(lock.Contexter)
		_, listens := h.(lock.Loser)
		return isContexter && listens && h.Context().Err() == nil
	},
	// The wall clock is an hour ahead.
	"wall-clock-deadline": func(n nodes, mistake string) bool {
		n.take(0)
		h := n.acquire(n.open(mistake, func(e *lock.Env) {
			e.Wall = func() time.Time { return time.Now().Add(time.Hour) }
		}))
		made := time.Until(h.Deadline()) > time.Minute
		if h.(lock.WallClocked).ByWall() != made {
			n.t.Errorf("%s: the lock does not say which clock its deadline is by", mistake)
		}
		return made
	},
	// The wall clock is an hour behind.
	"absolute-expiry": func(n nodes, mistake string) bool {
		n.take(0)
		n.acquire(n.open(mistake, func(e *lock.Env) {
			e.Wall = func() time.Time { return time.Now().Add(-time.Hour) }
		}))
		_, own := n.keys()
		return own == 0
	},
	// Another has three of five nodes, and keeps them.
	"quorum-half": func(n nodes, mistake string) bool {
		n.take(3)
		h, _ := n.open(mistake).Acquire(n.t.Context(), "k")
		others, _ := n.keys()
		return h != nil && others == 3
	},
	// Another has two of five nodes.
	"quorum-too-large": func(n nodes, mistake string) bool {
		n.take(2)
		h, _ := n.open(mistake).Acquire(n.t.Context(), "k")
		return h == nil
	},
	// Another has all.
	"set-without-nx": func(n nodes, mistake string) bool {
		n.take(5)
		h, _ := n.open(mistake).Acquire(n.t.Context(), "k")
		return h != nil
	},
	"ttl-in-wrong-unit": func(n nodes, mistake string) bool {
		n.take(0)
		n.acquire(n.open(mistake))
		left, err := n.clients[0].PTTL(n.t.Context(), "k").Result()
		if err != nil {
			n.t.Fatal(err)
		}
		return left <= 10*time.Millisecond
	},
	// Another has the key by the time of the release.
	"plain-del": func(n nodes, mistake string) bool {
		n.take(0)
		h := n.acquire(n.open(mistake))
		n.take(5)
		err := h.Release(n.t.Context())
		others, _ := n.keys()
		if deleted := others < 5; deleted != (err == nil) || !deleted && !errors.Is(err, lock.ErrNotHeld) {
			n.t.Errorf("%s: release of a lost lock: %v", mistake, err)
		}
		return others < 5
	},
	// By the time of the release the key has another value of the same client's, or another client's.
	"release-by-prefix": func(n nodes, mistake string) bool {
		deletes := func(value func(own string) string) bool {
			n.take(0)
			h := n.acquire(n.open(mistake))
			for _, c := range n.clients {
				if err := c.Set(n.t.Context(), "k", value(h.(lock.Tokener).Token()), 0).Err(); err != nil {
					n.t.Fatal(err)
				}
			}
			_ = h.Release(n.t.Context()) // what it says, plain-del's tells
			left, err := n.clients[0].Exists(n.t.Context(), "k").Result()
			return err == nil && left == 0
		}
		return deletes(func(own string) string { return own[:len(own)-1] + "!" }) && !deletes(func(string) string { return "c2-other" })
	},
	"same-value-for-retries": func(n nodes, mistake string) bool {
		v := n.values(mistake, ticking(time.Millisecond))
		return v[0] == v[2] && v[0] != n.values(mistake, another, ticking(time.Second))[0]
	},
	"same-value-for-clients": func(n nodes, mistake string) bool {
		return n.values(mistake, ticking(time.Millisecond))[0] == n.values(mistake, another, ticking(time.Second))[1]
	},
	// Two clients begin in one microsecond, a second apart afterwards.
	"weak-token": func(n nodes, mistake string) bool {
		one, two := n.values(mistake, ticking(time.Millisecond)), n.values(mistake, another, ticking(time.Second))
		return one[0] == two[0] && one[1] != two[1]
	},
	// A node is asked twice with one value, and then with another.
	"yes-to-own-value": func(n nodes, mistake string) bool {
		n.take(0)
		l := n.open(mistake)
		// Without a time to live: what a lock has set itself may have expired.
		if err := n.clients[0].Set(n.t.Context(), "k", "own", 0).Err(); err != nil {
			n.t.Fatal(err)
		}
		var yes []bool
		for _, value := range []string{"own", "other"} {
			v, err := l.set(n.t.Context(), 0, "k", value)
			if err != nil {
				n.t.Fatal(err)
			}
			yes = append(yes, v > 0)
		}
		return slices.Equal(yes, []bool{true, false})
	},

	// Another has the key by the time of the extension, without a time to live.
	"extension-without-token-check": func(n nodes, mistake string) bool {
		if !n.extends(mistake, 5) {
			return false
		}
		left, err := n.clients[0].PTTL(n.t.Context(), "k").Result()
		return err == nil && left > 0
	},
	// No node answers.
	"extension-unheard": func(n nodes, mistake string) bool {
		n.take(0)
		l := n.open(mistake, ticking(time.Millisecond))
		h := n.acquire(l)
		l.extend = func(context.Context, int, string, string) (int64, error) { return 0, errDown }
		return h.(lock.Extender).Extend(n.t.Context()) == nil
	},
	// Another has it on four nodes of five.
	"extension-below-quorum": func(n nodes, mistake string) bool {
		return n.extends(mistake, 4) && !n.extends(mistake, 5)
	},
	// Acquire and extension read the clock twice each.
	"extension-elapsed-not-subtracted": func(n nodes, mistake string) bool {
		n.take(0)
		h := n.acquire(n.open(mistake, ticking(time.Second)))
		if err := h.(lock.Extender).Extend(n.t.Context()); err != nil && mistake != "ttl-in-wrong-unit" {
			n.t.Errorf("%s: extend: %v", mistake, err)
		}
		return h.Deadline().Equal(epoch.Add(3*time.Second + validity))
	},
	"extension-sets-missing-key": func(n nodes, mistake string) bool {
		n.take(0)
		h := n.acquire(n.open(mistake))
		n.take(0)
		err := h.(lock.Extender).Extend(n.t.Context())
		_, own := n.keys()
		if own > 0 && err != nil {
			n.t.Errorf("%s: extend a key that is gone: %v, %d are there", mistake, err, own)
		}
		return own > 0
	},
	"unbounded-extension": func(n nodes, mistake string) bool {
		n.take(0)
		h := n.acquire(n.open(mistake, func(e *lock.Env) { e.Settings.Extends = 1 }))
		extend := h.(lock.Extender).Extend
		if err := extend(n.t.Context()); err != nil && mistake != "ttl-in-wrong-unit" {
			n.t.Errorf("%s: first extension: %v", mistake, err)
		}
		err := extend(n.t.Context())
		if err != nil && !errors.Is(err, errLimit) {
			n.t.Errorf("%s: extension beyond the limit: %v", mistake, err)
		}
		return err == nil
	},

	// Another has four of five nodes.
	"no-release-on-failure": func(n nodes, mistake string) bool {
		n.take(4)
		h, _ := n.open(mistake).Acquire(n.t.Context(), "k")
		_, own := n.keys()
		return h == nil && own == 1
	},
	// All nodes have granted when the caller gives up.
	"undone-by-the-callers-context": func(n nodes, mistake string) bool {
		n.take(4)
		n.open(mistake).Acquire(n.t.Context(), "k")
		if _, own := n.keys(); own > 0 {
			return false // it undoes no attempt
		}
		n.take(0)
		ctx, cancel := context.WithCancel(n.t.Context())
		l := n.open(mistake)
		in := l.inTime
		l.inTime = func(start, end time.Time) bool { cancel(); return in(start, end) }
		_, err := l.Acquire(ctx, "k")
		_, own := n.keys()
		return err != nil && own == 5
	},
	// A node is asked with a deadline, or without.
	"waits-for-all": func(n nodes, mistake string) bool {
		n.take(0)
		l := n.open(mistake)
		bounded := true
		l.set = func(ctx context.Context, _ int, _, _ string) (int64, error) {
			_, bounded = ctx.Deadline()
			return 0, nil
		}
		l.cfg.Sequential, l.all = true, []int{0}
		l.Acquire(n.t.Context(), "k")
		return !bounded
	},
	// Another has three; one of the other two sets the key, but its answer is lost.
	"release-only-acknowledged": func(n nodes, mistake string) bool {
		n.take(3)
		l := n.open(mistake)
		set := l.set
		l.set = func(ctx context.Context, node int, key, value string) (int64, error) {
			if node < 3 {
				return 0, nil // also a lock that overwrites is to fail
			}
			yes, err := set(ctx, node, key, value)
			if node == 3 && err == nil {
				err = errDown
			}
			return yes, err
		}
		l.quorum = 3
		h, _ := l.Acquire(n.t.Context(), "k")
		left, _ := n.clients[3].Exists(n.t.Context(), "k").Result()
		acknowledged, _ := n.clients[4].Exists(n.t.Context(), "k").Result()
		return h == nil && left == 1 && acknowledged == 0
	},
	// A set whose attempt is over.
	"set-goes-on": func(n nodes, mistake string) bool {
		n.take(0)
		over, cancel := context.WithCancel(n.t.Context())
		cancel()
		yes, _ := n.open(mistake).set(over, 0, "k", "own")
		_, own := n.keys()
		if own != int(yes) {
			n.t.Errorf("%s: a set that is not waited for: %d, and %d keys are there", mistake, yes, own)
		}
		return own == 1
	},
	// The node time-out is five seconds, the TTL ten.
	"driver-time-out": func(n nodes, mistake string) bool {
		n.take(0)
		var waited atomic.Bool
		n.acquire(n.open(mistake, func(e *lock.Env) {
			e.After = func(d time.Duration) <-chan time.Time {
				if d >= 12*time.Second {
					waited.Store(d == 12*time.Second)
				}
				return time.After(d)
			}
		}))
		return waited.Load()
	},
	// Five nodes have granted.
	"release-on-quorum": func(n nodes, mistake string) bool {
		n.take(0)
		h := n.acquire(n.open(mistake))
		if err := h.Release(n.t.Context()); err != nil && mistake != "ttl-in-wrong-unit" {
			n.t.Errorf("%s: release: %v", mistake, err)
		}
		_, own := n.keys()
		return own == 2
	},
	// Nine attempts, eight waits of 1 to 9 ms.
	"no-jitter": func(n nodes, mistake string) bool {
		n.take(5)
		var waits []time.Duration
		l := n.open(mistake, func(e *lock.Env) {
			e.Settings.RetryMax, e.Settings.Tries = 9*time.Millisecond, 9
			e.After = func(d time.Duration) <-chan time.Time {
				if d < time.Second {
					waits = append(waits, d)
				}
				return time.After(d)
			}
		})
		l.set = func(context.Context, int, string, string) (int64, error) { return 0, nil }
		if _, err := l.Acquire(n.t.Context(), "k"); err == nil || len(waits) != 8 {
			n.t.Errorf("%s: %v after %d waits, want 8", mistake, err, len(waits))
		}
		return slices.Min(waits) == slices.Max(waits)
	},

	// The first node has counted three grants, the last seven.
	"fence-from-one-node": func(n nodes, mistake string) bool {
		n.take(0)
		for node, grants := range map[int]int{0: 3, 4: 7} {
			if err := n.clients[node].Set(n.t.Context(), "k:fence", grants, 0).Err(); err != nil {
				n.t.Fatal(err)
			}
		}
		fencing := func(e *lock.Env) { e.Settings.Fence = true }
		if !n.open(mistake).counts {
			return false // TestRefused
		}
		h := n.acquire(n.open(mistake, fencing))
		fence := h.(lock.Fencer).Fence()
		behind, err := n.clients[0].Get(n.t.Context(), "k:fence").Int64()
		if err != nil || fence != 8 && fence != 4 || fence == 8 != (behind == 8) {
			n.t.Errorf("%s: token %d, the first node counts %d, %v; want 8 and 8, or 4", mistake, fence, behind, err)
		}
		return fence == 4
	},
}

// extends reports whether an extension succeeds where another has the key on some nodes.
func (n nodes) extends(mistake string, taken int) bool {
	n.take(0)
	h := n.acquire(n.open(mistake, ticking(time.Millisecond)))
	for _, c := range n.clients[:taken] {
		if err := c.Set(n.t.Context(), "k", "other", 0).Err(); err != nil {
			n.t.Fatal(err)
		}
	}
	return h.(lock.Extender).Extend(n.t.Context()) == nil
}
