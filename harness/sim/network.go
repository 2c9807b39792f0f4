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

// Latency returns the minimum and maximum one-way latency of a message.
func Latency() (shortest, longest time.Duration) { return minLatency, minLatency + latencySpread }

// network holds all machines and the links between them.
//
//	host c1 ── link c1-n1 ──► server n1
//	           │ upstream: direction, slot 0
//	           │ downstream: direction, slot 1
//	           └ conns, each with a flow in each direction
type network struct {
	*timeline
	seed    uint64
	scripts resp.Scripts

	// mu guards everything below and everything in hosts, servers, links and conns. It is held
	// while an action runs and while an event is recorded, but never while client code or engine
	// code runs.
	mu  sync.Mutex
	rec *history.Recorder // nil once the run has ended
	linkSet
	hosts    []*host
	servers  []*server
	resource *server                  // the last element of servers
	preserve func(history.Event) bool // reports whether to suppress a key event; may be nil
	tokens   tokens
	eventBuf []history.Event // scratch space for recordCommands
}

// drawKey returns a hash of the seed, the direction, the instant and the content. Equal messages
// sent at the same instant are numbered to tell them apart, so it doesn't matter which of two
// goroutines sends first. All random values of a message are drawn from this hash.
func (n *network) drawKey(d *direction, content uint64) uint64 {
	now := n.now()
	if now != d.instant {
		d.instant, d.seen = now, d.seen[:0]
	}
	var repeats uint64
	for _, c := range d.seen {
		if c == content {
			repeats++
		}
	}
	d.seen = append(d.seen, content)
	return hashWords(n.seed, d.drawKey, uint64(now), content, repeats)
}

func latency(key uint64) int64 { return int64(minLatency) + int64(key%uint64(latencySpread)) }

func (n *network) latency(d *direction, content uint64) int64 { return latency(n.drawKey(d, content)) }

// digest returns a hash of everything sent, with send and delivery times. It doesn't depend on the
// order in which messages in the same direction were sent at the same instant.
func (n *network) digest() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	var d uint64
	for _, l := range n.links {
		d = hashWords(d, l.upstream.digest, l.downstream.digest)
	}
	for _, s := range n.servers {
		for _, r := range []*replica{s.replica, s.promotedReplica} {
			if r != nil {
				d = hashWords(d, r.digest)
			}
		}
	}
	return d
}

// recordEvent records an event unless the run is over.
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
			e.T = n.now() // later than the command's last timestamp if no answer arrived
			n.recordEvent(e)
		}
	}
}

// conn is a TCP connection: the client's end, which is a net.Conn, and the server's state for it.
// Only one goroutine may read at a time; any number may write.
type conn struct {
	reader               // on the dialing host
	net                  *network
	link                 *link
	number               int64 // counts the link's connections from 1
	upstream, downstream flow
	stream               *resp.Stream
	unansweredTaken      bool // unanswered commands have been recorded
	session              *node.Session
	orphaned             bool // the server lost its state for the connection in a power failure
	sentSinceOutage      bool // orphaned, and the client has sent data since the power failure

	dialResult    chan error  // the dial's result
	dialDone      atomic.Bool // the dial is over
	buf           []byte      // received but unread
	err           error       // set when the server ends the connection; returned by Read after buf
	closed        bool        // the client has closed the connection
	writeDeadline time.Time
}

var (
	_ net.Conn     = (*conn)(nil)
	_ syscall.Conn = (*conn)(nil)
)

func (l *link) newConn() *conn {
	l.dialCount++
	c := &conn{net: l.net, link: l, number: l.dialCount, stream: resp.NewStream(&l.net.scripts), dialResult: make(chan error, 1),
		reader: reader{host: l.host, slot: l.downstream.slot, notify: make(chan struct{}, 1)}}
	c.upstream = flow{conn: c, dir: &l.upstream}
	c.downstream = flow{conn: c, dir: &l.downstream}
	l.conns = append(l.conns, c)
	return c
}

// Write sends b. It blocks only while the client is paused, or for an instant if it fails.
func (c *conn) Write(b []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.host.waitAtGate(c.upstream.dir.slot)
	if err := c.sendError(); err != nil {
		c.net.mu.Unlock()
		c.host.waitForSlot(c.upstream.dir.slot) // errors returned at the same instant would arrive in random order
		c.net.mu.Lock()
		c.host.waitAtGate(c.upstream.dir.slot)
		return 0, err
	}
	now := c.net.now()
	m := &message{size: len(b), sendTime: now, commands: c.stream.Request(b, now), protocolErr: c.stream.ProtocolError()}
	m.hasLockCommand = lockCommand(m.commands)
	if c.link.server != c.net.resource {
		b = c.net.tokens.maskRequest(b, m.commands)
	}
	m.contentHash = hashBytes(b)
	c.link.match(m, nemesis.Request, m.commands)
	c.upstream.send(m)
	return m.size, nil
}

// sendError returns why the connection can't send, or nil.
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
// after its nominal instant, in the connection's own slot, because go-redis gives a connection the
// same deadline as its context, and the runtime fires two timers of the same instant in either
// order.
func (c *conn) Read(b []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for {
		c.host.waitAtGate(c.downstream.dir.slot)
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case len(c.buf) > 0:
			n := copy(b, c.buf)
			c.buf = append(c.buf[:0], c.buf[n:]...)
			return n, nil
		case c.err != nil:
			return 0, c.err
		case c.isExpired():
			return 0, os.ErrDeadlineExceeded
		}
		c.wait()
	}
}

// SyscallConn lets clients check a connection before they reuse it, as go-redis does.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return rawConn{c}, nil }

// rawConn lets clients check whether the server has closed the connection, without consuming data.
type rawConn struct{ conn *conn }

// Read returns the error that ended the connection unless there is data left to read. It doesn't
// wait at the gate because its callers hold mutexes.
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

// Close sends pending writes, followed by the end of the stream. A paused client sends them when it
// resumes.
func (c *conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closeClientEnd()
	c.nudge()
	w := waiter{c.upstream.dir.slot, c.sendEnd}
	switch h := c.host; {
	case h.killed:
		c.sendEnd()
	case h.aheadOfTrueTime():
		h.waitForTrueTime(w)
	case h.paused:
		h.waiters = append(h.waiters, w)
	default:
		c.sendEnd()
	}
	return nil
}

func (c *conn) closeClientEnd() {
	c.closed, c.buf = true, nil
}

// sendEnd notifies the server that the client's end is closed. A pool closes all its connections at
// the same instant, in map order. So the notifications are sent an instant later, in the order in
// which the connections were dialed.
func (c *conn) sendEnd() {
	l := c.link
	end := &message{}
	end.deliver = func() { l.server.receiveEnd(end) }
	c.upstream.queue = append(c.upstream.queue, end)
	l.closingConns = append(l.closingConns, c)
	if len(l.closingConns) == 1 {
		c.net.at(l.upstream.slot, c.net.now()+1, l.sendEnds)
	}
}

func (l *link) sendEnds() {
	slices.SortFunc(l.closingConns, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
	for _, c := range l.closingConns {
		end := c.upstream.queue[len(c.upstream.queue)-1]
		c.upstream.dispatch(end, l.net.latency(&l.upstream, end.contentHash))
	}
	l.closingConns = nil
}

func (c *conn) closeSession() {
	if c.session != nil {
		c.session.Close()
		c.session = nil
	}
}

func (c *conn) handleData(m *message) {
	if !c.closed {
		for _, cmd := range m.commands {
			cmd.AnsweredAt = c.net.now()
		}
		c.buf = append(c.buf, m.payload...)
	}
	c.net.recordCommands(c.link, m.commands) // before the client can react
	c.wake()
	c.removeIfDone()
}

// handleServerEnd handles a connection that the server ended; err is io.EOF or a system error such
// as ECONNRESET.
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

// takeUnanswered returns the commands that have no answer yet. Further calls return nothing.
func (c *conn) takeUnanswered() []*resp.Command {
	if c.unansweredTaken {
		return nil
	}
	c.unansweredTaken = true
	return c.stream.Pending()
}

// openCommands returns the link's commands whose answers were not delivered. It returns each
// command only once.
func (l *link) openCommands() []*resp.Command {
	var commands []*resp.Command
	for _, c := range l.conns {
		for _, m := range c.downstream.queue {
			commands = append(commands, m.commands...)
		}
		commands = append(commands, c.takeUnanswered()...)
	}
	return commands
}

// removeIfDone removes the connection from its link if both ends have finished with it.
func (c *conn) removeIfDone() {
	if (c.closed || c.err != nil) && c.session == nil && len(c.upstream.queue) == 0 && len(c.downstream.queue) == 0 {
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

// dial connects the client to the server at addr. It takes one round trip and blocks while the link
// is cut. The server refuses the connection if it is down or out of the client's reach.
func (h *host) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.linkTo(h, addr)
	if l == nil {
		return nil, fmt.Errorf("dial %s: no such server in the simulation", addr)
	}
	h.waitAtGate(l.upstream.slot)
	if h.killed {
		return nil, net.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := l.newConn()
	c.upstream.send(&message{deliver: func() { l.server.accept(c) }})
	return c.awaitDial(ctx)
}

// awaitDial waits for the server's answer or until the context is done. An answer that arrives exactly
// at the deadline is accepted, but only at the instant when the deadline takes effect, since it is
// undefined which of the two wakes the dialer first.
func (c *conn) awaitDial(ctx context.Context) (net.Conn, error) {
	n := c.net
	n.mu.Unlock()
	var err error
	select {
	case err = <-c.dialResult:
		if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
			c.host.waitForSlot(c.downstream.dir.slot)
		}
	case <-ctx.Done():
		c.host.waitForSlot(c.downstream.dir.slot)
		select {
		case err = <-c.dialResult: // the answer arrived at the same instant
		default:
			err = ctx.Err()
		}
	}
	n.mu.Lock()
	c.host.waitAtGate(c.downstream.dir.slot)
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

// finishDial reports the dial's result, unless the dial has already ended.
func (c *conn) finishDial(err error) {
	c.dialDone.Store(true)
	c.host.bubble.runInside(func() {
		select {
		case c.dialResult <- err:
		default:
		}
	})
}

type messageState int8

const (
	stateInFlight messageState = iota
	stateWaiting               // arrived while the link is cut, or behind an undelivered message
	stateHeld                  // held by a tap
)

// message is a chunk of data in one direction of a connection, or the connection's beginning or
// end.
type message struct {
	flow             *flow
	size             int // bytes; 0 for a beginning or an end
	state            messageState
	hasLockCommand   bool            // contains a lock command
	bandwidthApplied bool            // already delayed by limited bandwidth
	commands         []*resp.Command // commands completed by a request or answered by a reply
	protocolErr      error           // protocol error that follows a request's commands
	sendTime         int64           // when a request was sent
	payload          []byte          // a reply's data
	smallBuf         [24]byte        // backing array of short payloads
	contentHash      uint64          // hash of the message's contents
	drawKey          uint64          // source of all the message's random values
	taps             []*tap          // taps that will hold the message, one after the other
	deliver          func()          // delivers the message; nil means as a request or a reply
}

// answers returns the commands that the message answers. A request answers none.
func (m *message) answers() []*resp.Command {
	if m.flow == &m.flow.conn.upstream {
		return nil
	}
	return m.commands
}

func (m *message) onAlarm() { m.flow.arrive(m) }

// flow is one direction of one connection. As in TCP, messages are delivered in the order in which
// they were sent, whatever a cut or a tap does in between.
type flow struct {
	conn    *conn
	dir     *direction
	queue   []*message
	lastDue int64 // delivery time of the latest message
	broken  bool  // a message was lost, so all later messages are lost too
}

func (f *flow) send(m *message) {
	if m.size == 0 {
		m.contentHash = hashBytes("")
	}
	m.drawKey = f.conn.net.drawKey(f.dir, m.contentHash)
	f.queue = append(f.queue, m)
	f.dispatch(m, latency(m.drawKey)+f.dir.extraDelay(m))
}

func (f *flow) dispatch(m *message, delay int64) {
	n := f.conn.net
	m.flow, m.state = f, stateInFlight
	now := n.now()
	due := n.schedule(f.dir.slot, max(now+delay, f.lastDue+1), m)
	f.lastDue = max(f.lastDue, due)
	f.dir.digest += hashWords(uint64(now), uint64(due), m.contentHash)
}

// arrive delivers a message unless a cut, a tap or an earlier message holds it back.
func (f *flow) arrive(m *message) {
	m.state = stateWaiting
	if f.queue[0] != m || f.dir.holds(m) {
		return
	}
	if t := m.nextTap(); t != nil {
		m.state = stateHeld
		t.message = m
		go t.onHit(nemesis.HeldMessage{Pass: t.letThrough, Lose: t.drop})
		return
	}
	if delay := f.dir.bandwidthDelay(m); delay > 0 {
		f.dispatch(m, delay)
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
	case f == &f.conn.upstream:
		f.dir.link.server.receive(m)
	default:
		f.conn.handleData(m)
	}
}

// pop removes the first message and dispatches the next one if it is already waiting.
func (f *flow) pop() {
	f.queue = slices.Delete(f.queue, 0, 1)
	if len(f.queue) > 0 && f.queue[0].state == stateWaiting {
		f.dispatch(f.queue[0], 1)
	}
}

// resume dispatches the first message that waited for the end of a cut. The others follow it.
func (f *flow) resume() {
	if len(f.queue) > 0 && f.queue[0].state == stateWaiting {
		f.dispatch(f.queue[0], f.conn.net.latency(f.dir, f.queue[0].contentHash))
	}
}

// linkSet holds all links of a network. The network's mutex guards it.
type linkSet struct {
	net   *network
	links []*link
}

// link connects a client to a server.
type link struct {
	name                 string
	net                  *network
	host                 *host
	server               *server
	unreachable          bool // the server is out of the client's reach
	cut                  nemesis.LinkCut
	shapes               []*shape
	upstream, downstream direction
	dialCount            int64 // number of connections dialed so far
	conns                []*conn
	closingConns         []*conn // connections closed by the client at this instant
	taps                 []*tap
}

type direction struct {
	link    *link
	content string // nemesis.Request or nemesis.Reply
	drawKey uint64
	slot    slot
	// seen holds the content hashes of messages sent at instant, so that equal messages get
	// different latencies.
	instant int64
	seen    []uint64
	digest  uint64
}

func (w *linkSet) connect(h *host, s *server) *link {
	l := &link{name: nemesis.LinkName(h.name, s.name), net: w.net, host: h, server: s}
	l.upstream = direction{link: l, content: nemesis.Request, drawKey: hashBytes(l.name), slot: slot(2 * len(w.links))}
	l.downstream = direction{link: l, content: nemesis.Reply, drawKey: ^hashBytes(l.name), slot: slot(2*len(w.links) + 1)}
	w.links = append(w.links, l)
	return l
}

// link returns the named link, or nil.
func (w *linkSet) link(name string) *link {
	return find(w.links, func(l *link) bool { return l.name == name })
}

// linkTo returns the link from h to the server at addr, or nil.
func (w *linkSet) linkTo(h *host, addr string) *link {
	return find(w.links, func(l *link) bool { return l.host == h && l.server.addr.String() == addr })
}

// conns returns all connections of the host and of the server, either of which may be nil.
func (w *linkSet) conns(h *host, s *server) (conns []*conn) {
	for _, l := range w.links {
		if l.host == h || l.server == s {
			conns = append(conns, l.conns...)
		}
	}
	return conns
}

// reader is the reading side of a connection's client end.
type reader struct {
	host         *host
	slot         slot // slot of incoming messages
	reading      bool
	readDeadline time.Time     // zero: none
	alarm        int64         // time of the pending wake-up event; 0: none
	notify       chan struct{} // wakes a blocked read
}

// deadline returns the instant at which a read times out, before alignment to the slot.
func (r *reader) deadline() int64 { return r.host.trueTimeOf(r.readDeadline) + 1 }

func (r *reader) isExpired() bool {
	return !r.readDeadline.IsZero() && r.slot.align(r.deadline()) <= r.host.net.now()
}

// wait waits until the connection's state changes or its deadline passes.
func (r *reader) wait() {
	r.setAlarm()
	r.reading = true
	r.host.net.mu.Unlock()
	<-r.notify
	r.host.net.mu.Lock()
	r.reading = false
}

// setAlarm schedules a wake-up at the deadline. Deadlines are nearly always extended before they
// expire, so an alarm may go off too early and is then set again. A timer per read would cost far
// more.
func (r *reader) setAlarm() {
	if due := r.deadline(); !r.readDeadline.IsZero() && (r.alarm == 0 || due < r.alarm) {
		r.alarm = due
		r.host.net.schedule(r.slot, due, r)
	}
}

// onAlarm handles the alarm.
func (r *reader) onAlarm() {
	r.alarm = 0
	switch {
	case r.isExpired():
		r.wake()
	case r.reading:
		r.setAlarm()
	}
}

// wake makes a blocked reader check the connection's state.
func (r *reader) wake() {
	switch bubble := r.host.bubble; {
	case !r.reading:
	case bubble == nil:
		r.nudge()
	default:
		bubble.runInside(r.nudge)
	}
}

// nudge is like wake but must be called in the client's bubble.
func (r *reader) nudge() {
	select {
	case r.notify <- struct{}{}:
	default:
	}
}

// semTimers is go-redis's internal pool of timers for clients that wait for a free connection. A
// timer belongs to the bubble that created it, and using it in another bubble crashes the process.
// TestPoolWaitAcrossRuns fails if a newer go-redis renames the variable.
//
//go:linkname semTimers github.com/redis/go-redis/v9/internal.semTimers
var semTimers sync.Pool

// semTimersMu guards semTimers, since runs may start concurrently.
var semTimersMu sync.Mutex

// resetTimers discards the timers of earlier runs.
func resetTimers() {
	semTimersMu.Lock()
	defer semTimersMu.Unlock()
	semTimers = sync.Pool{New: func() any {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}}
}
