// Package single implements the lock that most people use: one key on one Redis server, set with NX
// and PX to a random value and deleted by a script that compares the value first. The Redis
// documentation describes it under "Correct implementation with a single instance"
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
//
// The package implements two kinds. In kind "single", the server stands alone. In kind "failover",
// the server is a master with an asynchronous replica that may take its place. Clients see a single
// address in both kinds, so the lock is the same but its guarantees are not.
//
// Deliberately missing: votes, and WAIT. The documentation describes votes in another section
// (Redlock), and says that WAIT doesn't make a master and its replicas strongly consistent.
package single

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock"
	"lockpick/redlock/redisnode"
)

var _ lock.Factory = New

// New returns a lock for one client on the only node.
func New(env lock.Env) (lock.Lock, error) {
	s := env.Settings
	switch {
	case len(env.Nodes) != 1:
		return nil, fmt.Errorf("lock %q needs exactly one node, not %d: set topology.nodes: 1", s.Kind, len(env.Nodes))
	case s.Mistake != "":
		return nil, fmt.Errorf("lock %q does not support mistake %q: use kind \"broken\"", s.Kind, s.Mistake)
	case s.Fence:
		return nil, fmt.Errorf("lock %q has no fencing tokens: remove fence", s.Kind)
	case s.Ask != "":
		return nil, fmt.Errorf("lock %q does not support ask: %q: it has only one node", s.Kind, s.Ask)
	}
	if s.TTL == 0 {
		s.TTL = 10 * time.Second
	}
	o := redisnode.Options(env.Nodes[0].Addr)
	o.Dialer = env.Dial
	l := &single{env: env, client: redis.NewClient(o)}
	l.node = redisnode.New(l.client)
	var err error
	if l.cfg, err = (redlock.Config{
		Nodes: []redlock.Node{l.node}, TTL: s.TTL, Timeout: s.Timeout, Drift: cmp.Or(s.Drift, redlock.NoDrift), RetryMin: s.RetryMin, RetryMax: s.RetryMax,
		Tries: s.Tries, Extends: s.Extends, Now: env.Now, After: env.After,
	}.WithDefaults()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// single is one client's lock.
type single struct {
	env        lock.Env
	cfg        redlock.Config // the same settings and defaults as the reference's
	client     *redis.Client
	node       *redisnode.Node
	tokenCount int // number of random values drawn
	retryCount int
}

func (l *single) Close() error { return l.client.Close() }

func (l *single) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	for try := 1; ctx.Err() == nil; try++ {
		h, err := l.attempt(ctx, key)
		if h != nil {
			return h, nil
		}
		if try == l.cfg.Tries && ctx.Err() == nil {
			return nil, fmt.Errorf("acquire %q: %w (%d attempts)", key, err, try)
		}
		l.wait(ctx)
	}
	return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
}

var (
	errTaken          = errors.New("the lock is taken")
	errExpired        = errors.New("validity time exceeded")
	errExtensionLimit = errors.New("limit of extensions reached")
)

// attempt sets the key to a new value. The lease starts before the request is sent, and is
// shortened by the allowance for clock drift.
func (l *single) attempt(ctx context.Context, key string) (lock.Handle, error) {
	l.tokenCount++
	h := &handle{lock: l, key: key, value: l.env.Token(l.tokenCount)} // a new value for each attempt
	start := l.cfg.Now()
	wasSet, err := l.ask(ctx, func(ctx context.Context) (bool, error) { return l.node.Set(ctx, key, h.value, l.cfg.TTL) })
	elapsed := l.cfg.Now().Sub(start)
	switch {
	case err == nil && !wasSet:
		return nil, errTaken
	case err == nil && ctx.Err() == nil && l.isValid(elapsed):
		h.deadline = start.Add(l.cfg.TTL - l.drift())
		return h, nil
	case err == nil:
		err = errExpired
	}
	l.deleteIfOwner(ctx, h) // the outcome is unknown, so the key may have been set
	return nil, err
}

func (l *single) drift() time.Duration { return redlock.Drift(l.cfg.TTL, l.cfg.Drift) }

func (l *single) isValid(elapsed time.Duration) bool {
	return redlock.Validity(l.cfg.TTL, elapsed, l.drift()) > 0
}

// deleteIfOwner deletes the key if it has the handle's value, even if ctx has ended.
func (l *single) deleteIfOwner(ctx context.Context, h *handle) (bool, error) {
	return l.ask(context.WithoutCancel(ctx), func(ctx context.Context) (bool, error) { return l.node.Release(ctx, h.key, h.value) })
}

// ask calls request and waits for its answer until the timeout, which the client's own timer
// measures.
func (l *single) ask(ctx context.Context, request func(context.Context) (bool, error)) (bool, error) {
	a := l.cfg.Ask(ctx, []int{0}, func(ctx context.Context, _ int) (int64, error) {
		if yes, err := request(ctx); !yes {
			return 0, err
		}
		return 1, nil
	})[0]
	if a.Err != nil && ctx.Err() != nil {
		return false, ctx.Err()
	}
	return a.Yes(), a.Err
}

func (l *single) wait(ctx context.Context) {
	l.retryCount++
	select {
	case <-l.cfg.After(l.env.Delay(l.retryCount, l.cfg.RetryMin, l.cfg.RetryMax)):
	case <-ctx.Done():
	}
}

// handle is one acquired lock.
type handle struct {
	lock           *single
	key, value     string
	deadline       time.Time
	extensionCount int // number of extensions tried
}

var (
	_ lock.Tokener  = (*handle)(nil)
	_ lock.Extender = (*handle)(nil)
)

func (h *handle) Deadline() time.Time { return h.deadline }
func (h *handle) Token() string       { return h.value }

func (h *handle) Release(ctx context.Context) error {
	return h.outcome("release", func() (bool, error) { return h.lock.deleteIfOwner(ctx, h) })
}

func (h *handle) Extend(ctx context.Context) error {
	l := h.lock
	start := l.cfg.Now()
	switch {
	case !start.Before(h.deadline):
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	case h.extensionCount >= l.cfg.Extends:
		return fmt.Errorf("extend %q: %w", h.key, errExtensionLimit)
	}
	h.extensionCount++
	err := h.outcome("extend", func() (bool, error) {
		return l.ask(ctx, func(ctx context.Context) (bool, error) { return l.node.Extend(ctx, h.key, h.value, l.cfg.TTL) })
	})
	if err != nil {
		return err
	}
	if end := l.cfg.Now(); !end.Before(h.deadline) || !l.isValid(end.Sub(start)) {
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	}
	if until := start.Add(l.cfg.TTL - l.drift()); until.After(h.deadline) {
		h.deadline = until
	}
	return nil
}

// outcome converts a node's answer to an error.
func (h *handle) outcome(op string, request func() (bool, error)) error {
	switch yes, err := request(); {
	case err != nil:
		return fmt.Errorf("%s %q: outcome unknown: %w", op, h.key, err)
	case !yes:
		return fmt.Errorf("%s %q: %w", op, h.key, lock.ErrNotHeld)
	}
	return nil
}
