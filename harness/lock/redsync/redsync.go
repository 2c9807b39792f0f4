// Package redsync puts github.com/go-redsync/redsync, the Redlock that most Go
// programs use, behind the interfaces of a lock under test.
//
// It translates: Settings into the library's options, and what the library says
// of a release or an extension into a definite "not held" where a quorum of nodes
// said so. The library is as it is. It reads package time itself, and so do its
// time-outs; what is random in it is drawn by name, "token/3/0" for the first word
// of the third token and "retry/2" for the second delay. A release and an extension
// have no time-out in the library, so they get one request's here.
//
// Deliberately missing: fencing tokens and a limit of extensions, for the library
// has none.
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

// Own is the settings that only this kind has.
var Own = []lock.Option{
	{Name: "driver", Doc: "how go-redis is set up: to keep the library's time-outs and ask once, as it comes, or as it comes but with ContextTimeoutEnabled",
		Values: []string{"bounded", "defaults", "context-timeout"}},
	{Name: "fail-fast", Doc: "take the first answers that make a quorum, either way", Values: []string{"no", "yes"}},
	{Name: "set-nx-on-extend", Doc: "an extension sets the key anew where it is gone", Values: []string{"no", "yes"}},
}

// retryBackoff is the least that go-redis waits before it sends a request again. It would draw
// from a longer span each time, by dice that nobody can seed.
const retryBackoff = 8 * time.Millisecond

// driver is the options of a node's client. As it comes, go-redis goes on with a request for five
// seconds and sends it four times, whatever time-out the library gives its context.
func driver(setUp, addr string) *redis.Options {
	tuned := redisnode.Options(addr)
	if setUp != "defaults" && setUp != "context-timeout" {
		return tuned
	}
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: setUp == "context-timeout",
		MinRetryBackoff: retryBackoff, MaxRetryBackoff: retryBackoff, PoolSize: tuned.PoolSize,
		MaintNotificationsConfig: tuned.MaintNotificationsConfig,
	}
}

// New returns redsync as one client's lock.
func New(env lock.Env) (lock.Lock, error) {
	s, err := env.ForLibrary("redsync", "nodes: give at least one", "say multiplexed")
	if err != nil {
		return nil, err
	}
	l := &library{settings: s, env: env, quorum: len(env.Nodes)/2 + 1}
	var pools []rsredis.Pool
	for _, n := range env.Nodes {
		o := driver(s.Options["driver"], n.Addr)
		o.Dialer = env.Dial
		client := redis.NewClient(o)
		l.Clients = append(l.Clients, client)
		pools = append(pools, goredis.NewPool(client))
	}
	l.redsync = redsync.New(pools...)
	return l, nil
}

// library is redsync as a lock.Lock.
type library struct {
	lock.Clients[*redis.Client]
	settings lock.Settings
	env      lock.Env
	quorum   int
	redsync  *redsync.Redsync

	mu            sync.Mutex
	drawn, delays int // so far
}

// Acquire implements lock.Lock. If ctx ended, the error wraps its error.
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
		return nil, fmt.Errorf("acquire %q: %w", key, errors.Join(inOrder(err), ctx.Err()))
	}
	return handle{l, m}, nil
}

// token is 20 random bytes, in hexadecimal digits.
func (l *library) token() (string, error) {
	l.mu.Lock()
	l.drawn++
	n := l.drawn
	l.mu.Unlock()
	return l.env.Token(n), nil
}

// delay is a random one between two attempts.
func (l *library) delay(int) time.Duration {
	l.mu.Lock()
	l.delays++
	n := l.delays
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

func (h handle) Release(ctx context.Context) error { return h.ask(ctx, h.mutex.UnlockContext) }
func (h handle) Extend(ctx context.Context) error  { return h.ask(ctx, h.mutex.ExtendContext) }
func (h handle) Deadline() time.Time               { return h.mutex.Until() }
func (h handle) Token() string                     { return h.mutex.Value() }

// ask has the library ask all nodes, and says its definite no in the words of the harness.
func (h handle) ask(ctx context.Context, step func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, h.library.settings.Timeout)
	defer cancel()
	ok, err := step(ctx)
	err = inOrder(err)
	switch {
	case ok:
		return nil
	case refusals(err) >= h.library.quorum:
		return fmt.Errorf("%w: %w", lock.ErrNotHeld, err)
	case err == nil:
		return errors.New("redsync had no quorum, and says no more")
	}
	return err
}

// inOrder sorts what went wrong on several nodes. The library has it in the order
// of its goroutines, which is another one in each run.
func inOrder(err error) error {
	if err == nil {
		return nil
	}
	var parts []error
	var flatten func(error)
	flatten = func(err error) {
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			parts = append(parts, err)
			return
		}
		for _, part := range joined.Unwrap() {
			flatten(part)
		}
	}
	flatten(err)
	slices.SortStableFunc(parts, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(parts...)
}

// refusals counts the nodes that said no: that the key is gone or has another value.
func refusals(err error) (n int) {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			n += refusals(part)
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
