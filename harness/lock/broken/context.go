package broken

import (
	"context"
	"sync"
	"time"

	"lockpick/harness/lock"
)

var contextByTimer = mistake{Mistake{"context-by-timer",
	"ends its context by a timer that is set when the context is first asked for, and never by a look at the clock: asked after the deadline it has yet to end",
	"a context that nobody has asked for needs no timer; and the timer knows when to fire"},
	func(l *broken) {
		l.give = func(h *handle) lock.Handle {
			return &contexter{handle: h, until: h.deadline, wait: func(left time.Duration) time.Duration { return left }}
		}
	}}

var contextByTicker = mistake{Mistake{"context-by-ticker",
	"ends its context at a look at the deadline that it takes every three quarters of a TTL, so that the context outlives the lease",
	"a look now and then is cheaper than a timer for each lock, and the deadline is checked all the same"},
	func(l *broken) {
		l.give = func(h *handle) lock.Handle {
			return contextLoser{&contexter{handle: h, until: h.deadline, wait: func(time.Duration) time.Duration { return l.cfg.TTL * 3 / 4 }}}
		}
	}}

// contexter is a handle with a context that a goroutine ends.
type contexter struct {
	*handle
	wait func(left time.Duration) time.Duration // before the next look at the deadline

	mu    sync.Mutex
	until time.Time       // the deadline
	ctx   context.Context // nil until it is asked for
	end   context.CancelFunc
}

var _ lock.Contexter = (*contexter)(nil)

// Context implements lock.Contexter.
func (c *contexter) Context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ctx, c.end = context.WithCancel(context.Background())
		go c.watch(c.ctx, c.end)
	}
	return c.ctx
}

// watch ends the context once it finds the deadline past.
func (c *contexter) watch(ctx context.Context, end context.CancelFunc) {
	l := c.handle.lock
	left := func() time.Duration {
		c.mu.Lock()
		until := c.until
		c.mu.Unlock()
		return until.Sub(l.now())
	}
	for {
		select {
		case <-l.cfg.After(c.wait(left())):
		case <-ctx.Done():
			return
		case <-l.closed:
			return
		}
		if left() <= 0 {
			end()
			return
		}
	}
}

func (c *contexter) Extend(ctx context.Context) error {
	err := c.handle.Extend(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = c.handle.deadline
	return err
}

func (c *contexter) Release(ctx context.Context) error {
	c.mu.Lock()
	end := c.end
	c.mu.Unlock()
	if end != nil {
		end()
	}
	return c.handle.Release(ctx)
}

// contextLoser is a contexter whose holder listens to the context from the start.
type contextLoser struct{ *contexter }

var _ lock.Loser = contextLoser{}

// Lost implements lock.Loser.
func (c contextLoser) Lost() <-chan struct{} { return c.Context().Done() }
