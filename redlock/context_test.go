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

// deadTimers gives a Locker timers that stop firing once they are told to, as those of a process
// that was stopped have not fired yet when it goes on.
type deadTimers struct{ dead atomic.Bool }

func (d *deadTimers) after(wait time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	time.AfterFunc(wait, func() {
		if !d.dead.Load() {
			fired <- time.Now()
		}
	})
	return fired
}

// locker's lease is held, and no timer of it will fire any more.
func (d *deadTimers) lease(t *testing.T) (*redlock.Locker, *redlock.Lease) {
	l := locker(t, newCluster(3).keepers(), func(cfg *redlock.Config) { cfg.After = d.after })
	s := lease(t, l)
	d.dead.Store(true)
	t.Cleanup(func() { d.dead.Store(false) }) // Close waits by timers
	return l, s
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Whoever asks after the deadline, whatever they ask and whenever the context was first requested,
// learns that the lease is over, though no timer fires.
func TestContextGoesByTheClock(t *testing.T) {
	for name, ended := range map[string]func(context.Context) bool{
		"Err":              func(ctx context.Context) bool { return ctx.Err() != nil },
		"Done":             func(ctx context.Context) bool { return closed(ctx.Done()) },
		"Cause":            func(ctx context.Context) bool { return context.Cause(ctx) == redlock.ErrExpired },
		"Err of WithValue": func(ctx context.Context) bool { return context.WithValue(ctx, t, 1).Err() != nil },
	} {
		for _, inUse := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var d deadTimers
				_, s := d.lease(t)
				if inUse && ended(s.Context()) {
					t.Errorf("%s: it ended at once", name)
				}
				time.Sleep(s.Remaining() - 1)
				if inUse && ended(s.Context()) {
					t.Errorf("%s: it ended before the deadline", name)
				}
				time.Sleep(1 * time.Nanosecond)
				if !ended(s.Context()) {
					t.Errorf("%s, requested before %v: at the deadline it has not ended", name, inUse)
				}
				ctx := s.Context()
				if !closed(ctx.Done()) || ctx.Err() != context.Canceled || context.Cause(ctx) != redlock.ErrExpired {
					t.Errorf("%s: then Done is closed %v, Err %v, Cause %v", name, closed(ctx.Done()), ctx.Err(), context.Cause(ctx))
				}
				s.Release(t.Context())
				if ctx.Err() != context.Canceled || context.Cause(ctx) != redlock.ErrExpired {
					t.Errorf("%s: a release changed that to %v, %v", name, ctx.Err(), context.Cause(ctx))
				}
			})
		}
	}
}

// An extension moves the end of the context, and none revives one that has ended.
func TestContextAndExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadTimers
		_, s := d.lease(t)
		ctx, first := s.Context(), s.Until()
		time.Sleep(5 * time.Second)
		if err := s.Extend(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(first))
		if ctx.Err() != nil {
			t.Error("it ended at the first deadline")
		}
		time.Sleep(s.Remaining())
		if ctx.Err() == nil {
			t.Error("it did not end at the second deadline")
		}
		if err := s.Extend(t.Context()); !errors.Is(err, redlock.ErrExpired) {
			t.Errorf("extended afterwards: %v", err)
		}
	})
}

// An extension that was answered in time is late all the same if, before it moves the deadline,
// somebody was told that the lease is over: else that one's context has ended and the lease goes on.
func TestExtensionDoesNotReviveAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held *redlock.Lease
		var readings, stopAt atomic.Int32
		l := locker(t, newCluster(3).keepers(), func(cfg *redlock.Config) {
			cfg.Now = func() time.Time {
				now := time.Now()
				if readings.Add(1) == stopAt.Load() { // the process is stopped when it has read the clock
					time.Sleep(held.Until().Sub(now))
					held.Context().Err()
				}
				return now
			}
		})
		held = lease(t, l)
		time.Sleep(time.Second)
		stopAt.Store(readings.Load() + 2) // one when the extension begins, one after the answers
		if err := held.Extend(t.Context()); !errors.Is(err, redlock.ErrExpired) {
			t.Errorf("it was extended: %v", err)
		}
		if held.Context().Err() == nil || held.Remaining() > 0 {
			t.Errorf("%v are left, and Err is %v", held.Remaining(), held.Context().Err())
		}
	})
}

// The end of a lease is reported before its context is told. Whoever asks in between, as the
// observer does here, is not told that the lease goes on.
func TestContextHasEndedWhenObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held *redlock.Lease
		lost := 0
		l := locker(t, newCluster(3).keepers(), func(cfg *redlock.Config) {
			cfg.Observe = func(e redlock.Event) {
				if e.Op != "lost" {
					return
				}
				lost++
				if ctx := held.Context(); ctx.Err() == nil || !closed(ctx.Done()) {
					t.Errorf("it was reported as %v, and Err is %v", e.Err, ctx.Err())
				}
			}
		})
		held = lease(t, l)
		<-held.Context().Done()
		if lost != 1 {
			t.Errorf("its end was reported %d times", lost)
		}
	})
}

// The context of Do's work goes by the clock, too.
func TestContextOfDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadTimers
		l := locker(t, newCluster(3).keepers(), func(cfg *redlock.Config) { cfg.After = d.after })
		err := l.Do(t.Context(), "k", func(ctx context.Context) error {
			d.dead.Store(true)
			time.Sleep(ttl)
			if ctx.Err() == nil || !closed(ctx.Done()) {
				t.Errorf("after the deadline Err is %v", ctx.Err())
			}
			wantCause(t, ctx, redlock.ErrExpired)
			d.dead.Store(false)
			return nil
		})
		wantKind(t, err, redlock.ErrExpired)
	})
}

// Derived contexts end with the lease: by its timer, or as soon as anybody asks the lease's own
// context. None needs a goroutine; a bubble would not end with one left.
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
				s := lease(t, locker(t, newCluster(3).keepers(), nil))
				ctx, cancel := from(s.Context())
				defer cancel()
				<-ctx.Done()
				if s.Remaining() != 0 || ctx.Err() != context.Canceled {
					t.Errorf("it ended %v before the lease, Err is %v", s.Remaining(), ctx.Err())
				}
				wantCause(t, ctx, redlock.ErrExpired)
			})
			synctest.Test(t, func(t *testing.T) { // by whoever asks
				var d deadTimers
				_, s := d.lease(t)
				ctx, cancel := from(s.Context())
				defer cancel()
				ran := false
				context.AfterFunc(ctx, func() { ran = true })
				time.Sleep(s.Remaining())
				if ctx.Err() != nil { // if it had, the doc of Lease.Context promised too little
					t.Errorf("it ended by itself: %v", ctx.Err())
				}
				late, cancelLate := from(s.Context())
				defer cancelLate()
				for _, ctx := range []context.Context{late, ctx} {
					if !closed(ctx.Done()) || ctx.Err() != context.Canceled {
						t.Errorf("once the lease's context was asked, Err is %v", ctx.Err())
					}
					wantCause(t, ctx, redlock.ErrExpired)
				}
				if synctest.Wait(); !ran {
					t.Error("AfterFunc's function did not run")
				}
			})
		})
	}
}

// A timeout of one's own counts, also if it is beyond the deadline that the lease had at first.
func TestTimeoutWithinALease(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 12 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := lease(t, locker(t, newCluster(3).keepers(), func(cfg *redlock.Config) { cfg.Renew, cfg.MaxHold = 3*time.Second, time.Minute }))
			begin := time.Now()
			ctx, cancel := context.WithTimeout(s.Context(), timeout)
			defer cancel()
			<-ctx.Done()
			if took := time.Since(begin); took != timeout || ctx.Err() != context.DeadlineExceeded {
				t.Errorf("a timeout of %v: ended after %v, %v", timeout, took, ctx.Err())
			}
			if s.Context().Err() != nil {
				t.Error("that ended the lease")
			}
			s.Release(t.Context())
		})
	}
}

// The end of the context that a lease was acquired with does not end the lease's; its values are there.
func TestContextOfTheAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		within, cancel := context.WithCancel(context.WithValue(t.Context(), t, "value"))
		s, err := locker(t, newCluster(3).keepers(), nil).Acquire(within, "k")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if ctx := s.Context(); ctx.Err() != nil || ctx.Value(t) != "value" {
			t.Errorf("Err is %v, the value %v", ctx.Err(), ctx.Value(t))
		}
	})
}

// Many ask at the deadline, while others extend and release: whoever sees the end by one way sees
// it by all, and nobody sees it undone.
func TestContextAskedByMany(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := lease(t, locker(t, newCluster(3).keepers(), nil))
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					time.Sleep(s.Remaining())
					if i == 0 {
						s.Extend(t.Context())
					}
					ctx := s.Context()
					if i%2 == 0 && ctx.Err() == nil || i%2 == 1 && !closed(ctx.Done()) {
						t.Error("at the deadline it has not ended")
					}
					if i == 1 {
						s.Release(t.Context())
					}
					if !closed(ctx.Done()) || ctx.Err() != context.Canceled || context.Cause(ctx) != redlock.ErrExpired {
						t.Errorf("Done is closed %v, Err %v, Cause %v", closed(ctx.Done()), ctx.Err(), context.Cause(ctx))
					}
				})
			}
			all.Wait()
		})
	}
}
