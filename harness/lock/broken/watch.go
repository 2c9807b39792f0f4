package broken

import (
	"context"
	"errors"
	"sync"
	"time"

	"lockpick/harness/lock"
)

var tellsLate = mistake{Mistake{"tells-late",
	"names no deadline, extends itself, and tells its holder of a loss only when a node says so: while none answers it says nothing",
	"no answer is no news: the key may well be there"},
	func(l *broken) {
		l.current = func(*handle, time.Time) bool { return true }
		l.give = func(h *handle) lock.Handle {
			w := &watched{handle: h, lost: make(chan struct{}), over: make(chan struct{})}
			go w.watch()
			return w
		}
	}}

// watched is a handle that extends itself and has a signal in place of a deadline.
type watched struct {
	*handle
	lost, over chan struct{}
	release    sync.Once
}

var _ lock.Loser = (*watched)(nil)

// Deadline implements lock.Handle: there is none.
func (w *watched) Deadline() time.Time { return time.Time{} }

func (w *watched) Lost() <-chan struct{} { return w.lost }

func (w *watched) Release(ctx context.Context) error {
	w.release.Do(func() { close(w.over) })
	return w.handle.Release(ctx)
}

// watch extends the lock three times in a TTL, until it is given back or a quorum has said no.
func (w *watched) watch() {
	l := w.handle.lock
	for {
		select {
		case <-w.over:
			return
		case <-l.closed:
			return
		case <-l.cfg.After(l.cfg.TTL / 3):
		}
		w.handle.extends = 0 // no limit is for these
		if err := w.handle.Extend(context.Background()); errors.Is(err, lock.ErrNotHeld) {
			close(w.lost)
			return
		}
	}
}
