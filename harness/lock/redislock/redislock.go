// Package redislock puts github.com/bsm/redislock, the lock on one Redis server that
// many Go programs use, behind the interfaces of a lock under test.
//
// It translates: Settings into the library's options, and its ErrLockNotHeld and
// ErrNotObtained into a definite "not held". The library is as it is. It reads package time
// itself; tokens and delays are drawn by name, "token/3/0" and "retry/2", and a token serves
// all tries of one acquire. The library has no deadline: it is what its callers would reckon,
// the TTL from the beginning of the try that succeeded, less the drift. The library's
// acquire ends where a request fails, and undoes nothing; while there are tries left it is
// begun anew, with another token, as its callers would.
//
// Deliberately missing: fencing tokens and a limit of extensions, for the library has none.
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

// New returns redislock as one client's lock, on the only node that there is.
func New(env lock.Env) (lock.Lock, error) {
	s, err := env.ForLibrary("redislock", "node: give one", "it has one node to ask")
	if err != nil {
		return nil, err
	}
	o := redisnode.Options(env.Nodes[0].Addr)
	o.Dialer, o.DialTimeout, o.ReadTimeout, o.WriteTimeout = env.Dial, s.Timeout, s.Timeout, s.Timeout
	client := redis.NewClient(o)
	return &library{env: env, settings: s, client: client, locker: redislock.New(client)}, nil
}

// library is redislock as a lock.Lock.
type library struct {
	env      lock.Env
	settings lock.Settings
	client   *redis.Client
	locker   *redislock.Client
	drawn    int // tokens so far
	delays   int
}

func (l *library) Close() error { return l.client.Close() }

// Acquire implements lock.Lock. Where ctx has no deadline, the library gives up after a TTL.
func (l *library) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	t := &tries{library: l, left: l.settings.Tries, began: time.Now()}
	for {
		l.drawn++
		held, err := l.locker.Obtain(ctx, key, l.settings.TTL, &redislock.Options{RetryStrategy: t, Token: l.env.Token(l.drawn)})
		if err == nil {
			h := &handle{library: l, lock: held}
			h.believe(t.began)
			return h, nil
		}
		delay := t.NextBackoff()
		if errors.Is(err, redislock.ErrNotObtained) || delay == 0 || ctx.Err() != nil {
			return nil, fmt.Errorf("acquire %q: %w", key, err)
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
}

// tries is the library's RetryStrategy: a random delay before each of them but the first.
type tries struct {
	library *library
	left    int
	began   time.Time // not after the last one
}

func (t *tries) NextBackoff() time.Duration {
	l := t.library
	if t.left--; t.left <= 0 {
		return 0
	}
	l.delays++
	delay := max(l.env.Delay(l.delays, l.settings.RetryMin, l.settings.RetryMax), 1) // 0 would be the end
	t.began = time.Now().Add(delay)
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

// believe reckons the deadline of what was asked for at an instant.
func (h *handle) believe(asked time.Time) {
	s := h.library.settings
	h.deadline = asked.Add(s.TTL - redlock.Drift(s.TTL, s.Drift))
}

func (h *handle) Deadline() time.Time { return h.deadline }
func (h *handle) Token() string       { return h.lock.Token() }

func (h *handle) Release(ctx context.Context) error { return definite(h.lock.Release(ctx)) }

func (h *handle) Extend(ctx context.Context) error {
	asked := time.Now()
	err := definite(h.lock.Refresh(ctx, h.library.settings.TTL, nil))
	if err == nil {
		h.believe(asked)
	}
	return err
}

// definite says the library's own no in the words of the harness.
func definite(err error) error {
	if errors.Is(err, redislock.ErrLockNotHeld) || errors.Is(err, redislock.ErrNotObtained) {
		return fmt.Errorf("%w: %w", lock.ErrNotHeld, err)
	}
	return err
}
