package shapes

import (
	"context"
	"time"

	"lockpick/harness/lock"
)

// watch extends a hold by itself until it is given back or lost.
type watch struct {
	lost, stop, done chan struct{}
}

// watched is a hold that tells of its loss.
type watched struct{ *hold }

var _ lock.Loser = watched{}

func (w watched) Lost() <-chan struct{} { return w.hold.watch.lost }

func (w *watch) end() {
	close(w.stop)
	<-w.done
}

// spare is the share of a lease that a watchdog leaves unused, so that a holder who is paused
// for less learns of the loss before another has the lock.
const spare = 0.4

// renewed extends a hold that was asked for at an instant, every so often. It is lost where a
// node says so, and where none has said anything for most of the lease.
func (h *hold) renewed(asked time.Time) *watch {
	w := &watch{lost: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{})}
	until := func(asked time.Time) time.Time { return h.until(asked).Add(-time.Duration(spare * float64(h.cfg.TTL))) }
	every := h.cfg.TTL * h.renew / 100
	go func() {
		defer close(w.done)
		for end, next := until(asked), every; ; {
			select {
			case <-w.stop:
				return
			case <-h.env.After(min(next, end.Sub(h.cfg.Now()))):
			}
			start := h.cfg.Now()
			if !start.Before(end) {
				close(w.lost)
				return
			}
			switch a := h.round(context.Background(), h.all, h.extend)[0]; {
			case a.No():
				close(w.lost)
				return
			case a.Yes():
				end, next = until(start), every
			default:
				next = min(every, h.cfg.Timeout)
			}
		}
	}()
	return w
}
