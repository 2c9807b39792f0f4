package client

import (
	"context"
	"slices"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// again acquires the lock that it holds as often as the workload says, works for a time, and
// gives each of them back. It answers false if there is nothing to go on working for.
//
//	acquire   acquire again         release one            release
//	   |==========|=====================|=====================|
//	              extend                extend
//
// There is one hold, from the first acquire to the last release, and what comes between is an
// extension of it to the judges: a yes says that it is held, and until when. So a lock that
// lets go at the first of its releases is one whose holder believes in what another has.
func (c *section) again(ctx context.Context, d time.Duration) bool {
	var inner []lock.Handle
	going := true
	for n := 0; going && n < c.s.Reenter; n++ {
		var h lock.Handle
		if h, going = c.enter(ctx); h != nil {
			inner = append(inner, h)
		}
	}
	going = going && c.hold(c.loss.heeded(ctx, c.s.NoCheck), d)
	for _, h := range slices.Backward(inner) {
		if !c.leave(ctx, h) {
			going = false
		}
	}
	return going
}

// enter acquires what it holds. It need not wait for that, so it gives up when its lease is
// over; what comes later is another hold, if any, of which nobody knows since when.
func (c *section) enter(ctx context.Context) (_ lock.Handle, going bool) {
	over := func() bool {
		deadline := c.own.deadline()
		return c.loss.told() || !deadline.IsZero() && !c.clock().Before(deadline)
	}
	if over() {
		return nil, c.s.NoCheck || c.check()
	}
	deadline := c.own.deadline()
	e := c.event(history.Invoke, history.OpExtend)
	e.Value = history.OpAcquire
	c.emit(e)
	within, cancel := c.within(ctx, c.patience())
	defer cancel()
	h, err := c.lock.Acquire(within, c.key)
	switch {
	case err != nil:
		c.fail(refused(err), history.OpExtend, err)
		return nil, refused(err) != history.Fail
	case over():
		e.Type, e.Cause = history.Info, "it was acquired when the lease was over"
		c.emit(e)
		return h, false
	}
	if h.Deadline().After(deadline) {
		deadline = h.Deadline()
	}
	e = c.believe(history.OpExtend, deadline)
	e.Value = history.OpAcquire
	c.emit(e)
	return h, true
}

// leave gives back one of several.
func (c *section) leave(ctx context.Context, h lock.Handle) (going bool) {
	e := c.event(history.Invoke, history.OpExtend)
	e.Value = history.OpRelease
	c.emit(e)
	if err := h.Release(ctx); err != nil {
		c.fail(refused(err), history.OpExtend, err)
		return refused(err) != history.Fail
	}
	e = c.believe(history.OpExtend, c.own.deadline())
	e.Value = history.OpRelease
	c.emit(e)
	return true
}
