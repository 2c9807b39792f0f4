package sim

import (
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"lockpick/harness/resp"
	"lockpick/harness/sim/node"
	"lockpick/nemesis"
)

// conn is a TCP connection: as net.Conn the client's end of it, and what the
// server knows of it. One goroutine may read at a time, any number write.
type conn struct {
	reader   // on the host that dialled
	net      *network
	link     *link
	number   int64 // on its link, from 1
	up, down flow
	stream   *resp.Stream
	settled  bool // the commands without an answer are recorded
	session  *node.Session
	orphan   bool // the server's machine lost its power, and with it what it knew of the connection
	unheard  bool // likewise, and the client sent something since

	dialed   chan error  // how the dial ended
	answered atomic.Bool // the dial has ended
	buf      []byte      // received, not read yet
	err      error       // what Read answers after that: the server ended the connection
	closed   bool        // the client did
	writeBy  time.Time
}

var (
	_ net.Conn     = (*conn)(nil)
	_ syscall.Conn = (*conn)(nil)
)

func (l *link) newConn() *conn {
	l.dialled++
	c := &conn{net: l.net, link: l, number: l.dialled, stream: resp.NewStream(&l.net.scripts), dialed: make(chan error, 1),
		reader: reader{host: l.host, slot: l.down.slot, notify: make(chan struct{}, 1)}}
	c.up = flow{conn: c, dir: &l.up}
	c.down = flow{conn: c, dir: &l.down}
	l.conns = append(l.conns, c)
	return c
}

// Write sends b; it never blocks but for a pause of the client, or, where it fails, for an instant.
func (c *conn) Write(b []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.host.gate(c.up.dir.slot)
	if err := c.cannotSend(); err != nil {
		c.net.mu.Unlock()
		c.host.nap(c.up.dir.slot) // errors of one instant would come in any order
		c.net.mu.Lock()
		c.host.gate(c.up.dir.slot)
		return 0, err
	}
	sent := c.net.now()
	m := &message{size: len(b), sent: sent, commands: c.stream.Request(b, sent), wrong: c.stream.Wrong()}
	m.locks = lockCommand(m.commands)
	if c.link.server != c.net.resource {
		b = c.net.tokens.note(b, m.commands)
	}
	m.content = sum(b)
	c.link.match(m, nemesis.Request, m.commands)
	c.up.send(m)
	return m.size, nil
}

// cannotSend is why nothing can be sent; nil: it can.
func (c *conn) cannotSend() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.err != nil:
		return c.failure("write", syscall.EPIPE)
	case !c.writeBy.IsZero() && time.Now().After(c.writeBy):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Read prefers data to a deadline that has passed. A deadline takes effect
// strictly after its nominal instant, on the connection's own slot: go-redis
// gives a connection the very deadline of its context, and of two timers at one
// instant the runtime fires either first.
func (c *conn) Read(b []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for {
		c.host.gate(c.down.dir.slot)
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case len(c.buf) > 0:
			n := copy(b, c.buf)
			c.buf = append(c.buf[:0], c.buf[n:]...)
			return n, nil
		case c.err != nil:
			return 0, c.err
		case c.expired():
			return 0, os.ErrDeadlineExceeded
		}
		c.wait()
	}
}

// SyscallConn serves those who look at a connection before they use it again, as go-redis does.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return look{c}, nil }

// look is a connection to those who look whether its other end has ended, without taking anything.
type look struct{ conn *conn }

// Read returns how the connection ended, if there is nothing left to read. Who asks is no gate:
// looks are taken under mutexes.
func (l look) Read(func(fd uintptr) (done bool)) error {
	c := l.conn
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case len(c.buf) == 0:
		return c.err
	}
	return nil
}

func (l look) Control(func(fd uintptr)) error           { return errors.ErrUnsupported }
func (l look) Write(func(fd uintptr) (done bool)) error { return errors.ErrUnsupported }

// Close sends what was written before, and then the end. A client that is
// stopped sends it once it goes on.
func (c *conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.shut()
	c.nudge()
	later := waiter{c.up.dir.slot, c.finish}
	switch h := c.host; {
	case h.killed:
		c.finish()
	case h.early():
		h.catchUp(later)
	case h.paused:
		h.waiters = append(h.waiters, later)
	default:
		c.finish()
	}
	return nil
}

// shut closes the client's end.
func (c *conn) shut() {
	c.closed, c.buf = true, nil
}

// finish tells the server that the client's end is closed. A pool closes its
// connections at one instant and in the order of a map, so the ends leave an
// instant later, in the order in which the connections were dialled.
func (c *conn) finish() {
	l := c.link
	c.up.queue = append(c.up.queue, &message{deliver: func() { l.server.finished(c) }})
	l.ending = append(l.ending, c)
	if len(l.ending) == 1 {
		c.net.at(l.up.slot, c.net.now()+1, l.sendEnds)
	}
}

func (l *link) sendEnds() {
	slices.SortFunc(l.ending, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
	for _, c := range l.ending {
		end := c.up.queue[len(c.up.queue)-1]
		c.up.depart(end, l.net.latency(&l.up, end.content))
	}
	l.ending = nil
}

// leave ends what the server knows of the connection.
func (c *conn) leave() {
	if c.session != nil {
		c.session.Close()
		c.session = nil
	}
}

// received takes what the server sent.
func (c *conn) received(m *message) {
	if !c.closed {
		for _, cmd := range m.commands {
			cmd.Answered = c.net.now()
		}
		c.buf = append(c.buf, m.payload...)
	}
	c.net.record(c.link, m.commands) // before the client can act on it
	c.wake()
	c.retire()
}

// ended takes the end that the server made: io.EOF or ECONNRESET.
func (c *conn) ended(err error) {
	c.net.record(c.link, c.unanswered())
	if !errors.Is(err, io.EOF) {
		err = c.failure("read", err)
	}
	if c.err == nil {
		c.err = err
	}
	c.wake()
	c.retire()
}

// unanswered returns the commands without an answer, once.
func (c *conn) unanswered() []*resp.Command {
	if c.settled {
		return nil
	}
	c.settled = true
	return c.stream.Waiting()
}

// open returns, once, the commands of a link whose answers were not delivered.
func (l *link) open() []*resp.Command {
	var open []*resp.Command
	for _, c := range l.conns {
		for _, m := range c.down.queue {
			open = append(open, m.commands...)
		}
		open = append(open, c.unanswered()...)
	}
	return open
}

// retire forgets a connection that both ends are done with.
func (c *conn) retire() {
	if (c.closed || c.err != nil) && c.session == nil && len(c.up.queue) == 0 && len(c.down.queue) == 0 {
		c.link.conns = slices.DeleteFunc(c.link.conns, func(o *conn) bool { return o == c })
	}
}

func (c *conn) failure(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func (c *conn) LocalAddr() net.Addr  { return c.host.addr }
func (c *conn) RemoteAddr() net.Addr { return c.link.server.addr }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetWriteDeadline(t), c.SetReadDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.readBy = t
	c.nudge()
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.writeBy = t
	return nil
}
