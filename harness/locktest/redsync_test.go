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

// redsyncOptions are three ways to choose the options of redsync's mutexes.
var redsyncOptions = map[string]func(lock.Env) ([]redsync.Option, error){
	// As in production, whatever the scenario's settings are. The test repeats them in Options.TTL and
	// Tries. The delays are random, so two runs with the same seed may differ.
	"own": func(lock.Env) ([]redsync.Option, error) {
		return []redsync.Option{redsync.WithExpiry(8 * time.Second), redsync.WithTries(32)}, nil
	},
	// From the scenario's settings. Tries is 0 if there is no limit, but redsync.WithTries(0) never
	// tries.
	"settings": func(env lock.Env) ([]redsync.Option, error) {
		s := env.Settings
		if s.Tries == 0 {
			s.Tries = math.MaxInt
		}
		return fromSettings(env, s), nil
	},
	// ForLibrary sets the values that the scenario leaves to the lock.
	"library": func(env lock.Env) ([]redsync.Option, error) {
		s, err := env.ForLibrary("redsync", "nodes", "use multiplexed")
		return fromSettings(env, s), err
	},
}

// fromSettings returns options with delays and values that a seed always reproduces.
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
			l := &redsyncLock{options: options, quorum: len(env.Nodes)/2 + 1}
			var pools []rsredis.Pool
			for _, n := range env.Nodes {
				client := redis.NewClient(driverOptions(env, n, name))
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
	quorum  int
}

func (l *redsyncLock) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	m := l.redsync.NewMutex(key, l.options...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHandle{m, l.quorum}, nil
}

type redsyncHandle struct {
	*redsync.Mutex
	quorum int
}

func (h redsyncHandle) Deadline() time.Time               { return h.Until() }
func (h redsyncHandle) Token() string                     { return h.Value() }
func (h redsyncHandle) Release(ctx context.Context) error { return h.convert(h.UnlockContext(ctx)) }
func (h redsyncHandle) Extend(ctx context.Context) error  { return h.convert(h.ExtendContext(ctx)) }

// convert converts a result of redsync. The lock is definitely not held if a quorum of nodes says so.
func (h redsyncHandle) convert(ok bool, err error) error {
	switch {
	case ok:
		return nil
	case countRefusals(err) >= h.quorum:
		return fmt.Errorf("%w: %w", lock.ErrNotHeld, err)
	}
	return errors.Join(redsync.ErrFailed, err)
}

// countRefusals counts the nodes on which the key is missing or has another value.
func countRefusals(err error) (n int) {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			n += countRefusals(part)
		}
	case *redsync.ErrTaken:
		n = len(e.Nodes)
	case *redsync.ErrNodeTaken:
		n = 1
	default:
		if err == redsync.ErrLockAlreadyExpired {
			n = 1
		}
	}
	return n
}

func TestRedsync(t *testing.T) {
	for _, wrapping := range wrappings {
		t.Run(wrapping, func(t *testing.T) { locktest.Run(t, redsyncKind(wrapping), exampleOptions(t)) })
	}
}
