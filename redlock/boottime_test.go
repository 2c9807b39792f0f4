package redlock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock/driver"
)

// suspendedClock keeps running during a simulated suspension, while time.Now stops.
type suspendedClock struct{ offset atomic.Int64 }

func (s *suspendedClock) now() time.Time                         { return time.Now().Add(time.Duration(s.offset.Load())) }
func (s *suspendedClock) after(d time.Duration) <-chan time.Time { return afterOnClock(s.now, d) }

func TestAfterOnClockDuringSuspension(t *testing.T) {
	for _, row := range []struct{ at, suspension, d, earliest, latest time.Duration }{
		{0, 0, 50 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond},
		{0, 0, 10 * time.Second, 10 * time.Second, 10 * time.Second},
		{0, 0, 0, 0, 0},
		{3100 * time.Millisecond, time.Hour, 10 * time.Second, 3100 * time.Millisecond, 3100*time.Millisecond + pollInterval},
		{3100 * time.Millisecond, 2 * time.Second, 10 * time.Second, 8 * time.Second, 8*time.Second + pollInterval},
	} {
		synctest.Test(t, func(t *testing.T) {
			var s suspendedClock
			start := time.Now()
			time.AfterFunc(row.at, func() { s.offset.Store(int64(row.suspension)) })
			<-s.after(row.d)
			if elapsed := time.Since(start); elapsed < row.earliest || elapsed > row.latest {
				t.Errorf("%+v: took %v", row, elapsed)
			}
		})
	}
}

// If the machine is suspended past the end of a lease, the lease is over when the machine wakes up.
// An acquire fails if the machine is suspended in the meantime.
func TestLeaseExpiresDuringSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s suspendedClock
		open := func(nodes ...Node) *Locker {
			l, err := New(Config{TTL: 10 * time.Second, Tries: 1, Nodes: nodes, Now: s.now, After: s.after})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			return l
		}
		lease, err := open(yesNode{}).Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		ctx := lease.Context()
		other, err := open(yesNode{}).Acquire(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		requested := other.Context()
		time.Sleep(time.Second)
		s.offset.Store(int64(time.Minute))
		if remaining := lease.Remaining(); remaining > 0 {
			t.Errorf("lease still has %v left after the suspension", remaining)
		}
		if err := lease.Extend(t.Context()); !errors.Is(err, ErrExpired) {
			t.Errorf("extension: %v", err)
		}
		wakeTime := time.Now()
		if requested.Err() == nil || other.Context().Err() == nil {
			t.Error("a context was still active right after the suspension")
		}
		<-ctx.Done()
		if delay := time.Since(wakeTime); delay > pollInterval || context.Cause(ctx) != ErrExpired {
			t.Errorf("the context ended %v after the suspension with cause %v", delay, context.Cause(ctx))
		}
		if _, err := open(suspendingNode{yesNode{}, &s}).Acquire(t.Context(), "k"); !errors.Is(err, ErrExpired) {
			t.Errorf("acquire: %v", err)
		}
	})
}

// suspendingNode suspends the machine before it answers.
type suspendingNode struct {
	yesNode
	s *suspendedClock
}

func (n suspendingNode) Submit(r *driver.Request) {
	n.s.offset.Add(int64(time.Minute))
	n.yesNode.Submit(r)
}

func TestBoottime(t *testing.T) {
	before, start := Boottime(), time.Now()
	<-BoottimeAfter(2 * time.Millisecond)
	if elapsed, minimum := Boottime().Sub(before), 2*time.Millisecond; elapsed < minimum || elapsed > time.Since(start)+time.Minute {
		t.Errorf("BoottimeAfter took %v, want about 2ms", elapsed)
	}
}
