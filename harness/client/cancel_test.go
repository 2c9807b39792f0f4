package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"lockpick/harness/lock"
)

// waitingLock is a lock whose acquire returns either when its context is canceled, or at once.
type waitingLock struct {
	lease
	waits bool
	err   error
}

func (l *waitingLock) Close() error { return nil }

func (l *waitingLock) Acquire(ctx context.Context, _ string) (lock.Handle, error) {
	if l.waits {
		<-ctx.Done()
	}
	return &l.lease, l.err
}

// An acquire is recorded exactly once, whether or not it is canceled. A lock acquired in spite of
// the cancellation is released.
func TestLockAcquiredAfterCancelIsReleased(t *testing.T) {
	for _, row := range []struct {
		name   string
		cancel time.Duration
		lock   waitingLock
		holds  bool
		want   string
	}{
		{"no cancellation", 0, waitingLock{}, true, "0s invoke acquire; 0s ok acquire until 10s"},
		{"the acquire fails", time.Second, waitingLock{waits: true, err: errors.New("canceled")}, false, "0s invoke acquire; 1s fail acquire"},
		{"the acquire succeeds anyway", time.Second, waitingLock{waits: true}, false,
			"0s invoke acquire; 1s ok acquire until 10s; 1s invoke release; 1s ok release"},
	} {
		w := &fakeEnv{}
		row.lock.fakeEnv, row.lock.until = w, epoch.Add(10*time.Second)
		c := &section{program: &program{s: Spec{CancelAfter: row.cancel}, e: w.env(), lock: &row.lock, recordLock: make(chan struct{}, 1)}}
		holds := c.acquire(t.Context())
		if got := strings.Join(w.events, "; "); holds != row.holds || got != row.want {
			t.Errorf("%s: acquired %v, want %v\ngot  %s\nwant %s", row.name, holds, row.holds, got, row.want)
		}
	}
}

// heldLock is a lock that may know whether it is held.
type heldLock struct {
	lease
	held bool
	err  error
}

func (l *heldLock) Held(context.Context) (bool, error) { return l.held, l.err }

// If a lock says it is not held, it is recorded as lost. If it can't say, the client continues.
func TestClientAsksWhetherLockIsHeld(t *testing.T) {
	for _, row := range []struct {
		held   bool
		err    error
		want   bool
		events string
	}{{true, nil, true, ""}, {false, errors.New("no answer"), true, ""}, {false, nil, false, "0s info lost"}} {
		w := &fakeEnv{}
		c := &section{program: newProgram(Spec{}, w.env()), handle: &heldLock{held: row.held, err: row.err}}
		if got := c.stillHeld(t.Context()); got != row.want || strings.Join(w.events, "; ") != row.events {
			t.Errorf("lock says held %v, error %v: client continues %v, events %q", row.held, row.err, got, w.events)
		}
	}
}
