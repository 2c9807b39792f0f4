// Package broken is Redlock with exactly one mistake, to see that the harness
// finds it. It stands on the reference's nodes and arithmetic, but has a loop of
// its own, so that the reference needs no switches for mistakes.
//
// Its noun is the mistake: a line of the table in mistakes.go. Each use of a
// switch below is that mistake; all else is as in the reference.
//
// Deliberately missing: fencing tokens.
package broken

import (
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
	s := env.Settings
	if s.Fence {
		return nil, errors.New("lock broken has no fencing tokens: leave fence out")
	}
	if s.Ask != "" && s.Ask != "multiplexed" && s.Ask != "sequential" {
		return nil, fmt.Errorf("lock broken can't ask %q: say multiplexed or sequential", s.Ask)
	}
	if s.TTL == 0 {
		s.TTL = 10 * time.Second
	}
	l := &broken{mistake: m, random: env.Random}
	for _, n := range env.Nodes {
		o := redisnode.Options(n.Addr)
		o.Dialer = env.Dial
		l.clients = append(l.clients, redis.NewClient(o))
	}
	l.cfg, err = redlock.Config{
		Nodes: l.nodes(), TTL: s.TTL, Timeout: s.Timeout, Drift: s.Drift, RetryMin: s.RetryMin, RetryMax: s.RetryMax,
		Tries: s.Tries, Extends: s.Extends, Sequential: s.Ask == "sequential", Now: env.Now, After: env.After,
	}.WithDefaults()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func find(name string) (mistake, error) {
	if i := slices.IndexFunc(mistakes, func(m mistake) bool { return m.name == name }); i >= 0 {
		return mistakes[i], nil
	}
	var names []string
	for _, m := range mistakes {
		names = append(names, m.name)
	}
	return mistake{}, fmt.Errorf("lock broken knows no mistake %q: say one of %s", name, strings.Join(names, ", "))
}

// broken is one client's lock.
type broken struct {
	mistake mistake
	cfg     redlock.Config
	clients []*redis.Client
	random  func(name string) uint64
	tokens  int // drawn so far
	retries int
}

func (l *broken) nodes() []redlock.Node {
	var out []redlock.Node
	for _, c := range l.clients {
		out = append(out, redisnode.New(c))
	}
	return out
}

// Close implements lock.Lock.
func (l *broken) Close() error {
	var errs []error
	for _, c := range l.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Acquire implements lock.Lock.
func (l *broken) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	token := l.token()
	for try := 1; ctx.Err() == nil; try++ {
		if try > 1 && !l.mistake.sameValue {
			token = l.token()
		}
		if h := l.attempt(ctx, key, token); h != nil {
			return h, nil
		}
		if try == l.cfg.Tries && ctx.Err() == nil {
			return nil, fmt.Errorf("acquire %q: no quorum in %d attempts", key, try)
		}
		l.wait(ctx)
	}
	return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
}

// attempt returns nil if it failed, and has then undone what it did.
func (l *broken) attempt(ctx context.Context, key, token string) lock.Handle {
	start := l.cfg.Now()
	votes := l.ask(ctx, func(ctx context.Context, node int) (bool, error) {
		return l.cfg.Nodes[node].Set(ctx, key, token, l.cfg.TTL)
	})
	end := l.cfg.Now()

	quorum := redlock.Quorum(len(l.clients))
	if l.mistake.halfQuorum {
		quorum = len(l.clients) / 2
	}
	drift := redlock.Drift(l.cfg.TTL, l.cfg.Drift)
	validity := redlock.Validity(l.cfg.TTL, end.Sub(start), drift)
	if l.mistake.noElapsedCheck {
		validity = l.cfg.TTL - drift
	}
	if votes.yes >= quorum && validity > 0 && ctx.Err() == nil {
		return &handle{lock: l, key: key, token: token, deadline: end.Add(validity)}
	}
	l.undo(ctx, key, token)
	return nil
}

// undo deletes the key on all nodes if it is the token's, even if ctx has ended.
func (l *broken) undo(ctx context.Context, key, token string) votes {
	return l.ask(context.WithoutCancel(ctx), func(ctx context.Context, node int) (bool, error) {
		return l.cfg.Nodes[node].Release(ctx, key, token)
	})
}

func (l *broken) token() string {
	l.tokens++
	word := func(i int) uint64 { return l.random(fmt.Sprintf("token/%d/%d", l.tokens, i)) }
	return fmt.Sprintf("%016x%016x%08x", word(0), word(1), uint32(word(2)))
}

func (l *broken) wait(ctx context.Context) {
	l.retries++
	span := uint64(l.cfg.RetryMax-l.cfg.RetryMin) + 1
	delay := l.cfg.RetryMin + time.Duration(l.random(fmt.Sprintf("retry/%d", l.retries))%span)
	select {
	case <-l.cfg.After(delay):
	case <-ctx.Done():
	}
}

// handle is one acquired lock.
type handle struct {
	lock       *broken
	key, token string
	deadline   time.Time
	extends    int // tried so far
}

var (
	_ lock.Tokener  = (*handle)(nil)
	_ lock.Extender = (*handle)(nil)
)

func (h *handle) Deadline() time.Time { return h.deadline }
func (h *handle) Token() string       { return h.token }

// Release implements lock.Handle.
func (h *handle) Release(ctx context.Context) error {
	l := h.lock
	var answers votes
	if l.mistake.plainDel {
		answers = l.ask(context.WithoutCancel(ctx), func(ctx context.Context, node int) (bool, error) {
			n, err := l.clients[node].Del(ctx, h.key).Result()
			return n > 0, err
		})
	} else {
		answers = l.undo(ctx, h.key, h.token)
	}
	switch quorum := redlock.Quorum(len(l.clients)); {
	case answers.yes >= quorum:
		return nil
	case answers.no >= quorum:
		return fmt.Errorf("release %q: %w", h.key, lock.ErrNotHeld)
	}
	return fmt.Errorf("release %q: outcome unknown, %d nodes said yes and %d no", h.key, answers.yes, answers.no)
}
