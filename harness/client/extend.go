package client

import (
	"context"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// hold works for a time, and extends the lock every so often if the workload
// says so. It answers false if there is nothing to go on working for: the lock
// is lost, or the client looked at its deadline and it has passed. The time that
// extensions take comes on top.
func (c *section) hold(ctx context.Context, d time.Duration) bool {
	if c.s.Extend == 0 {
		c.sleep(ctx, d)
		return true
	}
	for {
		step := min(d, c.s.Extend)
		if deadline := c.own.deadline(); !c.s.NoCheck && !deadline.IsZero() {
			left := deadline.Sub(c.clock())
			if left <= 0 {
				if !c.check() {
					return false
				}
				continue // the clock stepped back between the two looks at it
			}
			step = min(step, left)
		}
		c.sleep(ctx, step)
		if d -= step; d <= 0 || ctx.Err() != nil {
			return true
		}
		if step == c.s.Extend && !c.extend(ctx) {
			return false
		}
	}
}

// extend answers false if the lock is definitely lost. After any other failure,
// a limit among them, it is held until its old deadline, and the next try may
// succeed.
func (c *section) extend(ctx context.Context) bool {
	c.emit(c.event(history.Invoke, history.OpExtend))
	if err := c.handle.(lock.Extender).Extend(ctx); err != nil {
		c.fail(refused(err), history.OpExtend, err)
		return refused(err) != history.Fail
	}
	c.emit(c.believe(history.OpExtend, c.handle.Deadline()))
	return true
}
