package shapes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock"
)

// locker is one client's lock.
type locker struct {
	lock.Clients[*redis.Client]
	design
	env          lock.Env
	cfg          redlock.Config
	all          []int // the nodes, in the order in which they are asked
	drawn, waits int
}

// hold is what one attempt sets, and is held once it is there.
type hold struct {
	*locker
	ask      ask
	deadline time.Time // zero: none
	fence    int64
	granted  []int           // nodes that are known to have said yes
	pending  []chan struct{} // of each node: closed once it has answered, where nobody waited for it
	watch    *watch          // nil: it doesn't extend by itself
}

var (
	_ lock.Extender = (*hold)(nil)
	_ lock.Tokener  = (*hold)(nil)
	_ lock.Fencer   = (*hold)(nil)
)

func (h *hold) Token() string       { return h.ask.token }
func (h *hold) Fence() int64        { return h.fence }
func (h *hold) Deadline() time.Time { return h.deadline }

func (l *locker) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	waiter := fmt.Sprintf("%s-%d", l.env.Client, l.drawn)
	for ctx.Err() == nil {
		h := l.attempt(ctx, key, waiter)
		if h == nil {
			l.wait(ctx)
			continue
		}
		if h.watch != nil {
			return watched{h}, nil
		}
		return h, nil
	}
	return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
}

func (l *locker) wait(ctx context.Context) {
	l.waits++
	delay := l.env.Delay(l.waits, l.cfg.RetryMin, l.cfg.RetryMax)
	if l.even {
		delay = l.cfg.RetryMax / 2
	}
	select {
	case <-l.env.After(delay):
	case <-ctx.Done():
	}
}

// attempt asks once. What may have been set of one that failed it undoes.
func (l *locker) attempt(ctx context.Context, key, waiter string) *hold {
	l.drawn++
	h := &hold{locker: l, ask: ask{key: key, token: l.env.Token(l.drawn), waiter: waiter, ttl: l.cfg.TTL.Milliseconds(), patience: 2 * (l.cfg.RetryMax + l.cfg.Timeout).Milliseconds()}}
	if l.token != nil {
		h.ask.token = l.token(h.ask.token)
	}
	start := l.cfg.Now()
	answers := h.take(ctx)
	for _, a := range answers {
		if a.Yes() {
			h.granted = append(h.granted, a.Node)
			if l.env.Settings.Fence {
				h.fence = max(h.fence, a.Value)
			}
		}
	}
	if l.quorum(answers) && ctx.Err() == nil && l.cfg.Now().Before(l.until(start)) {
		if h.deadline = l.until(start); l.endless {
			h.deadline = time.Time{}
		}
		if l.renew > 0 {
			h.deadline = time.Time{}
			h.watch = h.renewed(start)
		}
		return h
	}
	unknown := redlock.Count(answers)
	if !l.giveUp && (!l.leaves || unknown.Yes+unknown.No == unknown.All) {
		h.drop(ctx)
	}
	return nil
}

// until is when the node may have forgotten what was asked of it at an instant.
func (l *locker) until(asked time.Time) time.Time {
	return asked.Add(l.cfg.TTL - redlock.Drift(l.cfg.TTL, l.cfg.Drift))
}

// take asks the nodes for the lock.
func (h *hold) take(ctx context.Context) []redlock.Answer {
	if h.hasty {
		return h.takeHastily(ctx)
	}
	if !h.giveUp {
		answers := h.round(ctx, h.all, h.set)
		for ; h.ask.sent < h.sends-1 && answers[0].Err != nil && ctx.Err() == nil; answers = h.round(ctx, h.all, h.set) {
			h.ask.sent++
		}
		return answers
	}
	var answers []redlock.Answer
	for _, node := range h.all {
		a := h.round(ctx, []int{node}, h.set)
		if answers = append(answers, a...); a[0].No() {
			break
		}
	}
	return answers
}

// round asks some nodes and waits for their answers.
func (h *hold) round(ctx context.Context, nodes []int, v vote) []redlock.Answer {
	return h.cfg.Ask(ctx, nodes, func(ctx context.Context, node int) (int64, error) { return v(ctx, h.Clients[node], h.ask) })
}

// takeHastily asks all and returns once enough have said yes, or once all have answered.
// What a node is asked next waits for its answer.
func (h *hold) takeHastily(ctx context.Context) []redlock.Answer {
	h.pending = make([]chan struct{}, len(h.all))
	came := make(chan redlock.Answer, len(h.all))
	for _, node := range h.all {
		done := make(chan struct{})
		h.pending[node] = done
		go func() {
			defer close(done)
			came <- h.round(context.WithoutCancel(ctx), []int{node}, h.set)[0]
		}()
	}
	answers := make([]redlock.Answer, len(h.all))
	for i := range answers {
		answers[i] = redlock.Answer{Node: i, Err: errSilent}
	}
	for range h.all {
		a := <-came
		if answers[a.Node] = a; h.quorum(answers) {
			break
		}
	}
	return answers
}

var errSilent = errors.New("no answer yet")

// drop gives back what was set, or may have been, on all nodes.
func (h *hold) drop(ctx context.Context) []redlock.Answer {
	ctx = context.WithoutCancel(ctx)
	nodes := h.all
	if h.chosen {
		nodes = h.granted
	}
	if h.pending == nil || h.chosen {
		return h.round(ctx, nodes, h.del)
	}
	answers := make([]redlock.Answer, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			<-h.pending[node]
			answers[i] = h.round(ctx, []int{node}, h.del)[0]
		})
	}
	all.Wait()
	return answers
}

func (h *hold) Release(ctx context.Context) error {
	if h.watch != nil {
		h.watch.end()
	}
	return h.outcome("release", h.drop(ctx))
}

func (h *hold) Extend(ctx context.Context) error {
	start := h.cfg.Now()
	if !start.Before(h.deadline) {
		return fmt.Errorf("extend %q: its deadline has passed", h.ask.key)
	}
	answers := h.round(ctx, h.all, h.extend)
	if err := h.outcome("extend", answers); err != nil {
		return err
	}
	if !h.cfg.Now().Before(h.deadline) {
		return fmt.Errorf("extend %q: it took too long", h.ask.key)
	}
	h.deadline = h.until(start)
	return nil
}

// outcome is what answers come to: a no is definite where the others can't make a quorum.
func (h *hold) outcome(op string, answers []redlock.Answer) error {
	could := make([]redlock.Answer, len(answers))
	for i, a := range answers {
		if could[i] = a; a.Err != nil {
			could[i] = redlock.Answer{Node: a.Node, Value: 1}
		}
	}
	switch {
	case h.quorum(answers):
		return nil
	case !h.quorum(could):
		return fmt.Errorf("%s %q: %w", op, h.ask.key, lock.ErrNotHeld)
	}
	return fmt.Errorf("%s %q: outcome unknown", op, h.ask.key)
}
