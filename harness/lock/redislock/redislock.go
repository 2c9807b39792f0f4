// Package redislock adapts github.com/bsm/redislock, a widely used Go lock on a single Redis
// server, to the interfaces of a lock under test.
//
// It converts Settings to the library's options, and the library's ErrLockNotHeld and
// ErrNotObtained to lock.ErrNotHeld. The library itself is unmodified. It calls package time
// directly. Tokens and delays are drawn by name, such as "token/3/0" and "retry/2", and all tries
// of one call to the library use the same token. The library has no deadline, so the adapter
// computes the deadline that callers would assume: the TTL from the start of the successful try,
// minus the drift. The library's acquire fails as soon as a request fails, and doesn't clean up.
// While there are tries left, the adapter calls it again with another token, as callers would.
//
// Deliberately missing: fencing tokens and a limit on extensions, which the library doesn't have.
package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock"
	"lockpick/redlock/redisnode"
)

var _ lock.Factory = New

// New returns a lock for one client, backed by redislock on the only node.
func New(env lock.Env) (lock.Lock, error) {
	s, err := env.ForLibrary("redislock", "node: specify one", "it has only one node")
	if err != nil {
		return nil, err
	}
	o := redisnode.Options(env.Nodes[0].Addr)
	o.Dialer, o.DialTimeout, o.ReadTimeout, o.WriteTimeout = env.Dial, s.Timeout, s.Timeout, s.Timeout
	client := redis.NewClient(o)
	return &library{env: env, settings: s, client: client, locker: redislock.New(client)}, nil
}

// library adapts redislock to lock.Lock.
type library struct {
	env        lock.Env
	settings   lock.Settings
	client     *redis.Client
	locker     *redislock.Client
	tokenCount int // number of tokens drawn
	delayCount int
}

func (l *library) Close() error { return l.client.Close() }

// Acquire implements lock.Lock. If ctx has no deadline, the library gives up after a TTL.
func (l *library) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	strategy := &retryStrategy{library: l, triesLeft: l.settings.Tries, tryStart: time.Now()}
	for {
		l.tokenCount++
		obtained, err := l.locker.Obtain(ctx, key, l.settings.TTL, &redislock.Options{RetryStrategy: strategy, Token: l.env.Token(l.tokenCount)})
		if err == nil {
			h := &handle{library: l, lock: obtained}
			h.setDeadline(strategy.tryStart)
			return h, nil
		}
		delay := strategy.NextBackoff()
		if errors.Is(err, redislock.ErrNotObtained) || delay == 0 || ctx.Err() != nil {
			return nil, fmt.Errorf("acquire %q: %w", key, err)
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
}

// retryStrategy implements the library's RetryStrategy, with a random delay before each retry.
type retryStrategy struct {
	library   *library
	triesLeft int
	tryStart  time.Time // at or before the start of the last try
}

func (t *retryStrategy) NextBackoff() time.Duration {
	l := t.library
	if t.triesLeft--; t.triesLeft <= 0 {
		return 0
	}
	l.delayCount++
	delay := max(l.env.Delay(l.delayCount, l.settings.RetryMin, l.settings.RetryMax), 1) // a delay of 0 would end the acquire
	t.tryStart = time.Now().Add(delay)
	return delay
}

// handle is a held lock.
type handle struct {
	library  *library
	lock     *redislock.Lock
	deadline time.Time
}

var (
	_ lock.Extender = (*handle)(nil)
	_ lock.Tokener  = (*handle)(nil)
)

// setDeadline computes the deadline of a lock that was requested at the given time.
func (h *handle) setDeadline(start time.Time) {
	s := h.library.settings
	h.deadline = start.Add(s.TTL - redlock.Drift(s.TTL, s.Drift))
}

func (h *handle) Deadline() time.Time { return h.deadline }
func (h *handle) Token() string       { return h.lock.Token() }

func (h *handle) Release(ctx context.Context) error { return toNotHeld(h.lock.Release(ctx)) }

func (h *handle) Extend(ctx context.Context) error {
	start := time.Now()
	err := toNotHeld(h.lock.Refresh(ctx, h.library.settings.TTL, nil))
	if err == nil {
		h.setDeadline(start)
	}
	return err
}

// toNotHeld converts the library's definite refusals to lock.ErrNotHeld.
func toNotHeld(err error) error {
	if errors.Is(err, redislock.ErrLockNotHeld) || errors.Is(err, redislock.ErrNotObtained) {
		return fmt.Errorf("%w: %w", lock.ErrNotHeld, err)
	}
	return err
}
