package redlock

import (
	"context"
	"time"
)

// Context ends when the lease does, whatever its holder or its nodes are doing: at the deadline
// (its cause is ErrExpired), before it if a majority says that the lock is lost (ErrLost), and
// with Release (ErrReleased) and Locker.Close (ErrClosed). It has the values of the context that
// the lease was acquired with, but does not end with that one.
//
// The clock that Until and Remaining go by decides, not a timer. Once that clock shows the
// deadline, Err returns an error and Done a closed channel, even if Context is called only then,
// or the process was stopped past the deadline and no timer has fired yet. So a holder may ask
// either of them before it acts. A holder that waits for Done to close is woken by a timer, which
// can be late.
//
// A context derived with WithCancel, WithTimeout or WithDeadline can't ask the clock: package
// context tells it only when the lease's context is found to have ended, by the timer or by
// anybody's call of Err or Done. Until then, for example in the first instant after the process
// was stopped past the deadline, its Err is nil. The same holds for functions registered with
// AfterFunc. Before acting on the lock, ask the context that Context returns (or one made of it by
// WithValue, which asks it), or Remaining. A context that is derived after the deadline has ended
// from the start.
//
// Err is context.Canceled whatever the reason; context.Cause tells it. Deadline reports none,
// since extensions move the lease's deadline: WithTimeout and WithDeadline would drop their own
// deadline for one that moves past it. The deadline is Until.
func (s *Lease) Context() context.Context {
	s.mu.Lock()
	if s.ctx == nil {
		c := &leaseContext{lease: s}
		c.Context, c.end = context.WithCancelCause(context.WithoutCancel(s.within))
		s.ctx = c
		if s.cause == nil && !s.locker.watch.add(s, s.until) {
			s.cause = ErrClosed
		}
	}
	ctx := s.ctx
	s.mu.Unlock()
	ctx.update()
	return ctx
}

// leaseContext is a context that ends with its lease. Before it answers, it asks the lease's clock.
type leaseContext struct {
	context.Context // one of package context, so that derived contexts attach to it without a goroutine
	lease           *Lease
	end             context.CancelCauseFunc // ends Context
}

func (c *leaseContext) Done() <-chan struct{} {
	c.update()
	return c.Context.Done()
}

func (c *leaseContext) Err() error {
	c.update()
	return c.Context.Err()
}

// update ends the context if the lease is over.
func (c *leaseContext) update() {
	if c.Context.Err() != nil {
		return
	}
	// The clock is read while no mutex is held: the clock of a simulation may block.
	if cause := c.lease.ended(c.lease.locker.cfg.Now()); cause != nil {
		c.end(cause) // also where another goroutine found out first and has yet to get that far
	}
}

// ended returns why the lease is over, or nil. It is over if its deadline has passed at now.
func (s *Lease) ended(now time.Time) error {
	s.mu.Lock()
	expired := s.cause == nil && !now.Before(s.until)
	if expired {
		s.cause = ErrExpired
	}
	cause := s.cause
	s.mu.Unlock()
	if expired {
		s.finish(cause)
	}
	return cause
}

// over ends the lease, unless it is over already.
func (s *Lease) over(cause error) {
	s.mu.Lock()
	first := s.cause == nil
	if first {
		s.cause = cause
	}
	s.mu.Unlock()
	if first {
		s.finish(cause)
	}
}

// finish reports the end of the lease, unless its holder asked for it, and ends its context.
func (s *Lease) finish(cause error) {
	if cause != ErrReleased {
		s.locker.observe(Event{Type: Info, Op: "lost", Key: s.key, Token: s.token, Err: cause})
	}
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	if ctx != nil {
		s.locker.watch.remove(s)
		ctx.end(cause)
	}
}
