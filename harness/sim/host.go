package sim

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/nemesis"
)

// host is the machine of one client. While it is paused, everything that its
// program does to the world or sees of it waits at a gate: it blocks, rather
// than being queued, or a retry loop would run through its tries in a pause. That
// gives only executions that a real pause can give, since the world knows a
// process by its messages alone. A gate blocks, so a program must not call the
// functions of its Env, or use a connection, under a mutex that others wait for.
type host struct {
	net     *network
	name    string
	addr    *net.TCPAddr
	slot    slot
	clocks  clocks
	own     *own     // bubble; nil: the program runs in that of the run
	ahead   []waiter // what true time has yet to come to, where the bubble is its own
	timers  []*timer // that have not fired, in the order in which they were set
	started bool
	paused  bool
	killed  bool
	ended   bool               // its program has returned
	hung    bool               // it was told to stop, and never did
	waiters []waiter           // what goes on when the pause ends
	cancel  context.CancelFunc // of the program's context
	dead    chan struct{}      // closed when it is killed
}

// waiter is something that a pause keeps from happening.
type waiter struct {
	slot slot
	f    func()
}

// env is the world as the client's program sees it; Lock is left to the caller.
func (h *host) env(at func(point string)) client.Env {
	return client.Env{
		Dial:  h.dial,
		Now:   func() time.Time { return h.read(h.clocks.monotonic) },
		Wall:  func() time.Time { return h.read(h.clocks.wall) },
		After: h.after,
		True: func() time.Duration {
			h.pass()
			return time.Duration(h.net.now())
		},
		Emit: h.emit,
		At: func(point string) {
			if !h.pass() {
				return
			}
			if h.own == nil {
				h.net.settle()
			} else {
				h.nap(h.slot)
			}
			if h.pass() {
				h.own.stopAt(at, point)
				h.pass()
			}
		},
	}
}

// gate waits while the host is paused, or ahead of true time. The network's mutex
// is held before and after.
func (h *host) gate(s slot) {
	for !h.killed && (h.paused || h.early()) {
		open := make(chan struct{})
		w := waiter{s, func() { h.own.in(func() { close(open) }) }}
		if h.early() {
			h.catchUp(w)
		} else {
			h.waiters = append(h.waiters, w)
		}
		h.net.mu.Unlock()
		<-open
		h.net.mu.Lock()
	}
}

// pass is gate without the mutex, and reports whether the host is alive.
func (h *host) pass() (alive bool) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.gate(h.slot)
	return !h.killed
}

// whenRunning calls f now, or when the pause is over.
func (h *host) whenRunning(s slot, f func()) {
	if h.paused && !h.killed {
		h.waiters = append(h.waiters, waiter{s, f})
		return
	}
	f()
}

func (h *host) emit(e history.Event) {
	if h.pass() {
		h.own.call(func() {
			h.net.mu.Lock()
			defer h.net.mu.Unlock()
			h.net.tell(e)
		})
	}
}

// resume ends a pause. What waited goes on one thing after the other, a quantum
// apart, in the order of slots and then of arrival, each on its own slot.
func (h *host) resume() (released int) {
	h.paused = false
	waiters := h.waiters
	h.waiters = nil
	slices.SortStableFunc(waiters, func(a, b waiter) int { return int(a.slot - b.slot) })
	now := h.net.now()
	for i, w := range waiters {
		h.net.at(w.slot, now+1+int64(i)*quantum, func() { h.whenRunning(w.slot, w.f) })
	}
	return len(waiters)
}

// kill ends the program without warning. Its goroutines are left to unwind:
// whatever they do from now on has no effect and doesn't wait.
func (h *host) kill() (closed int) {
	if h.killed {
		return 0
	}
	h.killed = true
	waiters := slices.Concat(h.waiters, h.ahead)
	h.waiters, h.ahead = nil, nil
	closed = h.hangUp()
	close(h.dead)
	for _, w := range waiters {
		w.f()
	}
	if h.cancel != nil {
		h.cancel()
	}
	return closed
}

// over is why nothing can be done to the client any more; nil: it lives, or is still to start.
func (h *host) over() error {
	switch {
	case h.killed:
		return fmt.Errorf("it was killed: %w", nemesis.ErrEnded)
	case h.ended:
		return nemesis.ErrEnded
	}
	return nil
}

// hangUp closes all connections, as the end of a process does.
func (h *host) hangUp() (closed int) {
	for _, c := range h.net.conns(h, nil) {
		if c.closed {
			continue
		}
		closed++
		c.shut()
		c.wake()
		c.answerDial(net.ErrClosed)
		if c.err == nil {
			c.finish()
		}
	}
	return closed
}
