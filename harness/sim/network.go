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

// A message takes between minLatency and minLatency+spread one way.
const (
	minLatency = 200 * time.Microsecond
	spread     = time.Millisecond
)

// Latency is how long a message takes one way, at least and at most.
func Latency() (least, most time.Duration) { return minLatency, minLatency + spread }

// network is all machines and the links between them.
//
//	host c1 ── link c1-n1 ──► server n1
//	           │ up: direction, slot 0
//	           │ down: direction, slot 1
//	           └ conns, each with a flow up and a flow down
type network struct {
	*timeline
	seed    uint64
	scripts resp.Scripts

	// mu guards everything below and in hosts, servers, links and conns. It is held while
	// something happens and while an event is recorded, never while a client's or the
	// engine's function runs.
	mu  sync.Mutex
	rec *history.Recorder // nil once the run has ended
	wires
	hosts    []*host
	servers  []*server
	resource *server                  // the last of them
	spare    func(history.Event) bool // whether such a fact is not to be; nil: all are
	tokens   tokens
	facts    []history.Event // of the command that is recorded
}

// name is a hash of the seed, the link and its direction, the instant and the
// content; of messages that have all in common also of their number. So it
// doesn't matter which of two goroutines sends first at one instant. All that is
// drawn for a message is drawn by its name.
func (n *network) name(d *direction, content uint64) uint64 {
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
	return mix(n.seed, d.name, uint64(now), content, k)
}

// latency is how long a message of that name travels.
func latency(name uint64) int64 { return int64(minLatency) + int64(name%uint64(spread)) }

func (n *network) latency(d *direction, content uint64) int64 { return latency(n.name(d, content)) }

// digest sums up all that was sent, when, and when it was due. Within a
// direction it doesn't depend on the order in which that was noted.
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

// tell records a fact, unless the run is over.
func (n *network) tell(e history.Event) {
	if n.rec != nil {
		e.Token = n.tokens.of(e.Token)
		n.rec.Record(e)
	}
}

// record tells of commands of a link.
func (n *network) record(l *link, commands []*resp.Command) {
	for _, c := range commands {
		if !c.Recorded() {
			continue
		}
		n.facts = c.Facts(n.facts[:0], l.name, l.server.name)
		for _, e := range n.facts {
			e.T = n.now() // later than its last stamp if no answer came or nobody was there to hear it
			n.tell(e)
		}
	}
}

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
	end := &message{}
	end.deliver = func() { l.server.finished(end) }
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

// state is how far a message has come.
type state int8

const (
	flying  state = iota
	waiting       // it arrived at a cut, or behind a message that has not been delivered
	held          // a tap keeps it
)

// message is a chunk of one direction of a connection, or its beginning or end.
type message struct {
	flow     *flow // that it travels
	size     int   // bytes; 0: it is a beginning or an end
	state    state
	locks    bool            // there is a lock command in it
	paced    bool            // it has its turn where bytes are counted
	commands []*resp.Command // that a request makes complete, or a reply answers
	wrong    error           // what is wrong with what a request has behind them
	sent     int64           // when a request entered the link
	payload  []byte          // of a reply
	short    [24]byte        // room for most of these
	content  uint64          // a hash of what it has
	name     uint64          // what is drawn for it is drawn by this
	taps     []*tap          // that keep it, one after the other
	deliver  func()          // nil: a request or a reply is delivered
}

// answers are the commands that it answers.
func (m *message) answers() []*resp.Command {
	if m.flow == &m.flow.conn.up {
		return nil
	}
	return m.commands
}

func (m *message) happen() { m.flow.arrive(m) }

// flow is one direction of one connection. As in TCP, what was sent first is
// delivered first, whatever a cut or a tap does to it in between.
type flow struct {
	conn  *conn
	dir   *direction
	queue []*message
	last  int64 // when the youngest message is due
	dead  bool  // it has lost a message: what follows is lost, too
}

// send puts a message on its way.
func (f *flow) send(m *message) {
	if m.size == 0 {
		m.content = sum("")
	}
	m.name = f.conn.net.name(f.dir, m.content)
	f.queue = append(f.queue, m)
	f.depart(m, latency(m.name)+f.dir.late(m))
}

func (f *flow) depart(m *message, delay int64) {
	n := f.conn.net
	m.flow, m.state = f, flying
	now := n.now()
	due := n.will(f.dir.slot, max(now+delay, f.last+1), m)
	f.last = max(f.last, due)
	f.dir.digest += mix(uint64(now), uint64(due), m.content)
}

// arrive delivers a message, if nothing keeps it.
func (f *flow) arrive(m *message) {
	m.state = waiting
	if f.queue[0] != m || f.dir.keeps(m) {
		return
	}
	if t := m.nextTap(); t != nil {
		m.state = held
		t.message = m
		go t.hit(nemesis.Held{Pass: t.pass, Lose: t.lose})
		return
	}
	if turn := f.dir.turn(m); turn > 0 {
		f.depart(m, turn)
		return
	}
	f.next()
	if f.loses(m) {
		f.dead = true
		f.conn.net.record(f.dir.link, m.answers())
		return
	}
	switch {
	case m.deliver != nil:
		m.deliver()
	case f == &f.conn.up:
		f.dir.link.server.receive(m)
	default:
		f.conn.received(m)
	}
}

// next takes the first message off, and sees to the one behind it.
func (f *flow) next() {
	f.queue = slices.Delete(f.queue, 0, 1)
	if len(f.queue) > 0 && f.queue[0].state == waiting {
		f.depart(f.queue[0], 1)
	}
}

// resume sends on what waited at a cut; the rest follows it.
func (f *flow) resume() {
	if len(f.queue) > 0 && f.queue[0].state == waiting {
		f.depart(f.queue[0], f.conn.net.latency(f.dir, f.queue[0].content))
	}
}

// wires are all links of a network. Its mutex guards them.
type wires struct {
	net   *network
	links []*link
}

// link joins a client and a server.
type link struct {
	name     string
	net      *network
	host     *host
	server   *server
	refuses  bool // the client is not meant to reach this server
	cut      nemesis.LinkCut
	shapes   []*shape
	up, down direction
	dialled  int64 // connections so far
	conns    []*conn
	ending   []*conn // the client has closed them just now
	taps     []*tap
}

// direction is one way of a link.
type direction struct {
	link *link
	of   string // what it carries: requests or replies
	name uint64
	slot slot
	// Messages of one instant, so that equal ones get latencies of their own.
	instant int64
	seen    []uint64
	digest  uint64
}

func (w *wires) connect(h *host, s *server) *link {
	l := &link{name: nemesis.LinkName(h.name, s.name), net: w.net, host: h, server: s}
	l.up = direction{link: l, of: nemesis.Request, name: sum(l.name), slot: slot(2 * len(w.links))}
	l.down = direction{link: l, of: nemesis.Reply, name: ^sum(l.name), slot: slot(2*len(w.links) + 1)}
	w.links = append(w.links, l)
	return l
}

// link is the one of a name; nil: there is none.
func (w *wires) link(name string) *link {
	return find(w.links, func(l *link) bool { return l.name == name })
}

// to is the link between a host and the server at an address; nil: there is none.
func (w *wires) to(h *host, addr string) *link {
	return find(w.links, func(l *link) bool { return l.host == h && l.server.addr.String() == addr })
}

// conns are the connections of a host or a server.
func (w *wires) conns(h *host, s *server) (all []*conn) {
	for _, l := range w.links {
		if l.host == h || l.server == s {
			all = append(all, l.conns...)
		}
	}
	return all
}

// reader is whoever reads on the client's end of a connection, and waits for what comes.
type reader struct {
	host    *host
	slot    slot // of what comes over the connection
	reading bool
	readBy  time.Time     // its deadline; zero: none
	alarm   int64         // the deadline for which it is woken next; 0: none
	notify  chan struct{} // wakes it
}

// deadline is the instant at which a read ends, as late as its slot wants.
func (r *reader) deadline() int64 { return r.host.due(r.readBy) + 1 }

func (r *reader) expired() bool {
	return !r.readBy.IsZero() && r.slot.align(r.deadline()) <= r.host.net.now()
}

// wait blocks until there is something new for the reader.
func (r *reader) wait() {
	r.watch()
	r.reading = true
	r.host.net.mu.Unlock()
	<-r.notify
	r.host.net.mu.Lock()
	r.reading = false
}

// watch sees to it that the reader is woken at its deadline. Deadlines nearly
// always move on before they are reached, so an alarm that is set already may be
// early, and is then set again. A timer for each read would cost far more.
func (r *reader) watch() {
	if due := r.deadline(); !r.readBy.IsZero() && (r.alarm == 0 || due < r.alarm) {
		r.alarm = due
		r.host.net.will(r.slot, due, r)
	}
}

// happen is what becomes of the alarm.
func (r *reader) happen() {
	r.alarm = 0
	switch {
	case r.expired():
		r.wake()
	case r.reading:
		r.watch()
	}
}

// wake makes a blocked reader look again.
func (r *reader) wake() {
	switch own := r.host.own; {
	case !r.reading:
	case own == nil:
		r.nudge()
	default:
		own.in(r.nudge)
	}
}

// nudge is wake in the client's own bubble.
func (r *reader) nudge() {
	select {
	case r.notify <- struct{}{}:
	default:
	}
}

// semTimers is go-redis's own pool of the timers by which it waits for a turn where all of a client's
// connections are taken. A timer belongs to the bubble that it was made in, and in another it ends the
// process. TestTurnsOfAnotherRun tells if a newer go-redis calls it otherwise.
//
//go:linkname semTimers github.com/redis/go-redis/v9/internal.semTimers
var semTimers sync.Pool

// renewing is held while the pool is replaced: runs may begin at once.
var renewing sync.Mutex

// forgetTimers has a run begin without the timers of those before it.
func forgetTimers() {
	renewing.Lock()
	defer renewing.Unlock()
	semTimers = sync.Pool{New: func() any {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}}
}
