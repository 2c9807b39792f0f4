package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"lockpick/redlock/script"
)

// debt is a release that the node has perhaps not got, though it may have got the set
// before it, and until when that can matter.
type debt struct {
	key, token string
	until      time.Duration
}

// maxDebts bounds what is remembered of a node that is away. Beyond it keys that stay
// behind live until they expire.
const maxDebts = 1 << 16

// undone remembers of a request that is answered by an error what is needed later: a
// release that is owed, or that a set was never sent, whose release then isn't.
func (n *Node) undone(e entry) {
	d, isRelease := e.release()
	if !isRelease {
		if e.r != nil && n.state != up && len(n.unsent) < maxDebts {
			n.unsent[e.r.Token] = struct{}{}
		}
		return
	}
	if _, ok := n.unsent[d.token]; ok {
		delete(n.unsent, d.token)
	} else if n.state != closed && len(n.debts) < maxDebts {
		n.debts = append(n.debts, d)
	}
}

// connect begins to make a connection. Whoever calls it holds the mutex.
func (n *Node) connect() {
	n.state = dialling
	n.running.Add(1)
	go func() {
		defer n.running.Done()
		for n.established() {
			select {
			case <-n.o.After(n.o.Timeout):
			case <-n.ctx.Done():
			}
			if !n.again() {
				return
			}
		}
	}()
}

// established makes a connection and serves it to its end. If there was none to be had
// it says so, and has told those who wait.
func (n *Node) established() (failed bool) {
	c, in, err := n.dial()
	now := n.now()
	n.mu.Lock()
	if n.state == closed {
		n.mu.Unlock()
		if c != nil {
			c.Close()
		}
		return false
	}
	waiting := n.pending
	n.pending = nil
	if err != nil {
		n.state, n.why = resting, fmt.Errorf("connect to %s: %w", n, err)
		for _, e := range waiting {
			n.undone(e)
		}
		err = n.why
		n.mu.Unlock()
		answer(waiting, err)
		return true
	}
	n.state, n.conn, n.raw, n.timer.silent = up, c, nil, 0
	if s, ok := c.(syscall.Conn); ok {
		n.raw, _ = s.SyscallConn()
	}
	clear(n.unsent)
	n.pay(now)
	for _, e := range waiting {
		n.add(e)
	}
	n.mu.Unlock()
	n.Flush()
	n.fail(c, n.read(in))
	return false
}

// pay puts the debts in front of all else.
func (n *Node) pay(now time.Duration) {
	for _, d := range n.debts {
		if d.until > now {
			n.add(entry{owed: &d, due: now + n.o.Timeout})
		}
	}
	n.debts = nil
	n.closeBatch()
	n.arm(now + n.o.Timeout)
}

// again says whether to try once more after a rest: only what is owed needs it, whoever
// else wants a connection asks for one.
func (n *Node) again() bool {
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == closed {
		return false
	}
	n.state = idle
	for _, d := range n.debts {
		if d.until > now {
			n.state = dialling
			return true
		}
	}
	n.debts = nil
	return false
}

func (n *Node) dial() (net.Conn, *replies, error) {
	ctx, cancel := context.WithTimeout(n.ctx, n.o.DialTimeout)
	defer cancel()
	c, err := n.o.Dial(ctx, n.network, n.o.Addr)
	if err != nil {
		return nil, nil, err
	}
	if n.o.TLS != nil {
		cfg := n.o.TLS.Clone()
		if cfg.ServerName == "" {
			cfg.ServerName, _, _ = net.SplitHostPort(n.o.Addr)
		}
		c = tls.Client(c, cfg)
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	in := &replies{c: c, buf: make([]byte, 32<<10)}
	if err := n.greet(ctx, in); err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, in, nil
}

// greet says who is there, makes the node know the scripts (if it won't keep them they are
// sent whole each time), and has it end the connection before this one: what that has still
// to be read of would come after what is sent here.
func (n *Node) greet(ctx context.Context, in *replies) error {
	var b []byte
	var must []string // what each of the first commands is, in an error
	if n.o.Password != "" || n.o.Username != "" {
		words := []string{"AUTH", n.o.Username, n.o.Password}
		if n.o.Username == "" {
			words = []string{"AUTH", n.o.Password}
		}
		b, must = command(b, words...), append(must, "AUTH")
	}
	if n.o.DB != 0 {
		b, must = command(b, "SELECT", strconv.Itoa(n.o.DB)), append(must, "SELECT")
	}
	if n.o.ClientName != "" {
		b, must = command(b, "CLIENT", "SETNAME", n.o.ClientName), append(must, "CLIENT SETNAME")
	}
	for _, s := range script.All {
		b = command(b, "SCRIPT", "LOAD", s.Text)
	}
	b = command(b, "CLIENT", "KILL", "ID", strconv.FormatInt(n.id, 10))
	b = command(b, "CLIENT", "ID")
	if _, err := in.c.Write(b); err != nil {
		return errors.Join(err, ctx.Err())
	}
	var r reply
	for i := range len(must) + len(script.All) + 2 {
		var err error
		switch r, err = in.next(); {
		case err != nil:
			return errors.Join(err, ctx.Err())
		case r.err != nil && i < len(must):
			return fmt.Errorf("%s: %w", must[i], r.err)
		}
	}
	n.id = r.value
	return nil
}

// fail gives c up, once, and answers all that was asked on it.
func (n *Node) fail(c net.Conn, err error) {
	n.mu.Lock()
	if n.conn != c {
		n.mu.Unlock()
		return
	}
	n.closeBatch()
	lost := n.waiting.rest()
	n.conn, n.raw, n.waiting, n.out = nil, nil, queue{}, nil
	for _, e := range lost {
		n.undone(e)
	}
	if n.state != closed {
		n.state = idle
		if len(n.debts) > 0 {
			n.connect()
		}
	}
	n.mu.Unlock()
	c.Close()
	answer(lost, err)
}

func answer(lost []entry, err error) {
	for _, e := range lost {
		if e.r != nil {
			e.r.To.Answered(e.r, 0, err)
		}
	}
}
