package redlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
)

// stoppableTimers provides timers that can be stopped. This simulates a stopped process, whose timers
// have not fired yet when it resumes.
type stoppableTimers struct{ stopped atomic.Bool }

func (d *stoppableTimers) after(wait time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	time.AfterFunc(wait, func() {
		if !d.stopped.Load() {
			fired <- time.Now()
		}
	})
	return fired
}

// lease returns a lease on a Locker whose timers have stopped firing.
func (d *stoppableTimers) lease(t *testing.T) (*redlock.Locker, *redlock.Lease) {
	l := locker(t, newCluster(3).granters(), func(cfg *redlock.Config) { cfg.After = d.after })
	s := lease(t, l)
	d.stopped.Store(true)
	t.Cleanup(func() { d.stopped.Store(false) }) // Close needs timers
	return l, s
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// After the deadline, every method of the context reports that the lease is over, even if no timer
// fires, and no matter when the context was first requested.
func TestContextFollowsClock(t *testing.T) {
	for name, ended := range map[string]func(context.Context) bool{
		"Err":              func(ctx context.Context) bool { return ctx.Err() != nil },
		"Done":             func(ctx context.Context) bool { return isClosed(ctx.Done()) },
		"Cause":            func(ctx context.Context) bool { return context.Cause(ctx) == redlock.ErrExpired },
		"Err of WithValue": func(ctx context.Context) bool { return context.WithValue(ctx, t, 1).Err() != nil },
	} {
		for _, inUse := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var d stoppableTimers
				_, s := d.lease(t)
				if inUse && ended(s.Context()) {
					t.Errorf("%s: the context ended immediately", name)
				}
				time.Sleep(s.Remaining() - 1)
				if inUse && ended(s.Context()) {
					t.Errorf("%s: the context ended before the deadline", name)
				}
				time.Sleep(1 * time.Nanosecond)
				if !ended(s.Context()) {
					t.Errorf("%s, in use before the deadline %v: the context did not end at the deadline", name, inUse)
				}
				ctx := s.Context()
				if !isClosed(ctx.Done()) || ctx.Err() != context.Canceled || context.Cause(ctx) != redlock.ErrExpired {
					t.Errorf("%s: Done is closed: %v, Err: %v, Cause: %v", name, isClosed(ctx.Done()), ctx.Err(), context.Cause(ctx))
				}
				s.Release(t.Context())
				if ctx.Err() != context.Canceled || context.Cause(ctx) != redlock.ErrExpired {
					t.Errorf("%s: after the release, Err: %v, Cause: %v", name, ctx.Err(), context.Cause(ctx))
				}
			})
		}
	}
}

// An extension moves the end of the context, but never revives a context that has ended.
func TestContextAndExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d stoppableTimers
		_, s := d.lease(t)
		ctx, first := s.Context(), s.Until()
		time.Sleep(5 * time.Second)
		if err := s.Extend(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(first))
		if ctx.Err() != nil {
			t.Error("the context ended at the first deadline")
		}
		time.Sleep(s.Remaining())
		if ctx.Err() == nil {
			t.Error("the context did not end at the second deadline")
		}
		if err := s.Extend(t.Context()); !errors.Is(err, redlock.ErrExpired) {
			t.Errorf("extension after the deadline: %v", err)
		}
	})
}

// An extension that was answered in time fails if a caller has seen the end of the lease before the
// extension could move the deadline. Otherwise the context would have ended although the lease
// continues.
func TestExtensionDoesNotReviveContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var current *redlock.Lease
		var readings, stopAt atomic.Int32
		l := locker(t, newCluster(3).granters(), func(cfg *redlock.Config) {
			cfg.Now = func() time.Time {
				now := time.Now()
				if readings.Add(1) == stopAt.Load() { // the process is stopped right after it has read the clock
					time.Sleep(current.Until().Sub(now))
					current.Context().Err()
				}
				return now
			}
		})
		current = lease(t, l)
		time.Sleep(time.Second)
		stopAt.Store(readings.Load() + 2) // the extension reads the clock at its start and after the answers
		if err := current.Extend(t.Context()); !errors.Is(err, redlock.ErrExpired) {
			t.Errorf("extension: %v, want ErrExpired", err)
		}
		if current.Context().Err() == nil || current.Remaining() > 0 {
			t.Errorf("lease has %v left, Err is %v", current.Remaining(), current.Context().Err())
		}
	})
}

// Observe is called before the lease's context is canceled. If the observer checks the context,
// however, it finds that the context has ended.
func TestContextHasEndedBeforeObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var current *redlock.Lease
		lost := 0
		l := locker(t, newCluster(3).granters(), func(cfg *redlock.Config) {
			cfg.Observe = func(e redlock.Event) {
				if e.Op != "lost" {
					return
				}
				lost++
				if ctx := current.Context(); ctx.Err() == nil || !isClosed(ctx.Done()) {
					t.Errorf("the loss was reported as %v, but Err is %v", e.Err, ctx.Err())
				}
			}
		})
		current = lease(t, l)
		<-current.Context().Done()
		if lost != 1 {
			t.Errorf("the loss was reported %d times, want once", lost)
		}
	})
}

// The context that Do passes to its function ends when the clock reaches the deadline, too.
func TestContextOfDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d stoppableTimers
		l := locker(t, newCluster(3).granters(), func(cfg *redlock.Config) { cfg.After = d.after })
		err := l.Do(t.Context(), "k", func(ctx context.Context) error {
			d.stopped.Store(true)
			time.Sleep(ttl)
			if ctx.Err() == nil || !isClosed(ctx.Done()) {
				t.Errorf("after the deadline, Err is %v", ctx.Err())
			}
			wantCause(t, ctx, redlock.ErrExpired)
			d.stopped.Store(false)
			return nil
		})
		wantKind(t, err, redlock.ErrExpired)
	})
}

// Derived contexts end with the lease, either by its timer or when the lease's own context is
// checked. They need no goroutines, which would keep the synctest bubble from ending.
func TestDerivedContexts(t *testing.T) {
	derive := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"WithCancel":  context.WithCancel,
		"WithTimeout": func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, ttl) },
		"long timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 10*ttl)
		},
		"WithValue, WithCancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(context.WithValue(ctx, t, 1))
		},
	}
	for name, from := range derive {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // by the timer
				s := lease(t, locker(t, newCluster(3).granters(), nil))
				ctx, cancel := from(s.Context())
				defer cancel()
				<-ctx.Done()
				if s.Remaining() != 0 || ctx.Err() != context.Canceled {
					t.Errorf("the context ended %v before the lease, Err is %v", s.Remaining(), ctx.Err())
				}
				wantCause(t, ctx, redlock.ErrExpired)
			})
			synctest.Test(t, func(t *testing.T) { // by checking the lease's context
				var d stoppableTimers
				_, s := d.lease(t)
				ctx, cancel := from(s.Context())
				defer cancel()
				ran := false
				context.AfterFunc(ctx, func() { ran = true })
				time.Sleep(s.Remaining())
				if ctx.Err() != nil { // otherwise the documentation of Lease.Context promises too little
					t.Errorf("the derived context ended without a check: %v", ctx.Err())
				}
				late, cancelLate := from(s.Context())
				defer cancelLate()
				for _, ctx := range []context.Context{late, ctx} {
					if !isClosed(ctx.Done()) || ctx.Err() != context.Canceled {
						t.Errorf("after the lease's context was checked, Err is %v", ctx.Err())
					}
					wantCause(t, ctx, redlock.ErrExpired)
				}
				if synctest.Wait(); !ran {
					t.Error("the function registered with AfterFunc did not run")
				}
			})
		})
	}
}

// A timeout on the lease's context works even if it ends after the original deadline of the lease.
func TestTimeoutOnLeaseContext(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 12 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := lease(t, locker(t, newCluster(3).granters(), func(cfg *redlock.Config) { cfg.Renew, cfg.MaxHold = 3*time.Second, time.Minute }))
			start := time.Now()
			ctx, cancel := context.WithTimeout(s.Context(), timeout)
			defer cancel()
			<-ctx.Done()
			if elapsed := time.Since(start); elapsed != timeout || ctx.Err() != context.DeadlineExceeded {
				t.Errorf("timeout %v: ended after %v, Err is %v", timeout, elapsed, ctx.Err())
			}
			if s.Context().Err() != nil {
				t.Error("the timeout ended the lease")
			}
			s.Release(t.Context())
		})
	}
}

// The lease's context has the values of the context passed to Acquire, but does not end with it.
func TestContextOfAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acquireCtx, cancel := context.WithCancel(context.WithValue(t.Context(), t, "value"))
		s, err := locker(t, newCluster(3).granters(), nil).Acquire(acquireCtx, "k")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if ctx := s.Context(); ctx.Err() != nil || ctx.Value(t) != "value" {
			t.Errorf("Err is %v, the value is %v", ctx.Err(), ctx.Value(t))
		}
	})
}

// Many goroutines check the context at the deadline while others extend and release the lock. A
// goroutine that has seen the end with one method sees it with all of them, and the end is
// permanent.
func TestConcurrentContextChecks(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := lease(t, locker(t, newCluster(3).granters(), nil))
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					time.Sleep(s.Remaining())
					if i == 0 {
						s.Extend(t.Context())
					}
					ctx := s.Context()
					if i%2 == 0 && ctx.Err() == nil || i%2 == 1 && !isClosed(ctx.Done()) {
						t.Error("the context did not end at the deadline")
					}
					if i == 1 {
						s.Release(t.Context())
					}
					if !isClosed(ctx.Done()) || ctx.Err() != context.Canceled || context.Cause(ctx) != redlock.ErrExpired {
						t.Errorf("Done is closed: %v, Err: %v, Cause: %v", isClosed(ctx.Done()), ctx.Err(), context.Cause(ctx))
					}
				})
			}
			wg.Wait()
		})
	}
}
