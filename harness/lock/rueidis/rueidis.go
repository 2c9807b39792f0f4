// Package rueidis puts rueidislock, the lock of github.com/redis/rueidis, behind the
// interfaces of a lock under test: one key on one Redis server (KeyMajority 1), which the
// library extends by itself for as long as it is held.
//
// It translates Settings into the library's options; the library is as it is. Its holder has
// no deadline: it has a context that ends when the library knows of a loss, which Lost gives.
// The key of "k" is "rueidislock:0:k", it expires at an instant by the client's wall clock
// (PXAT), and its value is drawn from a source that nobody can seed. Of a release the library
// doesn't say what came of it.
//
// Deliberately missing: Extend and fencing tokens, for the library has neither; and the
// scenario's drift, and the delays between two attempts, for the library has no such options.
package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"lockpick/harness/lock"
)

var _ lock.Factory = New

// Own is the settings that only this kind has.
var Own = []lock.Option{
	{Name: "caching", Doc: "client-side caching: the server tells who waits and who holds of a change, as the library's documentation advises", Values: []string{"no", "yes"}},
	{Name: "no-loop", Doc: "with caching, nobody is told of what it changes itself", Values: []string{"yes", "no"}, With: "caching=yes"},
}

// Prefix is what the library makes a key of a lock's name by, with KeyMajority 1.
const Prefix = "rueidislock:0:"

// New returns rueidislock as one client's lock on the first node.
func New(env lock.Env) (lock.Lock, error) {
	s, err := env.ForLibrary("rueidis", "node: give one", "it has one node to ask")
	if err != nil {
		return nil, err
	}
	caching := s.Options["caching"] == "yes"
	l := &library{env: env, tries: env.Settings.Tries, opened: make(chan struct{})}
	option := rueidislock.LockerOption{
		ClientBuilder: unconnected,
		ClientOption:  l.client(!caching),
		KeyValidity:   s.TTL, TryNextAfter: env.Settings.Timeout, KeyMajority: 1, NoLoopTracking: caching && s.Options["no-loop"] != "no",
	}
	go func() { // it connects, which may take as long as a dial may
		defer close(l.opened)
		l.locker, l.err = rueidislock.NewLocker(option)
	}()
	return l, nil
}

// unconnected makes a client also while its server can't be reached: it dials anew for
// whoever uses it.
func unconnected(o rueidis.ClientOption) (rueidis.Client, error) {
	client, err := rueidis.NewClient(o)
	if client == nil {
		return nil, err
	}
	return client, nil
}

// client is the options of a client that has one connection, through the harness. What is
// random in it is drawn by name.
func (l *library) client(plain bool) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{l.env.Nodes[0].Addr}, ForceSingleClient: true, DisableCache: plain,
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return l.env.Dial(ctx, "tcp", addr)
		},
		RetryDelay:        l.retryDelay,
		RingScaleEachConn: 8, ReadBufferEachConn: 4 << 10, WriteBufferEachConn: 4 << 10,
	}
}

// library is rueidislock as a lock.Lock.
type library struct {
	env    lock.Env
	tries  int
	opened chan struct{} // closed once there is a locker, or an error
	locker rueidislock.Locker
	err    error

	mu            sync.Mutex
	delays, waits int // so far
}

// retryDelay is the client's own between two tries of a request, with named dice: 2^n to
// 2^(n+1) µs, at most a second.
func (l *library) retryDelay(attempts int, _ rueidis.Completed, _ error) time.Duration {
	l.mu.Lock()
	l.delays++
	name := fmt.Sprintf("request/%d", l.delays)
	l.mu.Unlock()
	base := uint64(1) << min(20, attempts)
	return min(time.Second, time.Duration(base+l.env.Random(name)%base)*time.Microsecond)
}

// Acquire implements lock.Lock. Without a number of tries it waits as the library does.
func (l *library) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	select {
	case <-l.opened:
	case <-ctx.Done():
		return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
	}
	if l.err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, l.err)
	}
	ask := l.locker.WithContext
	if l.tries > 0 {
		ask = l.try
	}
	// The library ends a lock with the context that it was acquired with; the harness
	// means by it how long to wait.
	span, end := context.WithCancel(context.WithoutCancel(ctx))
	waits := context.AfterFunc(ctx, end)
	holding, release, err := ask(span, key)
	switch {
	case err != nil:
		end()
		return nil, fmt.Errorf("acquire %q: %w", key, errors.Join(err, ctx.Err()))
	case !waits(): // it ended just as the lock was there
		release()
		return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
	}
	return &handle{holding, release, end}, nil
}

// try is so many tries with a delay between two of them.
func (l *library) try(ctx context.Context, key string) (holding context.Context, release context.CancelFunc, err error) {
	for n := 1; ; n++ {
		holding, release, err = l.locker.TryWithContext(ctx, key)
		if err == nil || n == l.tries {
			return holding, release, err
		}
		l.waits++
		select {
		case <-l.env.After(l.env.Delay(l.waits, l.env.Settings.RetryMin, l.env.Settings.RetryMax)):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (l *library) Close() error {
	<-l.opened
	if l.locker != nil {
		l.locker.Close()
	}
	return nil
}

var _ lock.Loser = (*handle)(nil)

// handle is a held lock.
type handle struct {
	holding context.Context // ends with the lock
	release context.CancelFunc
	end     context.CancelFunc // frees the context that it was acquired with
}

// What Release says: the library gives a lock back and has no result.
var (
	ErrUnknown = errors.New("rueidislock doesn't say what came of it")
	errLost    = errors.New("it was lost before, as rueidislock had told")
)

// Lost is closed once the library knows that the lock is lost, or gives it back.
func (h *handle) Lost() <-chan struct{} { return h.holding.Done() }

// Deadline implements lock.Handle: there is none.
func (h *handle) Deadline() time.Time { return time.Time{} }

// Release implements lock.Handle. Its outcome is open.
func (h *handle) Release(ctx context.Context) error {
	result := ErrUnknown
	if h.holding.Err() != nil {
		result = errLost
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.release()
		h.end()
	}()
	select {
	case <-done:
		return result
	case <-ctx.Done():
		return fmt.Errorf("release: %w", ctx.Err())
	}
}
