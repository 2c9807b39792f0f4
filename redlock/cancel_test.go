package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
)

var errShutdown = errors.New("shutting down")

// cancelAfter returns a context that is canceled after d with cause errShutdown.
func cancelAfter(d time.Duration) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(d, func() { cancel(errShutdown) })
	return ctx
}

func wantCanceled(t *testing.T, err error) *redlock.Error {
	t.Helper()
	if !errors.Is(err, errShutdown) || !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v; want it to wrap the context's cause and error", err)
	}
	return wantKind(t, err, redlock.ErrCanceled)
}

func TestCancelDuringRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.setFault("set", stepFault{delay: 40 * time.Millisecond}, 3, 4)
		start := time.Now()
		_, err := c.client(t, nil).Acquire(cancelAfter(20*time.Millisecond), "k")
		wantCanceled(t, err)
		if got := time.Since(start); got != 20*time.Millisecond {
			t.Errorf("canceled after 20ms, but took %v", got)
		}
		// The keys must be cleaned up although the context has ended.
		if n := c.numHolders("k", c.log.rowsFor("set")[0].token); n != 0 || len(c.log.rowsFor("release")) != 5 {
			t.Errorf("%d keys are left after %d releases, want 0 after 5", n, len(c.log.rowsFor("release")))
		}
	})
}

func TestCancelDuringWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.take("k", 0, 1, 2)
		client := c.client(t, func(cfg *redlock.Config) { cfg.Tries, cfg.RetryMin, cfg.RetryMax = 0, time.Hour, time.Hour })
		start := time.Now()
		_, err := client.Acquire(cancelAfter(time.Second), "k")
		if e := wantCanceled(t, err); e.Tries != 1 || len(e.Nodes) != 3 {
			t.Errorf("%d tries and %d node errors, want 1 and 3", e.Tries, len(e.Nodes))
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("canceled after 1s, but took %v", got)
		}
	})
}

func TestCanceledBeforeAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := acquire(t, c.client(t, nil))
		numRequests := len(c.log.rows)
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errShutdown)
		client := c.client(t, func(cfg *redlock.Config) {
			cfg.Now = func() time.Time { t.Error("the clock was read"); return time.Now() }
		})
		_, err := client.Acquire(ctx, "k")
		wantCanceled(t, err)
		wantCanceled(t, l.Extend(ctx))
		if got := len(c.log.rows); got != numRequests {
			t.Errorf("%d requests after the context was canceled", got-numRequests)
		}
	})
}

// A node's timeout must not look like the caller's.
func TestNodeTimeoutIsNotCallersTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		late := func(d time.Duration) <-chan time.Time { return time.After(2 * d) } // so that the drivers' deadline comes first
		c.setFault("set", stepFault{delay: time.Hour}, 0, 1, 2)
		_, err := c.client(t, func(cfg *redlock.Config) { cfg.After = late }).Acquire(context.Background(), "k")
		e := wantKind(t, err, redlock.ErrNoQuorum)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Error("the error looks like an error from the caller's context")
		}
		if !errors.Is(e.Nodes[0].Err, context.DeadlineExceeded) {
			t.Errorf("node error: %v, want the driver's error", e.Nodes[0].Err)
		}
	})
}

func TestReleaseDespiteCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		l := acquire(t, c.client(t, nil))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := l.Release(ctx); err != nil {
			t.Error(err)
		}
		if n := c.numHolders("k", l.Token()); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}
