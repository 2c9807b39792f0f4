package client

import (
	"context"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// loss is what a lock tells its holder of, unasked. Nil is that of a lock that doesn't.
type loss struct {
	known  context.Context // ended: it is lost
	cancel context.CancelFunc
	stop   chan struct{}
	done   chan struct{}
}

// listen waits for the lock's word until it is given back, and records it when it comes.
func (c *section) listen(ctx context.Context) {
	h, tells := c.handle.(lock.Loser)
	if !tells {
		return
	}
	lost := h.Lost()
	l := &loss{stop: make(chan struct{}), done: make(chan struct{})}
	l.known, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(l.done)
		select {
		case <-lost:
			l.cancel()
			c.emit(c.event(history.Info, history.OpLost))
		case <-l.stop:
		case <-ctx.Done():
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

// told says whether the lock is known to be lost.
func (l *loss) told() bool { return l != nil && l.known.Err() != nil }

// ignore ends the listening: to give a lock back may look like losing it.
func (l *loss) ignore() {
	if l == nil {
		return
	}
	close(l.stop)
	<-l.done
}
