// Package redlock puts the reference, lockpick's own Redlock on go-redis, behind
// the interfaces of a lock under test.
//
// It translates: Env into the reference's configuration, and a definite "lost"
// into lock.ErrNotHeld. What is random is drawn by name, "token/3/0" for the
// first word of the third token and "retry/2/0" for the second delay.
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
)

var _ lock.Factory = New

// defaultTTL is the TTL where the scenario names none.
const defaultTTL = 10 * time.Second

// New returns the reference as one client's lock.
func New(env lock.Env) (lock.Lock, error) {
	cfg, err := configure(env)
	if err != nil {
		return nil, err
	}
	nodes, clients := onGoRedis(env)
	return newReference(cfg, nodes, clients)
}

// OnWire is New with package wire in place of go-redis. It is in no table of kinds: it shows
// what of a run's price is the driver's.
func OnWire(env lock.Env) (lock.Lock, error) {
	cfg, err := configure(env)
	if err != nil {
		return nil, err
	}
	nodes, clients := onWire(env, cfg)
	return newReference(cfg, nodes, clients)
}

func newReference(cfg redlock.Config, nodes []redlock.Node, clients io.Closer) (lock.Lock, error) {
	cfg.Nodes = nodes
	l := &reference{Closer: clients}
	var err error
	if l.redlock, err = redlock.Specification(cfg); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// configure translates what both kinds have, but for the nodes.
func configure(env lock.Env) (cfg redlock.Config, err error) {
	s := env.Settings
	if s.Mistake != "" {
		return cfg, fmt.Errorf("lock %s makes no mistake %q: that is for kind broken", s.Kind, s.Mistake)
	}
	if s.Ask != "" && s.Ask != "multiplexed" && s.Ask != "sequential" {
		return cfg, fmt.Errorf("lock %s can't ask %q: say multiplexed or sequential", s.Kind, s.Ask)
	}
	if s.TTL == 0 {
		s.TTL = defaultTTL
	}
	return redlock.Config{
		TTL: s.TTL, Timeout: s.Timeout, Drift: cmp.Or(s.Drift, redlock.NoDrift), RetryMin: s.RetryMin, RetryMax: s.RetryMax,
		Tries: s.Tries, Extends: s.Extends, Sequential: s.Ask == "sequential", Fence: s.Fence,
		Now: env.Now, After: env.After, Random: named(env.Random),
	}, nil
}

// onGoRedis are the nodes, and their clients.
func onGoRedis(env lock.Env) (nodes []redlock.Node, clients lock.Clients[*redis.Client]) {
	for _, n := range env.Nodes {
		o := redisnode.Options(n.Addr)
		o.Dialer = env.Dial
		client := redis.NewClient(o)
		clients = append(clients, client)
		nodes = append(nodes, node{redisnode.New(client), n.Name})
	}
	return nodes, clients
}

// node is a Redis node that goes by its name in the run.
type node struct {
	*redisnode.Node
	name string
}

func (n node) String() string { return n.name }

// named fills bytes with 64-bit words, each drawn by a name of its own.
func named(random func(string) uint64) func(string, []byte) error {
	var mu sync.Mutex
	drawn := map[string]int{}
	return func(use string, b []byte) error {
		mu.Lock()
		drawn[use]++
		n := drawn[use]
		mu.Unlock()
		for word := 0; len(b) > 0; word++ {
			var w [8]byte
			binary.LittleEndian.PutUint64(w[:], random(fmt.Sprintf("%s/%d/%d", use, n, word)))
			b = b[copy(b, w[:]):]
		}
		return nil
	}
}

// reference is the reference as a lock.Lock.
type reference struct {
	io.Closer // of its clients of nodes
	redlock   *redlock.Client
}

// Acquire implements lock.Lock. If ctx ended, the error wraps its error.
func (l *reference) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	held, err := l.redlock.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return handle{held}, nil
}

// handle is a held lock.
type handle struct{ held *redlock.Lock }

var (
	_ lock.Extender = handle{}
	_ lock.Tokener  = handle{}
	_ lock.Fencer   = handle{}
)

func (h handle) Release(ctx context.Context) error { return verdict(h.held.Release(ctx)) }
func (h handle) Extend(ctx context.Context) error  { return verdict(h.held.Extend(ctx)) }
func (h handle) Deadline() time.Time               { return h.held.Until() }
func (h handle) Token() string                     { return h.held.Token() }
func (h handle) Fence() int64                      { return h.held.Fence() }

// verdict says a definite no in the words of the harness.
func verdict(err error) error {
	if errors.Is(err, redlock.ErrLost) {
		return fmt.Errorf("%w: %w", lock.ErrNotHeld, err)
	}
	return err
}
