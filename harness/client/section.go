package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// section is one critical section: an acquire and everything done with its handle.
type section struct {
	*program
	key, session string
	handle       lock.Handle
	lease        leaseDeadline
	useWall      bool // deadlines are measured by the client's wall clock, not its monotonic clock
	token        string
	fence        int64
	version      int64      // the resource's version in its latest reply
	loss         *lossWatch // nil if the lock doesn't report losses
	fatalErr     error      // why the client can't continue with this lock
}

func (c *section) acquire(ctx context.Context) bool {
	c.emit(c.event(history.Invoke, history.OpAcquire))
	if c.s.CancelAfter > 0 {
		var cancel context.CancelFunc
		ctx, cancel = c.withTimeout(ctx, c.s.CancelAfter)
		defer cancel()
	}
	c.setAcquiring(true)
	h, err := c.lock.Acquire(ctx, c.key)
	c.setAcquiring(false)
	if err != nil {
		c.fail(history.Fail, history.OpAcquire, err)
		return false
	}
	c.handle = h
	if w, ok := h.(lock.WallClockHandle); ok {
		c.useWall = w.ByWall()
	}
	e := c.adoptDeadline(history.OpAcquire, h.Deadline())
	if t, ok := h.(lock.Tokener); ok {
		c.token = t.Token()
	}
	if f, ok := h.(lock.Fencer); ok {
		c.fence = f.Fence()
	}
	e.Token, e.Fence = c.token, c.fence
	c.emit(e)
	if c.s.CancelAfter > 0 && ctx.Err() != nil { // the client no longer wants the lock
		c.release(context.WithoutCancel(ctx))
		return false
	}
	return true
}

// withTimeout returns a context that is canceled after d, measured by the client's clock.
func (c *section) withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := c.e.After(d)
	go func() {
		select {
		case <-timer:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// adoptDeadline adopts a deadline returned by an acquire or an extension, and returns the event to
// record.
func (c *section) adoptDeadline(op string, deadline time.Time) history.Event {
	// Read true time first: a pause between the two readings may make the recorded deadline too
	// early, but never too late.
	trueTime, localTime := int64(c.e.TrueTime()), c.clock()
	c.lease.set(deadline)
	e := c.event(history.OK, op)
	e.T, e.Local, e.WallClock = trueTime, localTime.UnixNano(), c.useWall
	if !deadline.IsZero() {
		e.ValidUntil = trueTime + int64(deadline.Sub(localTime))
	}
	return e
}

// clock reads the clock to which the deadline refers.
func (c *section) clock() time.Time {
	if c.useWall {
		return c.e.WallNow()
	}
	return c.e.Now()
}

func (c *section) work(ctx context.Context, hold time.Duration) {
	if !c.read(ctx) {
		return
	}
	if c.s.Reentries > 0 {
		hold /= 2
		if !c.reenter(ctx, hold) {
			return
		}
	}
	if !c.hold(c.loss.cancelOnLoss(ctx, c.s.NoCheck), hold) {
		return
	}
	for n := 1; n <= max(c.s.Writes, 1); n++ {
		if !c.s.NoCheck && (!c.stillHeld(ctx) || !c.check()) {
			return
		}
		c.sleep(ctx, c.s.PrepareTime.Draw(Random(c.s.Seed, c.session, "prepare", strconv.Itoa(n))))
		c.atPoint(betweenCheckAndWrite)
		if !c.write(ctx, n) {
			return
		}
	}
}

func (c *section) read(ctx context.Context) bool {
	e := c.event(history.Invoke, history.OpRead)
	e.Fence = c.fence
	c.emit(e)
	a, err := c.resource.send(ctx, readScript, c.entry(c.session+":read"), c.replyTimeout())
	if err != nil {
		c.fail(history.Info, history.OpRead, err)
		return false
	}
	c.version, c.fence = a.version, a.fence
	e.Type, e.Version, e.Fence = a.outcome(), c.version, c.fence
	c.emit(e)
	return a.allowed
}

// stillHeld asks the lock, or its context, whether the lock is held, if possible. If the answer is
// no, it records a loss.
func (c *section) stillHeld(ctx context.Context) bool {
	held, err := true, error(nil)
	switch h := c.handle.(type) {
	case lock.ContextHandle:
		held = h.Context().Err() == nil
	case lock.HeldChecker:
		held, err = h.Held(ctx)
	}
	if held || err != nil || c.loss.notified() { // check reports a loss that has already been recorded
		return true
	}
	e := c.event(history.Info, history.OpLost)
	e.Cause = "asked, the lock says that it is not held"
	c.emit(e)
	return false
}

// check compares the client's clock with its deadline, as the algorithm requires before each access
// to the resource. If the lock has a context, the context decides.
func (c *section) check() bool {
	notified := c.loss.notified() // must come before reading the clock, because it waits until the loss is recorded
	unlock := c.lockRecord()
	trueTime, localTime := int64(c.e.TrueTime()), c.clock()
	deadline := c.lease.deadline()
	e := c.event(history.OK, history.OpCheck)
	e.T, e.Local, e.WallClock = trueTime, localTime.UnixNano(), c.useWall
	switch {
	case notified:
		e.Type, e.Cause = history.Fail, "the lock has told of its loss"
	case !deadline.IsZero() && !localTime.Before(deadline):
		if c.confirmedByContext() {
			unlock()
			return c.check() // with the new deadline
		}
		e.Type, e.Cause = history.Fail, fmt.Sprintf("the lease ended %v ago", localTime.Sub(deadline))
	}
	c.emitLocked(e)
	unlock()
	return e.Type == history.OK
}

// confirmedByContext reports whether the lock's context says that the lock is still held although
// its deadline has passed. If so, the client adopts a new deadline, far enough in the future to
// wait for a reply from the resource. To the checker this is an extension, because the lock has
// confirmed the hold.
func (c *section) confirmedByContext() bool {
	h, ok := c.handle.(lock.ContextHandle)
	if !ok || h.Context().Err() != nil {
		return false
	}
	c.emitLocked(markExtension(c.event(history.Invoke, history.OpExtend), history.OpCheck))
	c.emitLocked(markExtension(c.adoptDeadline(history.OpExtend, c.clock().Add(c.replyTimeout())), history.OpCheck))
	return true
}

func (c *section) write(ctx context.Context, n int) bool {
	en := c.entry(fmt.Sprintf("%s:write%d", c.session, n))
	e := c.event(history.Invoke, history.OpWrite)
	e.Value, e.Version, e.Fence = en.value, en.version, en.fence
	c.emit(e)
	a, err := c.resource.send(ctx, writeScript, en, c.replyTimeout())
	if err != nil {
		c.fail(history.Info, history.OpWrite, err)
		return false
	}
	e.Type, e.T = a.outcome(), 0
	c.emit(e)
	c.version = a.version
	return a.allowed
}

func (c *section) release(ctx context.Context) {
	c.loss.close()
	c.emit(c.event(history.Invoke, history.OpRelease))
	if err := c.handle.Release(ctx); err != nil {
		c.fail(failureType(err), history.OpRelease, err)
		return
	}
	c.emit(c.event(history.OK, history.OpRelease))
}

// failureType returns the event type for a failed release or extension: Fail if the lock is
// definitely not held, Info if this is unknown.
func failureType(err error) history.Type {
	if errors.Is(err, lock.ErrNotHeld) {
		return history.Fail
	}
	return history.Info
}

// replyTimeout returns how long the client waits for a reply from the resource: the rest of the
// lease, or a TTL if the lease is already over or has no deadline.
func (c *section) replyTimeout() time.Duration {
	deadline := c.lease.deadline()
	if remaining := deadline.Sub(c.clock()); !deadline.IsZero() && remaining > 0 {
		return remaining
	}
	return c.s.Lock.TTL
}

func (c *section) entry(value string) entry {
	token := c.token
	if token == "" && c.s.Fence == FenceCheckSet { // the lock has no token; any unique claim will do
		token = c.session
	}
	return entry{key: c.key, value: value, session: c.session, token: token, version: c.version, fence: c.fence}
}

// markExtension marks e as an extension that was made by another operation; see history.OpExtend.
func markExtension(e history.Event, op string) history.Event {
	e.Value = op
	return e
}

func (c *section) event(t history.Type, op string) history.Event {
	return history.Event{Type: t, Op: op, Key: c.key, Session: c.session}
}

func (c *section) fail(t history.Type, op string, err error) {
	if errors.Is(err, lock.ErrBroken) {
		c.fatalErr = err
	}
	e := c.event(t, op)
	e.Cause = err.Error()
	c.emit(e)
}

func (a answer) outcome() history.Type {
	if a.allowed {
		return history.OK
	}
	return history.Fail
}

// hold works for d, and extends the lock at the workload's interval. It returns false if continuing
// would be pointless, because the lock is lost or a check showed that the deadline has passed. The
// time spent on extensions does not count toward d.
func (c *section) hold(ctx context.Context, d time.Duration) bool {
	if c.s.ExtendInterval == 0 {
		c.sleep(ctx, d)
		return true
	}
	for {
		step := min(d, c.s.ExtendInterval)
		if deadline := c.lease.deadline(); !c.s.NoCheck && !deadline.IsZero() {
			remaining := deadline.Sub(c.clock())
			if remaining <= 0 {
				if !c.check() {
					return false
				}
				continue // the clock stepped back between the two readings
			}
			step = min(step, remaining)
		}
		c.sleep(ctx, step)
		if d -= step; d <= 0 || ctx.Err() != nil {
			return true
		}
		if step == c.s.ExtendInterval && !c.extend(ctx) {
			return false
		}
	}
}

// extend returns false if the lock is definitely lost. After any other failure, such as reaching a
// limit on extensions, the lock is held until its old deadline, and the next extension may succeed.
func (c *section) extend(ctx context.Context) bool {
	c.emit(c.event(history.Invoke, history.OpExtend))
	if err := c.handle.(lock.Extender).Extend(ctx); err != nil {
		c.fail(failureType(err), history.OpExtend, err)
		return failureType(err) != history.Fail
	}
	c.recordExtension(c.handle.Deadline(), "")
	return true
}

// recordExtension adopts a deadline and records an extension. op names the operation that returned
// the deadline, unless it was an extension.
func (c *section) recordExtension(deadline time.Time, op string) {
	defer c.lockRecord()()
	c.emitLocked(markExtension(c.adoptDeadline(history.OpExtend, deadline), op))
}

// lossWatch waits until a lock notifies its holder that the lock is lost. It is nil for locks that
// never do.
type lossWatch struct {
	lost        <-chan struct{}
	recordedCtx context.Context // canceled when the loss is recorded
	cancel      context.CancelFunc
	stopped     chan struct{}
	done        chan struct{}
}

// leaseDeadline is the deadline until which the client considers itself the holder. It needs a
// mutex because a library that extends the lock changes it in another goroutine.
type leaseDeadline struct {
	mu    sync.Mutex
	until time.Time
}

func (b *leaseDeadline) set(until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = until
}

// deadline returns the deadline on the client's clock, or zero if there is none.
func (b *leaseDeadline) deadline() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until
}

// watchLoss starts recording what the lock reports until it is released: that it has been lost, or
// extended by its library.
func (c *section) watchLoss(ctx context.Context) {
	var lost, renewed <-chan struct{}
	if h, ok := c.handle.(lock.LossNotifier); ok {
		lost = h.Lost()
	}
	if h, ok := c.handle.(lock.RenewalNotifier); ok {
		renewed = h.Renewed()
	}
	if lost == nil && renewed == nil {
		return
	}
	l := &lossWatch{lost: lost, stopped: make(chan struct{}), done: make(chan struct{})}
	l.recordedCtx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(l.done)
		for {
			select {
			case <-renewed:
				c.emit(c.event(history.Invoke, history.OpExtend))
				c.recordExtension(c.handle.Deadline(), "")
				continue
			case <-lost:
				c.emit(c.event(history.Info, history.OpLost))
				l.cancel()
			case <-l.stopped:
			case <-ctx.Done():
			}
			return
		}
	}()
	c.loss = l
}

// cancelOnLoss returns a context that is canceled when the lock is lost, unless ignoreLoss is set.
func (l *lossWatch) cancelOnLoss(ctx context.Context, ignoreLoss bool) context.Context {
	if l == nil || ignoreLoss {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(l.recordedCtx, cancel)
	return ctx
}

// notified reports whether the lock has notified the client of its loss. If so, it waits until the
// loss is recorded.
func (l *lossWatch) notified() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.lost:
		<-l.done
		return true
	default:
		return false
	}
}

// close stops the watch. It must be called before a release, because releasing a lock may look like
// losing it.
func (l *lossWatch) close() {
	if l == nil {
		return
	}
	close(l.stopped)
	<-l.done
}
