// Package redsync adapts github.com/go-redsync/redsync, the most widely used Redlock in Go, to the
// interfaces of a lock under test.
//
// It converts Settings to the library's options. A failed release or extension becomes
// lock.ErrNotHeld if a quorum of nodes reported that the lock was not held. The library itself is
// unmodified. It calls package time directly, even for its timeouts. Random values are drawn by
// name, such as "token/3/0" for the first word of the third token and "retry/2" for the second
// delay. The library has no timeout for releases and extensions, so the adapter uses the timeout of
// a single request.
//
// Deliberately missing: fencing tokens and a limit on extensions, which the library doesn't have.
package redsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock/redisnode"
)

var _ lock.Factory = New

// Options are the settings specific to this kind.
var Options = []lock.Option{
	{Name: "driver", Doc: "configuration of go-redis: bounded respects the library's timeouts and doesn't retry; defaults is unchanged; context-timeout is the default with ContextTimeoutEnabled",
		Values: []string{"bounded", "defaults", "context-timeout"}},
	{Name: "fail-fast", Doc: "stop as soon as a quorum has either agreed or refused", Values: []string{"no", "yes"}},
	{Name: "set-nx-on-extend", Doc: "an extension restores the key on nodes that lost it", Values: []string{"no", "yes"}},
}

// retryBackoff is how long go-redis waits before it repeats a request. By default it draws a random
// backoff from an interval that grows with each retry, using a source that can't be seeded.
const retryBackoff = 8 * time.Millisecond

// driverOptions returns the options of a node's client. By default, go-redis keeps trying for five
// seconds and sends a request up to four times, regardless of the timeout of the library's context.
func driverOptions(driver, addr string) *redis.Options {
	bounded := redisnode.Options(addr)
	if driver != "defaults" && driver != "context-timeout" {
		return bounded
	}
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: driver == "context-timeout",
		MinRetryBackoff: retryBackoff, MaxRetryBackoff: retryBackoff, PoolSize: bounded.PoolSize,
		MaintNotificationsConfig: bounded.MaintNotificationsConfig,
	}
}

// New returns a lock for one client, backed by redsync.
func New(env lock.Env) (lock.Lock, error) {
	s, err := env.ForLibrary("redsync", "nodes: specify at least one", `use "multiplexed"`)
	if err != nil {
		return nil, err
	}
	l := &library{settings: s, env: env, quorum: len(env.Nodes)/2 + 1}
	var pools []rsredis.Pool
	for _, n := range env.Nodes {
		o := driverOptions(s.Options["driver"], n.Addr)
		o.Dialer = env.Dial
		client := redis.NewClient(o)
		l.Clients = append(l.Clients, client)
		pools = append(pools, goredis.NewPool(client))
	}
	l.redsync = redsync.New(pools...)
	return l, nil
}

// library adapts redsync to lock.Lock.
type library struct {
	lock.Clients[*redis.Client]
	settings lock.Settings
	env      lock.Env
	quorum   int
	redsync  *redsync.Redsync

	mu                     sync.Mutex
	tokenCount, delayCount int // numbers drawn so far
}

// Acquire implements lock.Lock. If ctx has ended, the error wraps ctx's error.
func (l *library) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	s := l.settings
	options := []redsync.Option{
		redsync.WithExpiry(s.TTL), redsync.WithTries(s.Tries), redsync.WithRetryDelayFunc(l.delay), redsync.WithGenValueFunc(l.token),
		redsync.WithTimeoutFactor(float64(s.Timeout) / float64(s.TTL)), redsync.WithFailFast(s.Options["fail-fast"] == "yes"),
		redsync.WithDriftFactor(s.Drift),
	}
	if s.Options["set-nx-on-extend"] == "yes" {
		options = append(options, redsync.WithSetNXOnExtend())
	}
	m := l.redsync.NewMutex(key, options...)
	if err := m.LockContext(ctx); err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, errors.Join(sortErrors(err), ctx.Err()))
	}
	return handle{l, m}, nil
}

// token returns 20 random bytes in hexadecimal.
func (l *library) token() (string, error) {
	l.mu.Lock()
	l.tokenCount++
	n := l.tokenCount
	l.mu.Unlock()
	return l.env.Token(n), nil
}

// delay returns a random delay between two attempts.
func (l *library) delay(int) time.Duration {
	l.mu.Lock()
	l.delayCount++
	n := l.delayCount
	l.mu.Unlock()
	return l.env.Delay(n, l.settings.RetryMin, l.settings.RetryMax)
}

// handle is a held lock.
type handle struct {
	library *library
	mutex   *redsync.Mutex
}

var (
	_ lock.Extender = handle{}
	_ lock.Tokener  = handle{}
)

func (h handle) Release(ctx context.Context) error { return h.callLibrary(ctx, h.mutex.UnlockContext) }
func (h handle) Extend(ctx context.Context) error  { return h.callLibrary(ctx, h.mutex.ExtendContext) }
func (h handle) Deadline() time.Time               { return h.mutex.Until() }
func (h handle) Token() string                     { return h.mutex.Value() }

// callLibrary calls the library and converts a definite refusal to lock.ErrNotHeld.
func (h handle) callLibrary(ctx context.Context, call func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, h.library.settings.Timeout)
	defer cancel()
	ok, err := call(ctx)
	err = sortErrors(err)
	switch {
	case ok:
		return nil
	case countRefusals(err) >= h.library.quorum:
		return fmt.Errorf("%w: %w", lock.ErrNotHeld, err)
	case err == nil:
		return errors.New("redsync failed without giving a reason")
	}
	return err
}

// sortErrors sorts joined errors. The library returns the nodes' errors in the order of its
// goroutines, which varies between runs.
func sortErrors(err error) error {
	if err == nil {
		return nil
	}
	var errs []error
	var flatten func(error)
	flatten = func(err error) {
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			errs = append(errs, err)
			return
		}
		for _, part := range joined.Unwrap() {
			flatten(part)
		}
	}
	flatten(err)
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// countRefusals counts the nodes that refused because the key is missing or has another value.
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
