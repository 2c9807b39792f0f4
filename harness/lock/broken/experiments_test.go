package broken

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock/driver"
)

var errDown = errors.New("down")

// values returns the values that a lock sets in three attempts that all nodes refuse.
func (n nodes) values(mistake string, changes ...func(*lock.Env)) []string {
	var values []string
	l := n.newLock(mistake, append(changes, func(e *lock.Env) { e.Settings.Tries, e.Settings.Ask = 3, "sequential" })...)
	l.setKey = func(_ context.Context, node int, _, value string) (int64, error) {
		if node == 0 {
			values = append(values, value)
		}
		return 0, nil
	}
	if h, err := l.Acquire(n.t.Context(), "k"); h != nil || err == nil || len(values) != 3 {
		n.t.Errorf("%s: three refused attempts: %v, %v, %d values", mistake, h, err, len(values))
	}
	return values
}

// lease returns the length of the lease after an attempt that took elapsed, or 0 if the attempt
// failed.
func (n nodes) lease(mistake string, elapsed time.Duration, changes ...func(*lock.Env)) time.Duration {
	n.reset(0)
	h, _ := n.newLock(mistake, append(changes, tickingClocks(elapsed))...).Acquire(n.t.Context(), "k")
	if h == nil {
		return 0
	}
	return h.Deadline().Sub(epoch)
}

// pastDeadline returns a handle whose deadline has passed without any of the lock's timers firing
// since the acquire.
func (n nodes) pastDeadline(mistake string) lock.Handle {
	n.reset(0)
	var elapsed atomic.Int64
	h := n.acquire(n.newLock(mistake, func(e *lock.Env) {
		e.Now = func() time.Time { return epoch.Add(time.Duration(elapsed.Load())) }
		e.Wall = e.Now
		e.After = func(time.Duration) <-chan time.Time { return nil }
	}))
	if notifier, ok := h.(lock.LossNotifier); ok {
		notifier.Lost()
	}
	elapsed.Store(int64(time.Minute))
	return h
}

const validity = 9898 * time.Millisecond // TTL less drift

// wallOffset makes the wall clock wrong by the given offset.
func wallOffset(offset time.Duration) func(*lock.Env) {
	return func(e *lock.Env) { e.Wall = func() time.Time { return time.Now().Add(offset) } }
}

// timeToLive returns the key's time to live on the first node. -1 means that it doesn't expire.
func (n nodes) timeToLive() time.Duration {
	n.t.Helper()
	ttl, err := n.clients[0].PTTL(n.t.Context(), "k").Result()
	if err != nil {
		n.t.Fatal(err)
	}
	return ttl
}

// fractionalTTL sets the TTL to two and a half seconds.
func fractionalTTL(e *lock.Env) {
	e.Settings.TTL, e.Settings.Timeout = 2500*time.Millisecond, time.Second
}

// timeToLiveAfterSet returns the time to live of keys set by a lock with the fractional TTL.
func (n nodes) timeToLiveAfterSet(mistake string) time.Duration {
	n.reset(0)
	n.acquire(n.newLock(mistake, fractionalTTL))
	return n.timeToLive()
}

// ttlAroundExtension returns the time to live of a lock's keys after the acquire and after an
// extension. Just before the extension, it sets the time to live to remaining.
func (n nodes) ttlAroundExtension(mistake string, remaining time.Duration, changes ...func(*lock.Env)) (before, after time.Duration) {
	n.reset(0)
	h := n.acquire(n.newLock(mistake, changes...))
	before = n.timeToLive()
	if before > 10*time.Millisecond { // otherwise the keys may have expired
		for _, c := range n.clients {
			if err := c.PExpire(n.t.Context(), "k", remaining).Err(); err != nil {
				n.t.Fatal(err)
			}
		}
	}
	if h.(lock.Extender).Extend(n.t.Context()) != nil {
		return before, 0
	}
	return before, n.timeToLive()
}

// deadlines returns a lock's deadline after the acquire and after an extension. Each of these
// operations reads the clock twice.
func (n nodes) deadlines(mistake string) (afterAcquire, afterExtension time.Duration) {
	n.reset(0)
	h := n.acquire(n.newLock(mistake, tickingClocks(time.Second)))
	afterAcquire = h.Deadline().Sub(epoch)
	if err := h.(lock.Extender).Extend(n.t.Context()); err != nil && mistake != "ttl-in-wrong-unit" {
		n.t.Errorf("%s: extend: %v", mistake, err)
	}
	return afterAcquire, h.Deadline().Sub(epoch)
}

// delays returns a lock's delays after eight failed attempts. They should be between 1 and 9 ms.
func (n nodes) delays(mistake string, changes ...func(*lock.Env)) []time.Duration {
	n.reset(5)
	var delays []time.Duration
	l := n.newLock(mistake, append(changes, func(e *lock.Env) {
		e.Settings.RetryMax, e.Settings.Tries = 9*time.Millisecond, 9
		e.After = func(d time.Duration) <-chan time.Time {
			if d < time.Second {
				delays = append(delays, d)
				d = 0
			}
			return time.After(d)
		}
	})...)
	l.setKey = func(context.Context, int, string, string) (int64, error) { return 0, nil }
	if _, err := l.Acquire(n.t.Context(), "k"); err == nil || len(delays) != 8 {
		n.t.Errorf("%s: %v after %d waits, want 8", mistake, err, len(delays))
	}
	return delays
}

// reusesValue reports whether a client uses the same value in two acquires while another client
// uses a different one.
func (n nodes) reusesValue(mistake string) bool {
	var values []string
	for _, change := range []func(*lock.Env){tickingClocks(time.Millisecond), anotherClient} {
		l := n.newLock(mistake, change)
		l.cfg.Sequential, l.allNodes = true, []int{0}
		l.setKey = func(_ context.Context, _ int, _, value string) (int64, error) {
			values = append(values, value)
			return 0, nil
		}
		for range 2 {
			l.Acquire(n.t.Context(), "k")
		}
	}
	return values[0] == values[1] && values[0] != values[2]
}

// checkWithoutAnswers calls checkHold for a lock that extends itself, while no node answers
// extensions and the client's wall clock is stopped. requested reports whether the lock requested
// any extension.
func (n nodes) checkWithoutAnswers(mistake string) (lost, done, requested bool, interval time.Duration) {
	n.reset(0)
	l := n.newLock(mistake, func(e *lock.Env) { e.Wall = func() time.Time { return epoch } })
	if l.checkHold == nil {
		return false, false, false, 0
	}
	var requests atomic.Int64
	l.extendKey = func(context.Context, int, string, string) (int64, error) {
		requests.Add(1)
		return 0, errDown
	}
	lost, done = l.checkHold(l.attempt(n.t.Context(), "k", 1))
	return lost, done, requests.Load() > 0, l.checkInterval
}

// fencingCounts acquires and releases a lock after the first node has counted three grants and the
// last node seven. It returns the fencing token, or 0 for a lock without fencing, and the first
// node's count after the acquire and after the release.
func (n nodes) fencingCounts(mistake string) (token, afterAcquire, afterRelease int64) {
	n.reset(0)
	if !n.newLock(mistake).nodesCountGrants {
		return 0, 0, 0 // TestRejectsInvalidSettings
	}
	for node, grants := range map[int]int{0: 3, 4: 7} {
		if err := n.clients[node].Set(n.t.Context(), "k:fence", grants, 0).Err(); err != nil {
			n.t.Fatal(err)
		}
	}
	count := func() int64 {
		count, err := n.clients[0].Get(n.t.Context(), "k:fence").Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			n.t.Fatal(err)
		}
		return count
	}
	h := n.acquire(n.newLock(mistake, func(e *lock.Env) { e.Settings.Fence = true }))
	afterAcquire = count()
	if err := h.Release(n.t.Context()); err != nil && mistake != "ttl-in-wrong-unit" {
		n.t.Errorf("%s: release: %v", mistake, err)
	}
	return h.(lock.Fencer).Fence(), afterAcquire, count()
}

// setAfterGet is a go-redis hook that sets the key for another client once the first node has
// answered GET.
type setAfterGet struct{ set func() error }

func (setAfterGet) DialHook(next redis.DialHook) redis.DialHook { return next }
func (setAfterGet) ProcessPipelineHook(p redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return p
}
func (b setAfterGet) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "get" {
			err = errors.Join(err, b.set())
		}
		return err
	}
}

// experiments contains, for each mistake, a function that reports whether a lock makes it.
var experiments = map[string]func(nodes, string) bool{
	"no-elapsed-check": func(n nodes, mistake string) bool {
		return n.lease(mistake, 12*time.Second) == 12*time.Second+validity
	},
	"elapsed-not-subtracted": func(n nodes, mistake string) bool {
		return n.lease(mistake, 5*time.Second) == 5*time.Second+validity && n.lease(mistake, 12*time.Second) == 0
	},
	"no-drift-margin": func(n nodes, mistake string) bool {
		return n.lease(mistake, time.Second, fractionalTTL) == 2500*time.Millisecond
	},
	"returns-late": func(n nodes, mistake string) bool {
		return n.lease(mistake, 12*time.Second) == validity
	},
	// TestLateNotification checks the notification.
	"tells-late": func(n nodes, mistake string) bool {
		lost, done, requested, interval := n.checkWithoutAnswers(mistake)
		if n.reset(0); interval > 0 {
			h := n.acquire(n.newLock(mistake))
			if _, isNotifier := h.(lock.LossNotifier); !isNotifier || !h.Deadline().IsZero() {
				n.t.Errorf("%s: a lock that extends itself has no loss notification, or has the deadline %v", mistake, h.Deadline())
			}
		}
		return requested && !lost && !done
	},
	"renewal-gives-up": func(n nodes, mistake string) bool {
		lost, done, requested, _ := n.checkWithoutAnswers(mistake)
		return requested && !lost && done
	},
	"renews-too-late": func(n nodes, mistake string) bool {
		lost, _, _, interval := n.checkWithoutAnswers(mistake)
		return lost && interval > 10*time.Second
	},
	"renews-by-wall-clock": func(n nodes, mistake string) bool {
		_, _, requested, interval := n.checkWithoutAnswers(mistake)
		return !requested && interval > 0
	},
	// The wall clock is set back during the requests.
	"elapsed-by-wall-clock": func(n nodes, mistake string) bool {
		n.reset(0)
		var readings atomic.Int64
		h, _ := n.newLock(mistake, func(e *lock.Env) {
			e.Now = func() time.Time { return epoch }
			e.Wall = func() time.Time {
				if readings.Add(1) > 1 {
					return epoch.Add(-5 * time.Second)
				}
				return epoch
			}
		}).Acquire(n.t.Context(), "k")
		return h != nil && h.Deadline().After(epoch.Add(12*time.Second))
	},
	"drift-added": func(n nodes, mistake string) bool {
		return n.lease(mistake, 5*time.Second) == 2*10*time.Second-validity
	},
	"deadline-rounded-up": func(n nodes, mistake string) bool {
		return n.lease(mistake, time.Second, fractionalTTL) == 3*time.Second
	},
	"ttl-rounded-down": func(n nodes, mistake string) bool {
		remaining := n.timeToLiveAfterSet(mistake)
		return remaining > time.Second && remaining <= 2*time.Second
	},
	"ttl-rounded-up": func(n nodes, mistake string) bool {
		remaining := n.timeToLiveAfterSet(mistake)
		return remaining > 2500*time.Millisecond && remaining <= 3*time.Second
	},
	"milliseconds-as-seconds": func(n nodes, mistake string) bool { return n.timeToLiveAfterSet(mistake) > 40*time.Minute },
	"extension-rounded-down": func(n nodes, mistake string) bool {
		before, after := n.ttlAroundExtension(mistake, time.Second, fractionalTTL)
		return before > 2*time.Second && after > time.Second && after <= 2*time.Second
	},
	"extension-rounded-up": func(n nodes, mistake string) bool {
		before, after := n.ttlAroundExtension(mistake, time.Second, fractionalTTL)
		return before <= 2500*time.Millisecond && after > 2500*time.Millisecond && after <= 3*time.Second
	},
	// Another client's key gets this client's TTL, although the attempt fails.
	"expiry-despite-refusal": func(n nodes, mistake string) bool {
		n.reset(len(n.clients))
		h, err := n.newLock(mistake, fractionalTTL).Acquire(n.t.Context(), "k")
		other, _ := n.countKeys()
		remaining := n.timeToLive()
		return h == nil && err != nil && other == len(n.clients) && remaining > 0 && remaining <= 2500*time.Millisecond
	},
	"no-expiry": func(n nodes, mistake string) bool { return n.timeToLiveAfterSet(mistake) == -1 },
	// No node answers the release.
	"renews-after-failed-release": func(n nodes, mistake string) bool {
		n.reset(0)
		l := n.newLock(mistake)
		h := n.acquire(l)
		l.deleteKey = func(context.Context, int, string, string) (int64, error) { return 0, errDown }
		if err := h.Release(n.t.Context()); err == nil {
			n.t.Errorf("%s: a release succeeded although no node answered", mistake)
		}
		w, isRenewing := h.(*renewingHandle)
		if !isRenewing {
			return false
		}
		select {
		case <-w.done:
			return false
		default:
			return true
		}
	},
	// The context is first requested after the deadline, and no timer has fired. The context is
	// not canceled.
	"context-by-timer": func(n nodes, mistake string) bool {
		h, hasContext := n.pastDeadline(mistake).(lock.ContextHandle)
		_, isNotifier := h.(lock.LossNotifier)
		return hasContext && !isNotifier && h.Context().Err() == nil
	},
	// A context that was already in use is not canceled, either.
	"context-by-ticker": func(n nodes, mistake string) bool {
		h, hasContext := n.pastDeadline(mistake).(lock.ContextHandle)
		_, isNotifier := h.(lock.LossNotifier)
		return hasContext && isNotifier && h.Context().Err() == nil
	},
	// The wall clock is an hour ahead.
	"wall-clock-deadline": func(n nodes, mistake string) bool {
		n.reset(0)
		h := n.acquire(n.newLock(mistake, wallOffset(time.Hour)))
		usesWallClock := time.Until(h.Deadline()) > time.Minute
		if h.(lock.WallClockHandle).ByWall() != usesWallClock {
			n.t.Errorf("%s: the lock reports the wrong clock for its deadline", mistake)
		}
		return usesWallClock
	},
	// The wall clock is an hour behind.
	"absolute-expiry": func(n nodes, mistake string) bool {
		n.reset(0)
		n.acquire(n.newLock(mistake, wallOffset(-time.Hour)))
		_, ownKeys := n.countKeys()
		return ownKeys == 0
	},
	// Another client has three of five nodes and does not lose them.
	"quorum-half": func(n nodes, mistake string) bool {
		n.reset(3)
		h, _ := n.newLock(mistake).Acquire(n.t.Context(), "k")
		others, _ := n.countKeys()
		return h != nil && others == 3
	},
	// Another client has two of four nodes, and then three of five.
	"quorum-rounded-up": func(n nodes, mistake string) bool {
		n.reset(2)
		evenHandle, _ := n.newLock(mistake, func(e *lock.Env) { e.Nodes = e.Nodes[:4] }).Acquire(n.t.Context(), "k")
		n.reset(3)
		oddHandle, _ := n.newLock(mistake).Acquire(n.t.Context(), "k")
		return evenHandle != nil && oddHandle == nil
	},
	// One node votes, and no other node answers.
	"silence-is-a-vote": func(n nodes, mistake string) bool {
		l := n.newLock(mistake)
		l.setKey = func(_ context.Context, node int, _, _ string) (int64, error) {
			if node == 0 {
				return 1, nil
			}
			return 0, errDown
		}
		h, _ := l.Acquire(n.t.Context(), "k")
		return h != nil
	},
	// One node votes in each of three attempts.
	"votes-add-up": func(n nodes, mistake string) bool {
		l := n.newLock(mistake, func(e *lock.Env) { e.Settings.Tries = 3 })
		l.setKey = func(_ context.Context, node int, _, _ string) (int64, error) { return boolToCount(node == 0, nil) }
		h, _ := l.Acquire(n.t.Context(), "k")
		return h != nil
	},
	// A request is canceled, and its answer arrives during the next request.
	"reads-late-answers": func(n nodes, mistake string) bool {
		if mistake == "waits-for-all" {
			return false // this lock cancels no request
		}
		l := n.newLock(mistake)
		lateCtx, answerFirst := context.WithCancel(n.t.Context())
		ctx, cancel := context.WithCancel(n.t.Context())
		l.ask(ctx, []int{0}, func(context.Context, int) (int64, error) {
			cancel()
			<-lateCtx.Done()
			return 7, nil
		})
		return l.ask(n.t.Context(), []int{0}, func(context.Context, int) (int64, error) {
			answerFirst()
			return 8, nil
		})[0].Value == 7
	},
	// A node did not answer an earlier attempt.
	"forgets-failed-nodes": func(n nodes, mistake string) bool {
		n.reset(0)
		l := n.newLock(mistake)
		l.countVotes(1, []driver.Answer{{Node: 0, Err: errDown}})
		_, err := l.setKey(n.t.Context(), 0, "k", "own")
		return errors.Is(err, errForgotten)
	},
	// Another client has all nodes: first with a value that contains an expired time, then with one
	// that contains no time.
	"takes-over-by-timestamp": func(n nodes, mistake string) bool {
		n.reset(0)
		for _, c := range n.clients {
			if err := c.Set(n.t.Context(), "k", "1000-other", 0).Err(); err != nil {
				n.t.Fatal(err)
			}
		}
		expiredHandle, _ := n.newLock(mistake).Acquire(n.t.Context(), "k")
		n.reset(5)
		noTimeHandle, _ := n.newLock(mistake).Acquire(n.t.Context(), "k")
		return expiredHandle != nil && noTimeHandle == nil
	},
	// Another client has two of five nodes.
	"quorum-too-large": func(n nodes, mistake string) bool {
		n.reset(2)
		h, _ := n.newLock(mistake).Acquire(n.t.Context(), "k")
		return h == nil
	},
	// Another client has all nodes.
	"set-without-nx": func(n nodes, mistake string) bool {
		n.reset(5)
		h, _ := n.newLock(mistake).Acquire(n.t.Context(), "k")
		return h != nil
	},
	"ttl-in-wrong-unit": func(n nodes, mistake string) bool {
		n.reset(0)
		n.acquire(n.newLock(mistake))
		remaining := n.timeToLive()
		return remaining <= 10*time.Millisecond && remaining != -1
	},
	// Another client has the key by the time of the release.
	"plain-del": func(n nodes, mistake string) bool {
		n.reset(0)
		h := n.acquire(n.newLock(mistake))
		n.reset(5)
		err := h.Release(n.t.Context())
		others, _ := n.countKeys()
		if deleted := others < 5; mistake != "loss-is-released" && deleted != (err == nil) || err != nil && !errors.Is(err, lock.ErrNotHeld) {
			n.t.Errorf("%s: release of a lost lock: %v", mistake, err)
		}
		return others < 5
	},
	// Another client has four of five nodes.
	"undo-by-plain-del": func(n nodes, mistake string) bool {
		n.reset(4)
		h, _ := n.newLock(mistake).Acquire(n.t.Context(), "k")
		others, _ := n.countKeys()
		return h == nil && others < 4
	},
	// No node answers the release.
	"silence-is-not-held": func(n nodes, mistake string) bool {
		n.reset(0)
		l := n.newLock(mistake)
		h := n.acquire(l)
		l.deleteKey = func(context.Context, int, string, string) (int64, error) { return 0, errDown }
		return errors.Is(h.Release(n.t.Context()), lock.ErrNotHeld)
	},
	// Another client has the key by the time of the release and does not lose it.
	"loss-is-released": func(n nodes, mistake string) bool {
		n.reset(0)
		h := n.acquire(n.newLock(mistake))
		n.reset(5)
		err := h.Release(n.t.Context())
		others, _ := n.countKeys()
		return err == nil && others == 5
	},
	// By the time of the release, the key has another value by the same client, or another client's
	// value.
	"release-by-prefix": func(n nodes, mistake string) bool {
		isDeleted := func(value func(token string) string) bool {
			n.reset(0)
			h := n.acquire(n.newLock(mistake))
			for _, c := range n.clients {
				if err := c.Set(n.t.Context(), "k", value(h.(lock.Tokener).Token()), 0).Err(); err != nil {
					n.t.Fatal(err)
				}
			}
			_ = h.Release(n.t.Context()) // the experiment for plain-del checks the error
			keysLeft, err := n.clients[0].Exists(n.t.Context(), "k").Result()
			return err == nil && keysLeft == 0
		}
		return isDeleted(func(token string) string { return token[:len(token)-1] + "!" }) && !isDeleted(func(string) string { return "c2-other" })
	},
	"same-value-for-retries": func(n nodes, mistake string) bool {
		v := n.values(mistake, tickingClocks(time.Millisecond))
		return v[0] == v[2] && v[0] != n.values(mistake, anotherClient, tickingClocks(time.Second))[0] && !n.reusesValue(mistake)
	},
	"same-value-for-holds": func(n nodes, mistake string) bool { return n.reusesValue(mistake) },
	"same-value-for-clients": func(n nodes, mistake string) bool {
		return n.values(mistake, tickingClocks(time.Millisecond))[0] == n.values(mistake, anotherClient, tickingClocks(time.Second))[1]
	},
	// Two clients start in the same microsecond; after that, they are a second apart.
	"weak-token": func(n nodes, mistake string) bool {
		firstValues, secondValues := n.values(mistake, tickingClocks(time.Millisecond)), n.values(mistake, anotherClient, tickingClocks(time.Second))
		return firstValues[0] == secondValues[0] && firstValues[1] != secondValues[1]
	},
	// A node has the key with the lock's own value, and then receives another value.
	"yes-to-own-value": func(n nodes, mistake string) bool {
		n.reset(0)
		l := n.newLock(mistake)
		// Set the key without a time to live, because a key set by the lock might expire.
		if err := n.clients[0].Set(n.t.Context(), "k", "own", 0).Err(); err != nil {
			n.t.Fatal(err)
		}
		var accepted []bool
		for _, value := range []string{"own", "other"} {
			v, err := l.setKey(n.t.Context(), 0, "k", value)
			if err != nil {
				n.t.Fatal(err)
			}
			accepted = append(accepted, v > 0)
		}
		return slices.Equal(accepted, []bool{true, false})
	},

	// Another client has the key by the time of the extension, without a time to live.
	"extension-without-token-check": func(n nodes, mistake string) bool {
		if !n.canExtend(mistake, 5) {
			return false
		}
		others, _ := n.countKeys()
		return others == 5 && n.timeToLive() > 0
	},
	// As above, but the key has the lock's own value afterwards.
	"extension-overwrites": func(n nodes, mistake string) bool {
		if !n.canExtend(mistake, 5) {
			return false
		}
		others, _ := n.countKeys()
		return others == 0
	},
	// Another client sets the key on the first node after the lock has read the key.
	"extension-in-two-steps": func(n nodes, mistake string) bool {
		n.reset(0)
		l := n.newLock(mistake)
		h := n.acquire(l)
		keySet := false
		l.Clients[0].AddHook(setAfterGet{func() error {
			keySet = true
			return n.clients[0].Set(n.t.Context(), "k", "other", 0).Err()
		}})
		_ = h.(lock.Extender).Extend(n.t.Context())
		return keySet && n.timeToLive() > 0
	},
	"extension-without-drift": func(n nodes, mistake string) bool {
		acquired, extended := n.deadlines(mistake)
		return acquired == validity && extended == 2*time.Second+10*time.Second
	},
	"extension-adds-to-deadline": func(n nodes, mistake string) bool {
		acquired, extended := n.deadlines(mistake)
		return acquired == validity && extended == 2*validity
	},
	"extension-adds-to-ttl": func(n nodes, mistake string) bool {
		_, after := n.ttlAroundExtension(mistake, 7*time.Second)
		return after > 12*time.Second && after <= 17*time.Second
	},
	"extension-drops-expiry": func(n nodes, mistake string) bool {
		before, after := n.ttlAroundExtension(mistake, 10*time.Second)
		return before > 0 && after == -1
	},
	"extension-only-checks": func(n nodes, mistake string) bool {
		_, after := n.ttlAroundExtension(mistake, 5*time.Second)
		return after > 0 && after <= 5*time.Second
	},
	// The wall clock is an hour ahead.
	"extension-by-wall-clock": func(n nodes, mistake string) bool {
		before, after := n.ttlAroundExtension(mistake, 10*time.Second, wallOffset(time.Hour))
		return before <= 10*time.Second && after > time.Hour
	},
	// No node answers.
	"extension-unheard": func(n nodes, mistake string) bool {
		n.reset(0)
		l := n.newLock(mistake, tickingClocks(time.Millisecond))
		h := n.acquire(l)
		l.extendKey = func(context.Context, int, string, string) (int64, error) { return 0, errDown }
		return h.(lock.Extender).Extend(n.t.Context()) == nil
	},
	// Another client has four of five nodes.
	"extension-below-quorum": func(n nodes, mistake string) bool {
		return n.canExtend(mistake, 4) && !n.canExtend(mistake, 5)
	},
	"extension-elapsed-not-subtracted": func(n nodes, mistake string) bool {
		_, extended := n.deadlines(mistake)
		return extended == 3*time.Second+validity
	},
	"extension-sets-missing-key": func(n nodes, mistake string) bool {
		n.reset(0)
		h := n.acquire(n.newLock(mistake))
		n.reset(0)
		err := h.(lock.Extender).Extend(n.t.Context())
		_, ownKeys := n.countKeys()
		if ownKeys > 0 && err != nil {
			n.t.Errorf("%s: extending a missing key: %v, but then %d keys exist", mistake, err, ownKeys)
		}
		return ownKeys > 0
	},
	"unbounded-extension": func(n nodes, mistake string) bool {
		n.reset(0)
		h := n.acquire(n.newLock(mistake, func(e *lock.Env) { e.Settings.Extends = 1 }))
		extend := h.(lock.Extender).Extend
		if err := extend(n.t.Context()); err != nil && mistake != "ttl-in-wrong-unit" {
			n.t.Errorf("%s: first extension: %v", mistake, err)
		}
		err := extend(n.t.Context())
		if err != nil && !errors.Is(err, errExtensionLimit) {
			n.t.Errorf("%s: extension beyond the limit: %v", mistake, err)
		}
		return err == nil
	},

	// Another client has four of five nodes.
	"no-release-on-failure": func(n nodes, mistake string) bool {
		n.reset(4)
		h, _ := n.newLock(mistake).Acquire(n.t.Context(), "k")
		_, ownKeys := n.countKeys()
		return h == nil && ownKeys == 1
	},
	// All nodes have granted the lock when the caller cancels.
	"undone-by-the-callers-context": func(n nodes, mistake string) bool {
		n.reset(4)
		n.newLock(mistake).Acquire(n.t.Context(), "k")
		if _, ownKeys := n.countKeys(); ownKeys > 0 {
			return false // this lock undoes no attempt
		}
		n.reset(0)
		ctx, cancel := context.WithCancel(n.t.Context())
		l := n.newLock(mistake)
		isValid := l.isValid
		l.isValid = func(start, end time.Time) bool { cancel(); return isValid(start, end) }
		_, err := l.Acquire(ctx, "k")
		_, ownKeys := n.countKeys()
		return err != nil && ownKeys == 5
	},
	// Requests have no deadline.
	"waits-for-all": func(n nodes, mistake string) bool {
		n.reset(0)
		l := n.newLock(mistake)
		hasDeadline := true
		l.setKey = func(ctx context.Context, _ int, _, _ string) (int64, error) {
			_, hasDeadline = ctx.Deadline()
			return 0, nil
		}
		l.cfg.Sequential, l.allNodes = true, []int{0}
		l.Acquire(n.t.Context(), "k")
		return !hasDeadline
	},
	// Another client has three nodes. One of the other two sets the key, but its answer is lost.
	"release-only-acknowledged": func(n nodes, mistake string) bool {
		n.reset(3)
		l := n.newLock(mistake)
		set := l.setKey
		l.setKey = func(ctx context.Context, node int, key, value string) (int64, error) {
			if node < 3 {
				return 0, nil // make a lock that overwrites keys fail, too
			}
			grants, err := set(ctx, node, key, value)
			if node == 3 && err == nil {
				err = errDown
			}
			return grants, err
		}
		l.quorum = 3
		h, _ := l.Acquire(n.t.Context(), "k")
		unackedKeys, _ := n.clients[3].Exists(n.t.Context(), "k").Result()
		ackedKeys, _ := n.clients[4].Exists(n.t.Context(), "k").Result()
		return h == nil && unackedKeys == 1 && ackedKeys == 0
	},
	// The attempt has already ended.
	"set-goes-on": func(n nodes, mistake string) bool {
		n.reset(0)
		endedCtx, cancel := context.WithCancel(n.t.Context())
		cancel()
		grants, _ := n.newLock(mistake).setKey(endedCtx, 0, "k", "own")
		_, ownKeys := n.countKeys()
		if ownKeys != int(grants) {
			n.t.Errorf("%s: set after the end of its attempt returned %d, but %d keys exist", mistake, grants, ownKeys)
		}
		return ownKeys == 1
	},
	// The node timeout is five seconds, and the TTL is ten.
	"driver-time-out": func(n nodes, mistake string) bool {
		n.reset(0)
		var waitedForDriver atomic.Bool
		n.acquire(n.newLock(mistake, func(e *lock.Env) {
			e.After = func(d time.Duration) <-chan time.Time {
				if d >= 12*time.Second {
					waitedForDriver.Store(d == 12*time.Second)
				}
				return time.After(d)
			}
		}))
		return waitedForDriver.Load()
	},
	// Five nodes have granted the lock.
	"release-on-quorum": func(n nodes, mistake string) bool {
		n.reset(0)
		h := n.acquire(n.newLock(mistake))
		if err := h.Release(n.t.Context()); err != nil && mistake != "ttl-in-wrong-unit" {
			n.t.Errorf("%s: release: %v", mistake, err)
		}
		_, ownKeys := n.countKeys()
		return ownKeys == 2
	},
	"no-jitter": func(n nodes, mistake string) bool {
		delays := n.delays(mistake)
		return slices.Min(delays) == slices.Max(delays)
	},
	"same-jitter": func(n nodes, mistake string) bool {
		delays := n.delays(mistake)
		return slices.Min(delays) < slices.Max(delays) && slices.Max(delays) <= 9*time.Millisecond && slices.Equal(delays, n.delays(mistake, anotherClient))
	},
	"delay-without-bound": func(n nodes, mistake string) bool { return slices.Max(n.delays(mistake)) > 100*time.Millisecond },
	// The first attempt fails. Each attempt reads the clock twice.
	"elapsed-since-the-call": func(n nodes, mistake string) bool {
		n.reset(0)
		l := n.newLock(mistake, tickingClocks(time.Second), func(e *lock.Env) { e.Settings.Tries, e.Settings.Ask = 2, "sequential" })
		requested := 0
		l.setKey = func(context.Context, int, string, string) (int64, error) {
			requested++
			return boolToCount(requested > len(l.allNodes), nil)
		}
		h, _ := l.Acquire(n.t.Context(), "k")
		return h != nil && h.Deadline().Equal(epoch.Add(validity))
	},

	"fence-from-one-node": func(n nodes, mistake string) bool {
		token, _, _ := n.fencingCounts(mistake)
		return token == 4
	},
	"fence-not-written-back": func(n nodes, mistake string) bool {
		token, afterAcquire, _ := n.fencingCounts(mistake)
		return token == 8 && afterAcquire == 4
	},
	"fence-by-wall-clock": func(n nodes, mistake string) bool {
		token, _, _ := n.fencingCounts(mistake)
		return token > 1_000_000_000_000
	},
	"fence-by-client": func(n nodes, mistake string) bool {
		token, _, _ := n.fencingCounts(mistake)
		return token == 1
	},
	"fence-deleted-with-key": func(n nodes, mistake string) bool {
		token, _, afterRelease := n.fencingCounts(mistake)
		return token == 8 && afterRelease == 0
	},
}

// canExtend reports whether an extension succeeds if another client has the key on the first count
// nodes.
func (n nodes) canExtend(mistake string, count int) bool {
	n.reset(0)
	h := n.acquire(n.newLock(mistake, tickingClocks(time.Millisecond)))
	for _, c := range n.clients[:count] {
		if err := c.Set(n.t.Context(), "k", "other", 0).Err(); err != nil {
			n.t.Fatal(err)
		}
	}
	return h.(lock.Extender).Extend(n.t.Context()) == nil
}
