package sim

import (
	"context"
	"fmt"
	"net"
	"time"
)

// dial connects the client to the server at an address: one round trip, which
// hangs while the link is cut. A server that is down, or that the client is not
// meant to reach, refuses.
func (h *host) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.to(h, addr)
	if l == nil {
		return nil, fmt.Errorf("dial %s: no such server in the simulation", addr)
	}
	h.gate(l.up.slot)
	if h.killed {
		return nil, net.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := l.newConn()
	c.up.send(&message{deliver: func() { l.server.accept(c) }})
	return c.dialing(ctx)
}

// dialing waits for the server's answer, or for the context's end. An answer at
// the very instant of the deadline is taken, but as late as the deadline would
// be heeded, for which of the two wakes the dialler first is open.
func (c *conn) dialing(ctx context.Context) (net.Conn, error) {
	n := c.net
	n.mu.Unlock()
	var err error
	select {
	case err = <-c.dialed:
		if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
			c.host.nap(c.down.dir.slot)
		}
	case <-ctx.Done():
		c.host.nap(c.down.dir.slot)
		select {
		case err = <-c.dialed: // it was quicker after all
		default:
			err = ctx.Err()
		}
	}
	n.mu.Lock()
	c.host.gate(c.down.dir.slot)
	if err == nil && !c.host.killed {
		return c, nil
	}
	if c.host.killed {
		return nil, net.ErrClosed
	}
	if !c.closed {
		c.shut()
		c.nudge()
		if c.err == nil {
			c.finish()
		}
	}
	c.retire()
	return nil, c.failure("dial", err)
}

// answerDial ends the dial, unless something else did.
func (c *conn) answerDial(err error) {
	c.answered.Store(true)
	c.host.own.in(func() {
		select {
		case c.dialed <- err:
		default:
		}
	})
}
