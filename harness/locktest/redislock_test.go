package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/harness/locktest"
)

// redislockSettings are three ways to choose the TTL and the retries of redislock.
var redislockSettings = map[string]func(lock.Env) (ttl time.Duration, retries func() redislock.RetryStrategy, err error){
	// As in production, whatever the scenario's settings are. The test repeats them in Options.TTL and
	// Tries.
	"own": func(lock.Env) (time.Duration, func() redislock.RetryStrategy, error) {
		return 8 * time.Second, func() redislock.RetryStrategy {
			return redislock.LimitRetry(redislock.LinearBackoff(100*time.Millisecond), 31)
		}, nil
	},
	// From the scenario's settings. Tries is 0 if there is no limit.
	"settings": func(env lock.Env) (time.Duration, func() redislock.RetryStrategy, error) {
		s := env.Settings
		if s.Tries == 0 {
			s.Tries = math.MaxInt
		}
		return s.TTL, randomDelays(env, s), nil
	},
	// ForLibrary sets the values that the scenario leaves to the lock.
	"library": func(env lock.Env) (time.Duration, func() redislock.RetryStrategy, error) {
		s, err := env.ForLibrary("redislock", "node", "it has only one node")
		return s.TTL, randomDelays(env, s), err
	},
}

// randomDelays returns strategies with the scenario's delays. A seed always produces the same ones.
func randomDelays(env lock.Env, s lock.Settings) func() redislock.RetryStrategy {
	n := 0
	return func() redislock.RetryStrategy {
		return redislock.LimitRetry(strategy(func() time.Duration {
			n++
			return max(env.Delay(n, s.RetryMin, s.RetryMax), 1) // 0 means to redislock that there is no retry
		}), s.Tries-1)
	}
}

type strategy func() time.Duration

func (s strategy) NextBackoff() time.Duration { return s() }

// redislockKind returns a kind of lock that wraps redislock with the named settings.
func redislockKind(name string) lock.Kind {
	return lock.Kind{Name: "redislock-" + name, OneNode: true, OwnTime: true, OwnTokens: true, Can: lock.Features{Extend: true},
		New: func(env lock.Env) (lock.Lock, error) {
			ttl, retries, err := redislockSettings[name](env)
			if err != nil {
				return nil, err
			}
			client := redis.NewClient(driverOptions(env, env.Nodes[0], name))
			return &redislockLock{client, redislock.New(client), ttl, retries}, nil
		}}
}

type redislockLock struct {
	client  *redis.Client
	locker  *redislock.Client
	ttl     time.Duration
	retries func() redislock.RetryStrategy
}

func (l *redislockLock) Close() error { return l.client.Close() }

// Acquire computes the deadline from the start of the last try, because redislock has none. If ctx has
// no deadline, redislock gives up after one TTL.
func (l *redislockLock) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	start, retries := time.Now(), l.retries()
	held, err := l.locker.Obtain(ctx, key, l.ttl, &redislock.Options{RetryStrategy: strategy(func() time.Duration {
		delay := retries.NextBackoff()
		start = time.Now().Add(delay)
		return delay
	})})
	if err != nil {
		return nil, err
	}
	return &redislockHandle{held, l, l.deadline(start)}, nil
}

// deadline returns when a lease ends, with an allowance of 1% for clocks that run fast or slow.
func (l *redislockLock) deadline(start time.Time) time.Time { return start.Add(l.ttl - l.ttl/100) }

type redislockHandle struct {
	*redislock.Lock
	lock  *redislockLock
	until time.Time
}

func (h *redislockHandle) Deadline() time.Time { return h.until }

func (h *redislockHandle) Release(ctx context.Context) error {
	return convertRefusal(h.Lock.Release(ctx))
}

func (h *redislockHandle) Extend(ctx context.Context) error {
	start := time.Now()
	err := convertRefusal(h.Refresh(ctx, h.lock.ttl, nil))
	if err == nil {
		h.until = h.lock.deadline(start)
	}
	return err
}

// convertRefusal converts redislock's definite refusals.
func convertRefusal(err error) error {
	if errors.Is(err, redislock.ErrLockNotHeld) || errors.Is(err, redislock.ErrNotObtained) {
		return fmt.Errorf("%w: %w", lock.ErrNotHeld, err)
	}
	return err
}

func TestRedislock(t *testing.T) {
	for _, wrapping := range wrappings {
		t.Run(wrapping, func(t *testing.T) { locktest.Run(t, redislockKind(wrapping), exampleOptions(t)) })
	}
}
