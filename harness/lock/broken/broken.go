// Package broken is Redlock with exactly one mistake, to see that the harness
// finds it. It stands on the reference's nodes and arithmetic, but has a course
// of its own, so that the reference needs no switches for mistakes.
//
// Its nouns are the course, the algorithm as steps that can be replaced one by
// one (course.go), and the mistake, a line of the table in mistakes.go that
// replaces one of them and says what its author thought. A course in which
// nothing was replaced is the reference's.
//
// Deliberately missing: combinations. A lock with two mistakes shows neither.
package broken

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock"
	"lockpick/redlock/redisnode"
)

var _ lock.Factory = New

// New returns a lock that makes the mistake which env's settings name.
func New(env lock.Env) (lock.Lock, error) {
	m, err := find(env.Settings.Mistake)
	if err != nil {
		return nil, err
	}
	l, err := newBroken(env)
	if err != nil {
		return nil, err
	}
	m.make(l)
	if l.cfg.Fence && !l.counts {
		return nil, errors.Join(fmt.Errorf("lock broken has no fencing tokens with the mistake %s: leave fence out", m.Name), l.Close())
	}
	return l, nil
}

func find(name string) (mistake, error) {
	if i := slices.IndexFunc(mistakes, func(m mistake) bool { return m.Name == name }); i >= 0 {
		return mistakes[i], nil
	}
	var names []string
	for _, m := range mistakes {
		names = append(names, m.Name)
	}
	return mistake{}, fmt.Errorf("lock broken knows no mistake %q: say one of %s", name, strings.Join(names, ", "))
}

// newBroken returns a lock in which nothing is wrong yet.
func newBroken(env lock.Env) (*broken, error) {
	s := env.Settings
	if s.Ask != "" && s.Ask != "multiplexed" && s.Ask != "sequential" {
		return nil, fmt.Errorf("lock broken can't ask %q: say multiplexed or sequential", s.Ask)
	}
	if s.TTL == 0 {
		s.TTL = 10 * time.Second
	}
	l := &broken{env: env, closed: make(chan struct{})}
	for i, n := range env.Nodes {
		o := redisnode.Options(n.Addr)
		o.Dialer = env.Dial
		l.Clients = append(l.Clients, redis.NewClient(o))
		l.nodes = append(l.nodes, redisnode.New(l.Clients[i]))
		l.all = append(l.all, i)
	}
	cfg := redlock.Config{
		TTL: s.TTL, Timeout: s.Timeout, Drift: cmp.Or(s.Drift, redlock.NoDrift), RetryMin: s.RetryMin, RetryMax: s.RetryMax,
		Tries: s.Tries, Extends: s.Extends, Sequential: s.Ask == "sequential", Fence: s.Fence, Now: env.Now, After: env.After,
	}
	for _, n := range l.nodes {
		cfg.Nodes = append(cfg.Nodes, n)
	}
	var err error
	if l.cfg, err = cfg.WithDefaults(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.course = l.right()
	return l, nil
}

// broken is one client's lock.
type broken struct {
	lock.Clients[*redis.Client]
	course
	env     lock.Env
	cfg     redlock.Config
	nodes   []*redisnode.Node
	all     []int // indices of all nodes
	drawn   int   // random values so far
	retries int
	closed  chan struct{}
}

func (l *broken) Close() error {
	close(l.closed)
	return l.Clients.Close()
}

func (l *broken) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	for try := 1; ctx.Err() == nil; try++ {
		if h := l.attempt(ctx, key, try); h != nil {
			return l.give(h), nil
		}
		if try == l.cfg.Tries && ctx.Err() == nil {
			return nil, fmt.Errorf("acquire %q: no quorum in %d attempts", key, try)
		}
		l.wait(ctx)
	}
	return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
}

// attempt returns nil if it failed, and has then undone what it did.
func (l *broken) attempt(ctx context.Context, key string, try int) *handle {
	start := l.now()
	h := &handle{lock: l, key: key, value: l.value(try, start)}
	h.granted = l.ask(ctx, l.all, func(ctx context.Context, node int) (int64, error) {
		return l.set(ctx, node, key, h.value)
	})
	if l.cfg.Fence && redlock.Count(h.granted).Yes >= l.quorum {
		h.fence = l.number(ctx, h)
	}
	end := l.now()

	if redlock.Count(h.granted).Yes >= l.quorum && l.inTime(start, end) && ctx.Err() == nil {
		h.deadline = l.until(start, end)
		return h
	}
	l.undo(ctx, h)
	return nil
}

// release asks some nodes to delete the key by one step, even if ctx has ended.
func (l *broken) release(ctx context.Context, nodes []int, h *handle, by step) []redlock.Answer {
	return l.ask(context.WithoutCancel(ctx), nodes, func(ctx context.Context, node int) (int64, error) {
		return by(ctx, node, h.key, h.value)
	})
}

func (l *broken) wait(ctx context.Context) {
	l.retries++
	select {
	case <-l.cfg.After(l.delay()):
	case <-ctx.Done():
	}
}
