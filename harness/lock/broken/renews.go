package broken

import (
	"context"
	"sync"

	"lockpick/harness/lock"
)

var renewsOn = mistake{Mistake{"renews-after-failed-release",
	"renews its keys by itself until a release succeeds, so that one without an answer ends nothing",
	"the release failed, so the lock is still held and has to be kept"},
	func(l *broken) {
		l.give = func(h *handle) lock.Handle {
			r := &renewing{handle: h, over: make(chan struct{})}
			go r.renew()
			return r
		}
	}}

// renewing is a handle whose keys are renewed in the background. Its deadline stays as it is.
type renewing struct {
	*handle
	over    chan struct{}
	release sync.Once
}

func (r *renewing) Release(ctx context.Context) error {
	err := r.handle.Release(ctx)
	if err == nil {
		r.release.Do(func() { close(r.over) })
	}
	return err
}

// renew renews the keys three times in a TTL, until the lock is released or its client is gone.
func (r *renewing) renew() {
	l := r.handle.lock
	for {
		select {
		case <-r.over:
			return
		case <-l.closed:
			return
		case <-l.cfg.After(l.cfg.TTL / 3):
		}
		l.ask(context.Background(), l.all, func(ctx context.Context, node int) (int64, error) {
			return l.extend(ctx, node, r.key, r.value)
		})
	}
}
