package proc

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Timeline is the true time of one run and what is done in it.
type Timeline struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	ahead  atomic.Int64 // of TrueClock is the clock that it goes by
	origin atomic.Int64 // true time zero, by that clock

	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup
}

// NewTimeline makes one whose context ends with ctx, or when it is stopped.
func NewTimeline(ctx context.Context) *Timeline {
	t := &Timeline{}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// Context ends with the run.
func (t *Timeline) Context() context.Context { return t.ctx }

// GoBy lets it go by the clock of another machine, which is so far ahead of this one's.
// It is called before Begin.
func (t *Timeline) GoBy(ahead time.Duration) { t.ahead.Store(int64(ahead)) }

func (t *Timeline) clock() time.Duration { return TrueClock() + time.Duration(t.ahead.Load()) }

// Begin makes this instant true time zero.
func (t *Timeline) Begin() { t.origin.Store(int64(t.clock())) }

// Origin is true time zero, by TrueClock of the machine by whose clock it goes.
func (t *Timeline) Origin() time.Duration { return time.Duration(t.origin.Load()) }

// Now is true time since the run began.
func (t *Timeline) Now() time.Duration { return t.clock() - t.Origin() }

// Fail ends the context for a reason, and so the run.
func (t *Timeline) Fail(err error) { t.cancel(err) }

// Go calls f in a goroutine that Wait waits for; once stopped it does not.
func (t *Timeline) Go(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.tasks.Go(f)
	}
}

// At calls f at a true time, unless the run ends before.
func (t *Timeline) At(at time.Duration, f func()) {
	t.Go(func() {
		timer := time.NewTimer(at - t.Now())
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.ctx.Done():
			return
		}
		if t.ctx.Err() == nil { // both may have been due
			f()
		}
	})
}

// Stop ends the context, and lets nothing new begin.
func (t *Timeline) Stop() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel(nil)
}

// taskBound is how long what was begun may still run when the run ends.
const taskBound = 5 * time.Second

// Wait waits for what was begun, after Stop.
func (t *Timeline) Wait() error {
	done := make(chan struct{})
	go func() { t.tasks.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(taskBound):
		return Late(fmt.Sprintf("end the run: a function given to At or Tap still runs after %v", taskBound))
	}
}
