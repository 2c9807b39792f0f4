// Package redlock adapts lockpick's own implementation of Redlock, the reference, to the interfaces
// of a lock under test.
//
// It converts Env to the reference's configuration, and a definite loss to lock.ErrNotHeld. Random
// values are drawn by name, such as "token/3/0" for the first word of the third token and
// "retry/2/0" for the second delay.
//
// Deliberately missing: anything that the reference could do itself.
package redlock

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock"
	"lockpick/redlock/redisnode"
	"lockpick/redlock/wire"
)

var _ lock.Factory = New

// defaultTTL is the TTL if the scenario doesn't set one.
const defaultTTL = 10 * time.Second

// New returns a lock for one client, backed by the reference implementation of Redlock.
func New(env lock.Env) (lock.Lock, error) {
	cfg, err := configure(env)
	if err != nil {
		return nil, err
	}
	l := &reference{}
	cfg.Nodes, l.Closer = goRedisNodes(env)
	if l.redlock, err = redlock.Specification(cfg); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// configure builds a configuration from the settings that both kinds share. It doesn't set the
// nodes.
func configure(env lock.Env) (cfg redlock.Config, err error) {
	s := env.Settings
	if s.Mistake != "" {
		return cfg, fmt.Errorf("lock %q does not support mistake %q: use kind \"broken\"", s.Kind, s.Mistake)
	}
	if s.Ask != "" && s.Ask != "multiplexed" && s.Ask != "sequential" {
		return cfg, fmt.Errorf("lock %q does not support ask: %q: use \"multiplexed\" or \"sequential\"", s.Kind, s.Ask)
	}
	if s.TTL == 0 {
		s.TTL = defaultTTL
	}
	return redlock.Config{
		TTL: s.TTL, Timeout: s.Timeout, Drift: cmp.Or(s.Drift, redlock.NoDrift), RetryMin: s.RetryMin, RetryMax: s.RetryMax,
		Tries: s.Tries, Extends: s.Extends, Sequential: s.Ask == "sequential", Fence: s.Fence,
		Now: env.Now, After: env.After, Random: namedRandom(env.Random),
	}, nil
}

// goRedisNodes returns nodes accessed with go-redis, and their clients.
func goRedisNodes(env lock.Env) (nodes []redlock.Node, clients lock.Clients[*redis.Client]) {
	for _, n := range env.Nodes {
		o := redisnode.Options(n.Addr)
		o.Dialer = redisnode.Guard(env.Dial)
		client := redis.NewClient(o)
		clients = append(clients, client)
		nodes = append(nodes, node{redisnode.New(client), n.Name})
	}
	return nodes, clients
}

// node is a Redis node with its name in the run.
type node struct {
	*redisnode.Node
	name string
}

func (n node) String() string { return n.name }

// namedRandom returns a function that fills bytes with 64-bit words, each drawn under its own name.
func namedRandom(random func(string) uint64) func(string, []byte) error {
	var mu sync.Mutex
	drawCounts := map[string]int{}
	return func(purpose string, b []byte) error {
		mu.Lock()
		drawCounts[purpose]++
		n := drawCounts[purpose]
		mu.Unlock()
		for word := 0; len(b) > 0; word++ {
			var w [8]byte
			binary.LittleEndian.PutUint64(w[:], random(fmt.Sprintf("%s/%d/%d", purpose, n, word)))
			b = b[copy(b, w[:]):]
		}
		return nil
	}
}

// reference adapts redlock.Client to lock.Lock.
type reference struct {
	io.Closer // the connections to the nodes
	redlock   *redlock.Client
}

// Acquire implements lock.Lock. If ctx has ended, the error wraps ctx's error.
func (l *reference) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	held, err := l.redlock.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return handle[*redlock.Lock]{held}, nil
}

// handle is a held lock of either kind.
type handle[H heldLock] struct{ held H }

type heldLock interface {
	Release(ctx context.Context) error
	Extend(ctx context.Context) error
	Until() time.Time
	Token() string
	Fence() int64
}

func (h handle[_]) Release(ctx context.Context) error { return toNotHeld(h.held.Release(ctx)) }
func (h handle[_]) Extend(ctx context.Context) error  { return toNotHeld(h.held.Extend(ctx)) }
func (h handle[_]) Deadline() time.Time               { return h.held.Until() }
func (h handle[_]) Token() string                     { return h.held.Token() }
func (h handle[_]) Fence() int64                      { return h.held.Fence() }

// toNotHeld converts a definite loss to lock.ErrNotHeld.
func toNotHeld(err error) error {
	if errors.Is(err, redlock.ErrLost) {
		return fmt.Errorf("%w: %w", lock.ErrNotHeld, err)
	}
	return err
}

var _ lock.Factory = Hardened

// Options are the settings specific to kind "hardened".
var Options = []lock.Option{
	{Name: "quarantine", Doc: "a node that has restarted or lost its data doesn't vote for one TTL, which delays acquires; c1 acts as the administrator who declares new nodes ready", Values: []string{"no", "yes"}, Forgoes: []string{"fault-tolerance", "deadlock-freedom"}},
	{Name: "repair", Doc: "once a majority has confirmed the lock, an extension restores the key on nodes that lost it", Values: []string{"no", "yes"}},
	{Name: "context", Doc: "the client relies on the lease's context rather than its deadline; it gets the context right after the acquire (taken) or just before a write (late)", Values: []string{"no", "taken", "late"}},
	{Name: "late-timers", Doc: "the lock's timers fire half a TTL late, as on an overloaded machine", Values: []string{"no", "yes"}, Forgoes: []string{"fault-tolerance", "deadlock-freedom"}},
	{Name: "wire", Doc: "contact nodes by package wire, which pipelines concurrent requests, rather than go-redis", Values: []string{"no", "yes"}},
}

// Hardened returns a lock for one client, backed by redlock.Locker, the lock that package redlock
// recommends.
func Hardened(env lock.Env) (lock.Lock, error) {
	cfg, err := configure(env)
	if err != nil {
		return nil, err
	}
	options := env.Settings.Options
	l := &hardenedLock{after: env.After, context: options["context"]}
	if options["late-timers"] == "yes" {
		cfg.After = func(d time.Duration) <-chan time.Time { return env.After(d + cfg.TTL/2) }
	}
	if options["wire"] == "yes" {
		cfg.Nodes, l.clients = wireNodes(env, cfg)
	} else {
		cfg.Nodes, l.clients = goRedisNodes(env)
	}
	cfg.Repair = options["repair"] == "yes"
	if options["quarantine"] == "yes" {
		cfg.Quarantine = cfg.TTL
		if env.Client == administrator {
			l.newNodes = cfg
		}
	}
	if l.locker, err = redlock.New(cfg); err != nil {
		return nil, errors.Join(err, l.clients.Close())
	}
	return l, nil
}

// wireNodes returns nodes accessed with package wire.
func wireNodes(env lock.Env, cfg redlock.Config) (nodes []redlock.Node, closers lock.Clients[*wire.Node]) {
	timeout := cmp.Or(cfg.Timeout, min(50*time.Millisecond, cfg.TTL/10)) // as in package redlock
	for _, n := range env.Nodes {
		w := wire.New(wire.Options{Addr: n.Addr, Dial: env.Dial, Timeout: timeout, Now: cfg.Now, After: cfg.After})
		nodes, closers = append(nodes, wireNode{w, n.Name}), append(closers, w)
	}
	return nodes, closers
}

// wireNode is a node accessed with package wire, with its name in the run.
type wireNode struct {
	*wire.Node
	name string
}

func (n wireNode) String() string { return n.name }

// hardenedLock adapts redlock.Locker to lock.Lock.
type hardenedLock struct {
	clients  io.Closer
	locker   *redlock.Locker
	after    func(time.Duration) <-chan time.Time
	context  string         // value of the option context
	newNodes redlock.Config // configuration whose nodes have yet to be declared ready
}

// administrator is the client that declares new nodes ready before its first acquire.
const administrator = "c1"

// declareReady tells the nodes that they haven't lost any data, as an administrator does after
// setting them up.
func (l *hardenedLock) declareReady(ctx context.Context) {
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, l.newNodes.TTL/2)
	defer cancel()
	for _, n := range l.newNodes.Nodes {
		wg.Go(func() { n.(interface{ Ready(context.Context) error }).Ready(ctx) }) // a node that doesn't answer starts in quarantine
	}
	wg.Wait()
	l.newNodes.Nodes = nil
}

// Acquire implements lock.Lock. If ctx has ended, the error wraps ctx's error.
func (l *hardenedLock) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	l.declareReady(ctx)
	held, err := l.locker.Acquire(ctx, key)
	if errors.Is(err, redlock.ErrSameNode) {
		return nil, errors.Join(lock.ErrBroken, err)
	}
	if err != nil {
		if ctx.Err() != nil { // let pending releases go first, even if the client retries at once
			<-l.after(time.Microsecond)
		}
		return nil, err
	}
	switch l.context {
	case "taken":
		return contextLease{notifiedLease{lease{held}}}, nil
	case "late":
		return lateContextLease{lease{held}}, nil
	}
	return notifiedLease{lease{held}}, nil
}

// Close implements lock.Lock. It finishes the lock's background work and then closes the
// connections. It ignores releases that are still pending: a node that is down at the end is not
// the lock's fault.
func (l *hardenedLock) Close() error {
	err := l.locker.Close()
	if errors.Is(err, redlock.ErrReleasesPending) {
		err = nil
	}
	return errors.Join(err, l.clients.Close())
}

type lease = handle[*redlock.Lease]

var (
	_ lock.Extender     = lease{}
	_ lock.Tokener      = lease{}
	_ lock.Fencer       = lease{}
	_ lock.LossNotifier = notifiedLease{}

	_ lock.ContextHandle = contextLease{}
	_ lock.ContextHandle = lateContextLease{}
)

// notifiedLease is a lease whose client relies on the deadline and watches for a loss. The lease's
// context is in use from the start.
type notifiedLease struct{ lease }

func (h notifiedLease) Lost() <-chan struct{} { return h.held.Context().Done() }

// contextLease is a notifiedLease whose client relies on the context.
type contextLease struct{ notifiedLease }

func (h contextLease) Context() context.Context { return h.held.Context() }

// lateContextLease is a lease whose client doesn't request the context until it needs to check it.
type lateContextLease struct{ lease }

func (h lateContextLease) Context() context.Context { return h.held.Context() }
