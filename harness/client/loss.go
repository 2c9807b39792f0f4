package client

import (
	"context"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// loss is what a lock tells its holder of, unasked. Nil is that of a lock that doesn't.
type loss struct {
	lost   <-chan struct{}
	known  context.Context // ended: that it is lost is recorded
	cancel context.CancelFunc
	stop   chan struct{}
	done   chan struct{}
}

// belief is how long the holder believes, which a lock may change that extends by itself.
type belief struct {
	mu    sync.Mutex
	until time.Time
}

func (b *belief) set(until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = until
}

// deadline is by the client's own clock; zero: there is none.
func (b *belief) deadline() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until
}

// listen waits for the lock's word until it is given back, and records it when it comes: that it
// is lost, or that the library has extended it.
func (c *section) listen(ctx context.Context) {
	var lost, renewed <-chan struct{}
	if h, tells := c.handle.(lock.Loser); tells {
		lost = h.Lost()
	}
	if h, tells := c.handle.(lock.Renewer); tells {
		renewed = h.Renewed()
	}
	if lost == nil && renewed == nil {
		return
	}
	l := &loss{lost: lost, stop: make(chan struct{}), done: make(chan struct{})}
	l.known, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(l.done)
		for {
			select {
			case <-renewed:
				c.emit(c.event(history.Invoke, history.OpExtend))
				c.emit(c.believe(history.OpExtend, c.handle.Deadline()))
				continue
			case <-lost:
				c.emit(c.event(history.Info, history.OpLost))
				l.cancel()
			case <-l.stop:
			case <-ctx.Done():
			}
			return
		}
	}()
	c.loss = l
}

// heeded is a context that ends with the lock, for a client that looks.
func (l *loss) heeded(ctx context.Context, blind bool) context.Context {
	if l == nil || blind {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(l.known, cancel)
	return ctx
}

// told says whether the lock is known to be lost, once that is recorded.
func (l *loss) told() bool {
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

// ignore ends the listening: to give a lock back may look like losing it.
func (l *loss) ignore() {
	if l == nil {
		return
	}
	close(l.stop)
	<-l.done
}
