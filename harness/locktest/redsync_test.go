package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/harness/locktest"
)

// redsyncOptions are the three ways to choose the options of redsync's mutexes.
var redsyncOptions = map[string]func(lock.Env) ([]redsync.Option, error){
	// As in production, whatever the scenario's settings are. Set Options.TTL to the same expiry.
	"own": func(lock.Env) ([]redsync.Option, error) {
		return []redsync.Option{redsync.WithExpiry(8 * time.Second), redsync.WithTries(32)}, nil
	},
	// From the settings of the scenario. Settings.Tries is 0 if there is no limit, but
	// redsync.WithTries(0) never tries.
	"settings": func(env lock.Env) ([]redsync.Option, error) {
		s := env.Settings
		if s.Tries == 0 {
			s.Tries = math.MaxInt
		}
		return fromSettings(env, s), nil
	},
	// ForLibrary makes the conversions, and rejects settings that libraries don't support.
	"library": func(env lock.Env) ([]redsync.Option, error) {
		s, err := env.ForLibrary("redsync", "nodes", "use multiplexed")
		return fromSettings(env, s), err
	},
}

func fromSettings(env lock.Env, s lock.Settings) []redsync.Option {
	var delays, tokens atomic.Int64
	return []redsync.Option{
		redsync.WithExpiry(s.TTL), redsync.WithTries(s.Tries), redsync.WithDriftFactor(s.Drift),
		redsync.WithTimeoutFactor(float64(s.Timeout) / float64(s.TTL)),
		redsync.WithRetryDelayFunc(func(int) time.Duration { return env.Delay(int(delays.Add(1)), s.RetryMin, s.RetryMax) }),
		redsync.WithGenValueFunc(func() (string, error) { return env.Token(int(tokens.Add(1))), nil }),
	}
}

// redsyncKind returns a kind of lock that wraps redsync with the named options.
func redsyncKind(name string) lock.Kind {
	return lock.Kind{Name: "redsync-" + name, OwnTime: true, OwnTokens: name == "own", Can: lock.Features{Extend: true},
		New: func(env lock.Env) (lock.Lock, error) {
			options, err := redsyncOptions[name](env)
			if err != nil {
				return nil, err
			}
			l := &redsyncLock{options: options}
			var pools []rsredis.Pool
			for _, n := range env.Nodes {
				client := redis.NewClient(&redis.Options{Addr: n.Addr, Dialer: env.Dial, ContextTimeoutEnabled: true})
				l.Clients, pools = append(l.Clients, client), append(pools, goredis.NewPool(client))
			}
			l.redsync = redsync.New(pools...)
			return l, nil
		}}
}

type redsyncLock struct {
	lock.Clients[*redis.Client]
	redsync *redsync.Redsync
	options []redsync.Option
}

func (l *redsyncLock) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	m := l.redsync.NewMutex(key, l.options...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHandle{m}, nil
}

type redsyncHandle struct{ *redsync.Mutex }

func (h redsyncHandle) Deadline() time.Time               { return h.Until() }
func (h redsyncHandle) Token() string                     { return h.Value() }
func (h redsyncHandle) Release(ctx context.Context) error { return notHeld(h.UnlockContext(ctx)) }
func (h redsyncHandle) Extend(ctx context.Context) error  { return notHeld(h.ExtendContext(ctx)) }

// notHeld converts a result of redsync, whose errors say that the lock is held by somebody else, or
// by nobody.
func notHeld(ok bool, err error) error {
	_, taken := errors.AsType[*redsync.ErrTaken](err)
	switch {
	case ok:
		return nil
	case taken || errors.Is(err, redsync.ErrLockAlreadyExpired):
		return fmt.Errorf("%w: %w", lock.ErrNotHeld, err)
	}
	return errors.Join(redsync.ErrFailed, err)
}

func TestRedsync(t *testing.T) {
	for _, wrapping := range wrappings {
		t.Run(wrapping, func(t *testing.T) { locktest.Run(t, redsyncKind(wrapping), exampleOptions(t)) })
	}
}
