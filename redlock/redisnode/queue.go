package redisnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock/driver"
)

// pipeliner is a Client that can send several commands together, as go-redis clients can.
type pipeliner interface{ Pipeline() redis.Pipeliner }

// queue limits the number of concurrent exchanges with a node to maxExchanges. Further commands
// wait, and waiting commands are sent together in one pipeline. If each command had its own
// connection, many goroutines would all miss their timeouts on a busy machine or a slow node. Each
// missed timeout costs a connection, and opening new connections would leave no time for locks.
type queue struct {
	mu        sync.Mutex
	numActive int // exchanges in progress
	waiting   []*waiter
}

// waiter is a command that waits to be sent, then for its reply.
type waiter struct {
	ctx       context.Context
	cmd       redis.Cmder
	abandoned bool // the caller gave up
	sent      bool
	done      chan struct{}
}

const (
	maxExchanges = 8  // concurrent exchanges; if there are only a few goroutines, no command waits
	maxBatch     = 64 // commands per exchange; limits how long one exchange occupies a node
)

func (n *Node) process(ctx context.Context, cmd redis.Cmder) error {
	p, ok := n.client.(pipeliner)
	if !ok {
		return driver.Advise(n.client.Process(ctx, cmd))
	}
	w := n.queue.admit(ctx, cmd)
	if w == nil {
		err := n.client.Process(ctx, cmd)
		if next := n.queue.next(); next != nil {
			go n.queue.send(p, next)
		}
		return driver.Advise(err)
	}
	select {
	case <-w.done:
		return driver.Advise(cmd.Err())
	case <-ctx.Done():
		return n.queue.leave(w)
	}
}

// admit returns nil if the caller may send the command now. Otherwise it queues the command and
// returns its waiter.
func (q *queue) admit(ctx context.Context, cmd redis.Cmder) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.numActive < maxExchanges {
		q.numActive++
		return nil
	}
	w := &waiter{ctx: ctx, cmd: cmd, done: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	return w
}

// leave stops waiting and returns the error to report. The caller must no longer use the command,
// because it may be in progress.
func (q *queue) leave(w *waiter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.abandoned = true
	if w.sent {
		return w.ctx.Err()
	}
	return fmt.Errorf("%w: %w", driver.ErrNotSent, w.ctx.Err())
}

// next ends an exchange and returns the commands for the next one, or nil.
func (q *queue) next() (batch []*waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 && len(batch) < maxBatch {
		w := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		if !w.abandoned {
			w.sent = true
			batch = append(batch, w)
		}
	}
	if batch == nil {
		q.numActive--
	}
	return batch
}

// send sends batches until no commands are waiting.
func (q *queue) send(p pipeliner, batch []*waiter) {
	for ; batch != nil; batch = q.next() {
		var latest time.Time
		pipe := p.Pipeline()
		for _, w := range batch {
			if d, ok := w.ctx.Deadline(); ok && d.After(latest) {
				latest = d
			}
			pipe.Process(w.ctx, w.cmd) // only queues the command
		}
		ctx, cancel := context.Background(), func() {}
		if !latest.IsZero() {
			ctx, cancel = context.WithDeadline(ctx, latest)
		}
		pipe.Exec(ctx) // each command has its own error
		cancel()
		for _, w := range batch {
			close(w.done)
		}
	}
}
