package redlock

import (
	"context"
	"sync"
	"time"
)

// Lock is what a client holds after a quorum granted it. It may be used by
// several goroutines at once.
type Lock struct {
	client     *Client
	key, token string
	fence      int64
	votes      int

	mu      sync.Mutex // never held while nodes are asked
	until   time.Time
	extends int // tried so far
}

// Key is the name of what is locked.
func (l *Lock) Key() string { return l.key }

// Token is the random value that the key has on the nodes.
func (l *Lock) Token() string { return l.token }

// Votes is the number of nodes that granted it.
func (l *Lock) Votes() int { return l.votes }

// Fence is the fencing token, above that of every earlier holder of the key; 0
// without Config.Fence.
func (l *Lock) Fence() int64 { return l.fence }

// Until is the deadline, by the clock of Config.Now, at which the holder must
// have stopped. A failed Extend does not move it.
func (l *Lock) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Extend moves the deadline to a TTL, less drift, from its start, if a quorum
// still has the key and moves its expiry, all within the validity that the lock
// has. It never sets a key that is gone. The kinds of its errors are ErrLost,
// ErrNoQuorum, ErrExpired, ErrLimit and ErrCancelled; whichever it is, the lock
// is valid until its old deadline, except after ErrLost.
func (l *Lock) Extend(ctx context.Context) error {
	c := l.client
	fail := Error{Op: "extend", Key: l.key}
	if ctx.Err() != nil {
		return cancelled(ctx, fail)
	}
	start := c.cfg.Now()
	if fail.Kind = l.admit(start); fail.Kind != nil {
		return &fail
	}
	answers := c.ask(ctx, c.all, Request{Op: OpExtend, Key: l.key, Token: l.token, Terms: Terms{TTL: c.cfg.TTL}})
	end := c.cfg.Now()

	kind := c.standing(Count(answers))
	if kind == nil {
		kind = l.prolong(start, end)
	}
	if kind == nil {
		return nil
	}
	failed := c.failure(fail.Op, l.key, kind, answers)
	if kind == ErrNoQuorum && ctx.Err() != nil {
		return cancelled(ctx, *failed)
	}
	return failed
}

// admit says whether an extension may be tried, and counts it.
func (l *Lock) admit(start time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !start.Before(l.until):
		return ErrExpired
	case l.extends >= l.client.cfg.Extends:
		return ErrLimit
	}
	l.extends++
	return nil
}

// prolong moves the deadline, if an extension that a quorum agreed to ended in time.
func (l *Lock) prolong(start, end time.Time) error {
	cfg := l.client.cfg
	l.mu.Lock()
	defer l.mu.Unlock()
	if !end.Before(l.until) || Validity(cfg.TTL, end.Sub(start), cfg.drift()) <= 0 {
		return ErrExpired
	}
	if until := start.Add(cfg.TTL - cfg.drift()); until.After(l.until) {
		l.until = until
	}
	return nil
}

// Release gives the lock back on all nodes, also on those that never granted
// it. Nil means that at least a quorum had it and let it go. ErrLost means that
// at least a quorum did not have it; ErrNoQuorum that nobody knows. It does its
// work even if ctx has ended, within the nodes' time-out. No more of the lock
// should be believed once it is called.
func (l *Lock) Release(ctx context.Context) error {
	c := l.client
	answers := c.release(ctx, l.key, l.token)
	if kind := c.standing(Count(answers)); kind != nil {
		return c.failure("release", l.key, kind, answers)
	}
	return nil
}

// standing reads answers about a lock that was held: nil if a quorum had it,
// ErrLost if so many did not have it that no quorum can, else ErrNoQuorum.
func (c *Client) standing(t Tally) error {
	switch quorum := Quorum(len(c.all)); {
	case t.Yes >= quorum:
		return nil
	case t.No >= quorum:
		return ErrLost
	}
	return ErrNoQuorum
}
