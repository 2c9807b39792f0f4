package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	_ "unsafe" // for go:linkname

	"lockpick/harness/history"
	"lockpick/harness/resp"
	"lockpick/harness/sim/node"
	"lockpick/nemesis"
)

// The one-way latency of a message is between minLatency and minLatency+latencySpread.
const (
	minLatency    = 200 * time.Microsecond
	latencySpread = time.Millisecond
)

// Latency returns the minimum and the maximum one-way latency of a message.
func Latency() (least, most time.Duration) { return minLatency, minLatency + latencySpread }

// network holds all machines and the links between them.
//
//	host c1 ── link c1-n1 ──► server n1
//	           │ up: direction, slot 0
//	           │ down: direction, slot 1
//	           └ conns, each with a flow up and a flow down
type network struct {
	*timeline
	seed    uint64
	scripts resp.Scripts

	// mu guards everything below and everything in hosts, servers, links and conns. It is held
	// while an action runs and while an event is recorded, but never while a function of a client
	// or of the engine runs.
	mu  sync.Mutex
	rec *history.Recorder // nil once the run has ended
	linkSet
	hosts    []*host
	servers  []*server
	resource *server                  // also the last of servers
	preserve func(history.Event) bool // reports whether to suppress a key event; may be nil
	tokens   tokens
	eventBuf []history.Event // buffer for the command that is being recorded
}

// drawKey returns a hash of the seed, the link and its direction, the instant and the content.
// Messages that agree in all of these are numbered. So it doesn't matter which of two goroutines
// sends first at the same instant. All random values of a message are drawn from this hash.
func (n *network) drawKey(d *direction, content uint64) uint64 {
	now := n.now()
	if now != d.instant {
		d.instant, d.seen = now, d.seen[:0]
	}
	var k uint64
	for _, c := range d.seen {
		if c == content {
			k++
		}
	}
	d.seen = append(d.seen, content)
	return mix(n.seed, d.drawKey, uint64(now), content, k)
}

// latency returns the latency of a message with this draw key.
func latency(key uint64) int64 { return int64(minLatency) + int64(key%uint64(latencySpread)) }

func (n *network) latency(d *direction, content uint64) int64 { return latency(n.drawKey(d, content)) }

// digest returns a hash of everything sent, with send and delivery times. Within a direction it
// doesn't depend on the order in which messages were added.
func (n *network) digest() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	var d uint64
	for _, l := range n.links {
		d = mix(d, l.up.digest, l.down.digest)
	}
	for _, s := range n.servers {
		for _, r := range []*replica{s.replica, s.promoted} {
			if r != nil {
				d = mix(d, r.digest)
			}
		}
	}
	return d
}

// recordEvent records an event, unless the run is over.
func (n *network) recordEvent(e history.Event) {
	if n.rec != nil {
		e.Token = n.tokens.placeholder(e.Token)
		n.rec.Record(e)
	}
}

func (n *network) recordCommands(l *link, commands []*resp.Command) {
	for _, c := range commands {
		if !c.IsRecorded() {
			continue
		}
		n.eventBuf = c.Events(n.eventBuf[:0], l.name, l.server.name)
		for _, e := range n.eventBuf {
			e.T = n.now() // later than its last timestamp if no answer came or nobody received it
			n.recordEvent(e)
		}
	}
}

// conn is a TCP connection: the client's end, as a net.Conn, and the server's state for it. Only
// one goroutine may read at a time; any number may write.
type conn struct {
	reader          // on the dialing host
	net             *network
	link            *link
	number          int64 // on its link, from 1
	up, down        flow
	stream          *resp.Stream
	unansweredTaken bool // commands without an answer have been recorded
	session         *node.Session
	orphaned        bool // the server's machine lost power, and with it the state for the connection
	sentSinceOutage bool // orphaned, and the client has sent something since

	dialed        chan error  // how the dial ended
	answered      atomic.Bool // the dial has ended
	buf           []byte      // received but not read yet
	err           error       // returned by Read after buf: the server ended the connection
	closed        bool        // the client closed it
	writeDeadline time.Time
}

var (
	_ net.Conn     = (*conn)(nil)
	_ syscall.Conn = (*conn)(nil)
)

func (l *link) newConn() *conn {
	l.dials++
	c := &conn{net: l.net, link: l, number: l.dials, stream: resp.NewStream(&l.net.scripts), dialed: make(chan error, 1),
		reader: reader{host: l.host, slot: l.down.slot, notify: make(chan struct{}, 1)}}
	c.up = flow{conn: c, dir: &l.up}
	c.down = flow{conn: c, dir: &l.down}
	l.conns = append(l.conns, c)
	return c
}

// Write sends b. It blocks only while the client is paused, and for an instant if it fails.
func (c *conn) Write(b []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.host.gate(c.up.dir.slot)
	if err := c.sendError(); err != nil {
		c.net.mu.Unlock()
		c.host.nap(c.up.dir.slot) // several errors at the same instant would arrive in random order
		c.net.mu.Lock()
		c.host.gate(c.up.dir.slot)
		return 0, err
	}
	sent := c.net.now()
	m := &message{size: len(b), sent: sent, commands: c.stream.Request(b, sent), protocolErr: c.stream.ProtocolError()}
	m.hasLockCommand = lockCommand(m.commands)
	if c.link.server != c.net.resource {
		b = c.net.tokens.maskRequest(b, m.commands)
	}
	m.contentHash = sum(b)
	c.link.match(m, nemesis.Request, m.commands)
	c.up.send(m)
	return m.size, nil
}

// sendError returns the reason why the connection can't send, or nil.
func (c *conn) sendError() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.err != nil:
		return c.opError("write", syscall.EPIPE)
	case !c.writeDeadline.IsZero() && time.Now().After(c.writeDeadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Read returns available data even if the deadline has passed. A deadline takes effect strictly
// after its nominal instant, on the connection's own slot. The reason is that go-redis sets a
// connection's deadline to the very deadline of its context, and the runtime fires two timers of
// the same instant in either order.
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

// SyscallConn lets clients check a connection before they reuse it, as go-redis does.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return rawConn{c}, nil }

// rawConn lets clients check whether the other end has closed, without consuming data.
type rawConn struct{ conn *conn }

// Read returns how the connection ended, if there is nothing left to read. It doesn't wait at the
// gate, because callers hold mutexes.
func (l rawConn) Read(func(fd uintptr) (done bool)) error {
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

func (l rawConn) Control(func(fd uintptr)) error           { return errors.ErrUnsupported }
func (l rawConn) Write(func(fd uintptr) (done bool)) error { return errors.ErrUnsupported }

// Close sends pending writes and then the end of the stream. A paused client sends it when it
// resumes.
func (c *conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closeClientEnd()
	c.nudge()
	later := waiter{c.up.dir.slot, c.sendEnd}
	switch h := c.host; {
	case h.killed:
		c.sendEnd()
	case h.aheadOfTrueTime():
		h.waitForTrueTime(later)
	case h.paused:
		h.waiters = append(h.waiters, later)
	default:
		c.sendEnd()
	}
	return nil
}

func (c *conn) closeClientEnd() {
	c.closed, c.buf = true, nil
}

// sendEnd tells the server that the client's end is closed. A pool closes all its connections at
// the same instant, in map order, so the ends are sent an instant later, in the order in which the
// connections were dialed.
func (c *conn) sendEnd() {
	l := c.link
	end := &message{}
	end.deliver = func() { l.server.receiveEnd(end) }
	c.up.queue = append(c.up.queue, end)
	l.ending = append(l.ending, c)
	if len(l.ending) == 1 {
		c.net.at(l.up.slot, c.net.now()+1, l.sendEnds)
	}
}

func (l *link) sendEnds() {
	slices.SortFunc(l.ending, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
	for _, c := range l.ending {
		end := c.up.queue[len(c.up.queue)-1]
		c.up.dispatch(end, l.net.latency(&l.up, end.contentHash))
	}
	l.ending = nil
}

// closeSession drops the server's state for the connection.
func (c *conn) closeSession() {
	if c.session != nil {
		c.session.Close()
		c.session = nil
	}
}

// handleData handles data from the server.
func (c *conn) handleData(m *message) {
	if !c.closed {
		for _, cmd := range m.commands {
			cmd.Answered = c.net.now()
		}
		c.buf = append(c.buf, m.payload...)
	}
	c.net.recordCommands(c.link, m.commands) // before the client can act on it
	c.wake()
	c.removeIfDone()
}

// handleServerEnd handles the end of the connection by the server: io.EOF or ECONNRESET.
func (c *conn) handleServerEnd(err error) {
	c.net.recordCommands(c.link, c.takeUnanswered())
	if !errors.Is(err, io.EOF) {
		err = c.opError("read", err)
	}
	if c.err == nil {
		c.err = err
	}
	c.wake()
	c.removeIfDone()
}

// takeUnanswered returns the commands without an answer. A second call returns nothing.
func (c *conn) takeUnanswered() []*resp.Command {
	if c.unansweredTaken {
		return nil
	}
	c.unansweredTaken = true
	return c.stream.Pending()
}

// openCommands returns the commands of a link whose answers were not delivered. It takes each
// command only once.
func (l *link) openCommands() []*resp.Command {
	var open []*resp.Command
	for _, c := range l.conns {
		for _, m := range c.down.queue {
			open = append(open, m.commands...)
		}
		open = append(open, c.takeUnanswered()...)
	}
	return open
}

// removeIfDone removes the connection once both ends have finished with it.
func (c *conn) removeIfDone() {
	if (c.closed || c.err != nil) && c.session == nil && len(c.up.queue) == 0 && len(c.down.queue) == 0 {
		c.link.conns = slices.DeleteFunc(c.link.conns, func(o *conn) bool { return o == c })
	}
}

func (c *conn) opError(op string, err error) error {
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
	c.readDeadline = t
	c.nudge()
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.writeDeadline = t
	return nil
}

// dial connects the client to the server at an address. It takes one round trip and blocks while
// the link is cut. A server refuses the connection if it is down or outside the client's reach.
func (h *host) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.linkTo(h, addr)
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
	return c.awaitDial(ctx)
}

// awaitDial waits for the server's answer or the context's end. An answer that arrives exactly at
// the deadline is accepted, but only at the instant at which the deadline would take effect, since
// it is undefined which of the two wakes the dialer first.
func (c *conn) awaitDial(ctx context.Context) (net.Conn, error) {
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
		case err = <-c.dialed: // the answer came first after all
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
		c.closeClientEnd()
		c.nudge()
		if c.err == nil {
			c.sendEnd()
		}
	}
	c.removeIfDone()
	return nil, c.opError("dial", err)
}

// finishDial ends the dial, unless it has ended already.
func (c *conn) finishDial(err error) {
	c.answered.Store(true)
	c.host.bubble.runInside(func() {
		select {
		case c.dialed <- err:
		default:
		}
	})
}

// messageState is the progress of a message.
type messageState int8

const (
	inFlight messageState = iota
	waiting               // arrived at a cut, or behind an undelivered message
	held                  // held by a tap
)

// message is a chunk of data in one direction of a connection, or the beginning or end of the
// connection.
type message struct {
	flow           *flow // its path
	size           int   // bytes; 0 for a beginning or an end
	state          messageState
	hasLockCommand bool            // contains a lock command
	paced          bool            // already delayed by limited bandwidth
	commands       []*resp.Command // commands that a request completes or a reply answers
	protocolErr    error           // protocol error behind the commands of a request
	sent           int64           // when a request entered the link
	payload        []byte          // of a reply
	smallBuf       [24]byte        // backs most payloads
	contentHash    uint64          // hash of the contents
	drawKey        uint64          // source of all random values of the message
	taps           []*tap          // taps that will hold it, one after the other
	deliver        func()          // nil means delivered as a request or a reply
}

// answers returns the commands that the message answers.
func (m *message) answers() []*resp.Command {
	if m.flow == &m.flow.conn.up {
		return nil
	}
	return m.commands
}

func (m *message) fire() { m.flow.arrive(m) }

// flow is one direction of one connection. As in TCP, messages are delivered in the order in which
// they were sent, whatever a cut or a tap does in between.
type flow struct {
	conn   *conn
	dir    *direction
	queue  []*message
	last   int64 // delivery time of the newest message
	broken bool  // a message was lost, so all later ones are lost too
}

func (f *flow) send(m *message) {
	if m.size == 0 {
		m.contentHash = sum("")
	}
	m.drawKey = f.conn.net.drawKey(f.dir, m.contentHash)
	f.queue = append(f.queue, m)
	f.dispatch(m, latency(m.drawKey)+f.dir.extraDelay(m))
}

func (f *flow) dispatch(m *message, delay int64) {
	n := f.conn.net
	m.flow, m.state = f, inFlight
	now := n.now()
	due := n.schedule(f.dir.slot, max(now+delay, f.last+1), m)
	f.last = max(f.last, due)
	f.dir.digest += mix(uint64(now), uint64(due), m.contentHash)
}

// arrive delivers a message, unless something holds it.
func (f *flow) arrive(m *message) {
	m.state = waiting
	if f.queue[0] != m || f.dir.holds(m) {
		return
	}
	if t := m.nextTap(); t != nil {
		m.state = held
		t.message = m
		go t.hit(nemesis.HeldMessage{Pass: t.pass, Lose: t.lose})
		return
	}
	if turn := f.dir.bandwidthDelay(m); turn > 0 {
		f.dispatch(m, turn)
		return
	}
	f.pop()
	if f.drops(m) {
		f.broken = true
		f.conn.net.recordCommands(f.dir.link, m.answers())
		return
	}
	switch {
	case m.deliver != nil:
		m.deliver()
	case f == &f.conn.up:
		f.dir.link.server.receive(m)
	default:
		f.conn.handleData(m)
	}
}

// pop removes the first message and dispatches the next one if it is waiting.
func (f *flow) pop() {
	f.queue = slices.Delete(f.queue, 0, 1)
	if len(f.queue) > 0 && f.queue[0].state == waiting {
		f.dispatch(f.queue[0], 1)
	}
}

// resume dispatches the first message that waited at a cut. The others follow it.
func (f *flow) resume() {
	if len(f.queue) > 0 && f.queue[0].state == waiting {
		f.dispatch(f.queue[0], f.conn.net.latency(f.dir, f.queue[0].contentHash))
	}
}

// linkSet holds all links of a network, whose mutex guards them.
type linkSet struct {
	net   *network
	links []*link
}

// link connects a client and a server.
type link struct {
	name     string
	net      *network
	host     *host
	server   *server
	refuses  bool // the server is outside the client's reach
	cut      nemesis.LinkCut
	shapes   []*shape
	up, down direction
	dials    int64 // number of connections so far
	conns    []*conn
	ending   []*conn // closed by the client at this instant
	taps     []*tap
}

// direction is one direction of a link.
type direction struct {
	link    *link
	carries string // its content: requests or replies
	drawKey uint64
	slot    slot
	// Messages sent at the current instant, so that equal ones get different latencies.
	instant int64
	seen    []uint64
	digest  uint64
}

func (w *linkSet) connect(h *host, s *server) *link {
	l := &link{name: nemesis.LinkName(h.name, s.name), net: w.net, host: h, server: s}
	l.up = direction{link: l, carries: nemesis.Request, drawKey: sum(l.name), slot: slot(2 * len(w.links))}
	l.down = direction{link: l, carries: nemesis.Reply, drawKey: ^sum(l.name), slot: slot(2*len(w.links) + 1)}
	w.links = append(w.links, l)
	return l
}

// link returns the link with this name, or nil.
func (w *linkSet) link(name string) *link {
	return find(w.links, func(l *link) bool { return l.name == name })
}

// linkTo returns the link between a host and the server at an address, or nil.
func (w *linkSet) linkTo(h *host, addr string) *link {
	return find(w.links, func(l *link) bool { return l.host == h && l.server.addr.String() == addr })
}

// conns returns the connections of a host or a server.
func (w *linkSet) conns(h *host, s *server) (all []*conn) {
	for _, l := range w.links {
		if l.host == h || l.server == s {
			all = append(all, l.conns...)
		}
	}
	return all
}

// reader is the reading side of the client's end of a connection.
type reader struct {
	host         *host
	slot         slot // of the connection's incoming messages
	reading      bool
	readDeadline time.Time     // deadline; zero: none
	alarm        int64         // deadline of the pending wake-up event; 0: none
	notify       chan struct{} // wakes a blocked read
}

// deadline returns the instant at which a read times out, before alignment to the slot.
func (r *reader) deadline() int64 { return r.host.trueTimeOf(r.readDeadline) + 1 }

func (r *reader) expired() bool {
	return !r.readDeadline.IsZero() && r.slot.align(r.deadline()) <= r.host.net.now()
}

// wait blocks until the connection's state changes or its deadline passes.
func (r *reader) wait() {
	r.setAlarm()
	r.reading = true
	r.host.net.mu.Unlock()
	<-r.notify
	r.host.net.mu.Lock()
	r.reading = false
}

// setAlarm schedules a wake-up at the deadline. Deadlines are nearly always extended before they
// expire, so an alarm may go off too early and is then set again. A timer for each read would cost
// far more.
func (r *reader) setAlarm() {
	if due := r.deadline(); !r.readDeadline.IsZero() && (r.alarm == 0 || due < r.alarm) {
		r.alarm = due
		r.host.net.schedule(r.slot, due, r)
	}
}

// fire handles the alarm.
func (r *reader) fire() {
	r.alarm = 0
	switch {
	case r.expired():
		r.wake()
	case r.reading:
		r.setAlarm()
	}
}

// wake makes a blocked reader check the connection's state.
func (r *reader) wake() {
	switch own := r.host.bubble; {
	case !r.reading:
	case own == nil:
		r.nudge()
	default:
		own.runInside(r.nudge)
	}
}

// nudge is like wake, but must be called in the client's bubble.
func (r *reader) nudge() {
	select {
	case r.notify <- struct{}{}:
	default:
	}
}

// semTimers is go-redis's internal pool of timers for clients that wait for a free connection. A
// timer belongs to the bubble in which it was created; using it in another bubble crashes the
// process. TestPoolWaitAcrossRuns fails if a newer go-redis renames the variable.
//
//go:linkname semTimers github.com/redis/go-redis/v9/internal.semTimers
var semTimers sync.Pool

// resetMu is held while the pool is replaced, since runs may start concurrently.
var resetMu sync.Mutex

// resetTimers discards the timers of earlier runs.
func resetTimers() {
	resetMu.Lock()
	defer resetMu.Unlock()
	semTimers = sync.Pool{New: func() any {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}}
}
