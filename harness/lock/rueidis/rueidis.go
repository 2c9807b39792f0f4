// Package rueidis adapts rueidislock, the lock in github.com/redis/rueidis, to the interfaces of a
// lock under test. It uses one key on one Redis server (KeyMajority 1). The library extends the key
// automatically while the lock is held.
//
// The adapter converts Settings to the library's options; the library itself is unmodified. The
// holder has no deadline but a context, which the library cancels when it detects a loss; Lost
// returns the context's Done channel. The key of lock "k" is "rueidislock:0:k". It expires at an
// instant of the client's wall clock (PXAT), and its value is drawn from a source that can't be
// seeded. The library doesn't report the result of a release.
//
// Deliberately missing: Extend and fencing tokens, which the library doesn't have, and the
// scenario's drift and the delays between attempts, for which the library has no options.
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

// Options are the settings specific to this kind.
var Options = []lock.Option{
	{Name: "caching", Doc: "client-side caching, recommended by the library's documentation: the server notifies waiting clients and holders of changes", Values: []string{"no", "yes"}},
	{Name: "no-loop", Doc: "with caching, clients are not notified of their own changes", Values: []string{"yes", "no"}, With: "caching=yes"},
}

// Prefix is prepended to a lock's name to form its key, if KeyMajority is 1.
const Prefix = "rueidislock:0:"

// New returns a lock for one client, backed by rueidislock on the first node.
func New(env lock.Env) (lock.Lock, error) {
	s, err := env.ForLibrary("rueidis", "node: specify one", "it has only one node")
	if err != nil {
		return nil, err
	}
	caching := s.Options["caching"] == "yes"
	l := &library{env: env, tries: env.Settings.Tries, ready: make(chan struct{})}
	option := rueidislock.LockerOption{
		ClientBuilder: newClient,
		ClientOption:  l.clientOption(!caching),
		KeyValidity:   s.TTL, TryNextAfter: env.Settings.Timeout, KeyMajority: 1, NoLoopTracking: caching && s.Options["no-loop"] != "no",
	}
	go func() { // connecting may take as long as a dial
		defer close(l.ready)
		l.locker, l.err = rueidislock.NewLocker(option)
	}()
	return l, nil
}

// newClient returns a client even if its server can't be reached. The client dials again whenever
// it is used.
func newClient(o rueidis.ClientOption) (rueidis.Client, error) {
	client, err := rueidis.NewClient(o)
	if client == nil {
		return nil, err
	}
	return client, nil
}

// clientOption returns options for a client with a single connection, dialed by the harness, and
// with random values drawn by name.
func (l *library) clientOption(disableCache bool) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{l.env.Nodes[0].Addr}, ForceSingleClient: true, DisableCache: disableCache,
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return l.env.Dial(ctx, "tcp", addr)
		},
		RetryDelay:        l.retryDelay,
		RingScaleEachConn: 8, ReadBufferEachConn: 4 << 10, WriteBufferEachConn: 4 << 10,
	}
}

// library adapts rueidislock to lock.Lock.
type library struct {
	env    lock.Env
	tries  int
	ready  chan struct{} // closed once locker or err is set
	locker rueidislock.Locker
	err    error

	mu                       sync.Mutex
	requestCount, delayCount int // numbers drawn so far
}

// retryDelay returns the client's delay between two tries of a request, drawn by name: 2^n to
// 2^(n+1) µs, but at most a second.
func (l *library) retryDelay(attempts int, _ rueidis.Completed, _ error) time.Duration {
	l.mu.Lock()
	l.requestCount++
	name := fmt.Sprintf("request/%d", l.requestCount)
	l.mu.Unlock()
	base := uint64(1) << min(20, attempts)
	return min(time.Second, time.Duration(base+l.env.Random(name)%base)*time.Microsecond)
}

// Acquire implements lock.Lock. If the number of tries is not limited, it blocks as long as the
// library does.
func (l *library) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
	}
	if l.err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, l.err)
	}
	acquire := l.locker.WithContext
	if l.tries > 0 {
		acquire = l.acquireWithTries
	}
	// In the library, a lock ends when the context of its acquire ends. In the harness, that
	// context only limits the wait for the lock.
	holdCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopWaiting := context.AfterFunc(ctx, cancel)
	lockCtx, release, err := acquire(holdCtx, key)
	switch {
	case err != nil:
		cancel()
		return nil, fmt.Errorf("acquire %q: %w", key, errors.Join(err, ctx.Err()))
	case !stopWaiting(): // ctx ended just when the lock was acquired
		release()
		return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
	}
	return &handle{lockCtx, release, cancel}, nil
}

// acquireWithTries tries up to l.tries times, with a delay between tries.
func (l *library) acquireWithTries(ctx context.Context, key string) (lockCtx context.Context, release context.CancelFunc, err error) {
	for n := 1; ; n++ {
		lockCtx, release, err = l.locker.TryWithContext(ctx, key)
		if err == nil || n == l.tries {
			return lockCtx, release, err
		}
		l.delayCount++
		select {
		case <-l.env.After(l.env.Delay(l.delayCount, l.env.Settings.RetryMin, l.env.Settings.RetryMax)):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (l *library) Close() error {
	<-l.ready
	if l.locker != nil {
		l.locker.Close()
	}
	return nil
}

var _ lock.LossNotifier = (*handle)(nil)

// handle is a held lock.
type handle struct {
	lockCtx context.Context // canceled when the lock ends
	release context.CancelFunc
	cancel  context.CancelFunc // cancels the acquire's context
}

// Results of Release. The library's own release returns no result.
var (
	ErrUnknown = errors.New("rueidislock doesn't report the outcome")
	errLost    = errors.New("lock was lost before, as reported by rueidislock")
)

// Lost is closed once the library has detected a loss, or after a release.
func (h *handle) Lost() <-chan struct{} { return h.lockCtx.Done() }

// Deadline implements lock.Handle. It returns zero because there is no deadline.
func (h *handle) Deadline() time.Time { return time.Time{} }

// Release implements lock.Handle. Its outcome is unknown.
func (h *handle) Release(ctx context.Context) error {
	result := ErrUnknown
	if h.lockCtx.Err() != nil {
		result = errLost
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.release()
		h.cancel()
	}()
	select {
	case <-done:
		return result
	case <-ctx.Done():
		return fmt.Errorf("release: %w", ctx.Err())
	}
}
