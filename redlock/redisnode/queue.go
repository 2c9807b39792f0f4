package redisnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock/driver"
)

// pipeliner is a Client that can send several commands together, as those of go-redis can.
type pipeliner interface{ Pipeline() redis.Pipeliner }

// queue limits the exchanges with a node to atOnce. Commands beyond that wait, and those that wait are sent together
// in one pipeline. With a connection for each command, many goroutines would all miss their time-outs on a busy
// machine or a slow node. Each miss costs a connection, and making new ones leaves no time for locks.
type queue struct {
	mu      sync.Mutex
	asked   int // exchanges under way
	waiting []*waiter
}

// waiter is a command that waits to be sent, and then for its answer.
type waiter struct {
	ctx  context.Context
	cmd  redis.Cmder
	gone bool // its caller gave up
	sent bool
	done chan struct{}
}

const (
	atOnce   = 8  // exchanges; a few goroutines never wait
	together = 64 // commands in one exchange; bounds how long a node is busy with one
)

// process has the node carry out a command.
func (n *Node) process(ctx context.Context, cmd redis.Cmder) error {
	p, ok := n.client.(pipeliner)
	if !ok {
		return driver.Advise(n.client.Process(ctx, cmd))
	}
	w := n.queue.enter(ctx, cmd)
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

// enter returns nil if the caller may send the command now.
func (q *queue) enter(ctx context.Context, cmd redis.Cmder) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked < atOnce {
		q.asked++
		return nil
	}
	w := &waiter{ctx: ctx, cmd: cmd, done: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	return w
}

// leave gives up waiting, and returns the error to report. The caller must not touch the command again, for
// it may be under way.
func (q *queue) leave(w *waiter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.gone = true
	if w.sent {
		return w.ctx.Err()
	}
	return fmt.Errorf("%w: %w", driver.ErrNotSent, w.ctx.Err())
}

// next ends an exchange, and returns the commands of the next one, or nil.
func (q *queue) next() (batch []*waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 && len(batch) < together {
		w := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		if !w.gone {
			w.sent = true
			batch = append(batch, w)
		}
	}
	if batch == nil {
		q.asked--
	}
	return batch
}

// send sends batches until nobody waits.
func (q *queue) send(p pipeliner, batch []*waiter) {
	for ; batch != nil; batch = q.next() {
		var latest time.Time
		pipe := p.Pipeline()
		for _, w := range batch {
			if d, ok := w.ctx.Deadline(); ok && d.After(latest) {
				latest = d
			}
			pipe.Process(w.ctx, w.cmd) // only queues it
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
