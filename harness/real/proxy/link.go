// Package proxy is the network between clients and real nodes: an embedded
// toxiproxy, one proxy for each pair of a client and a node, that reads the
// lock commands which pass.
//
//	            requests ──►
//	client ── proxy ── toxic ── node
//	            ◄── replies
//
// Its nouns are Mesh (the links of one run) and Link, which records each lock
// command as an event of the history with the instants at which it was sent,
// applied and answered, can be cut and mended, and can hold one message while
// others pass. Mesh.Refuse makes the address of a node that can't be reached.
//
// Each connection has two pipes, one a direction, and a pipe is the state of
// toxiproxy's stub. All faults are states of our own toxic, which is on a proxy
// before its first connection and stays: adding and removing toxics under
// traffic can hang (toxiproxy #558), and its own ones drop data and close. What
// is accepted is ours as well, so that connections can be reset and refused.
//
// Deliberately missing: anything below TCP. Connections are made in no time,
// whatever is done to what they carry.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"lockpick/harness/history"
	"lockpick/harness/resp"
	"lockpick/internal/files"
	"lockpick/nemesis"
)

// Link is the network between one client and one node.
type Link struct {
	name, node string
	now        func() time.Duration
	record     func(history.Event)
	scripts    *resp.Scripts
	proxy      *toxiproxy.Proxy
	witness    func(link, node, from string) Witness
	raw        bool // it carries no lock commands
	unread     bool // it carries some in a language that nobody reads here

	ports ports

	ctx     context.Context // ends with the link
	cancel  context.CancelFunc
	server  *toxiproxy.ApiServer
	serving sync.WaitGroup // goroutines that accept
	joining sync.Mutex     // held while a connection is made

	mu       sync.Mutex // guards what follows, and the state of all connections
	upstream string     // where the node listens
	listener net.Listener
	refusing func() error // frees the address while nobody listens there
	cut      nemesis.LinkCut
	shapes   []*shape
	random   *rand.Rand
	gates    int             // how many read the node back, which nobody else may change
	down     bool            // nobody has that address
	way      context.Context // ends when the link leads nowhere, or elsewhere
	leave    context.CancelFunc
	closed   bool
	lacked   error // why a connection could not be made that neither the client nor the node is to blame for
	taps     []*tap
	opening  *conn          // whose pipes are being made
	conns    map[*conn]bool // connections whose events are not all recorded
	changed  chan struct{}  // closed and replaced upon each change that pipes must see
}

type tap struct {
	nemesis.OnMessage
	seen int
	hit  func(nemesis.Held)
}

// Name is whose it is, as in "c1-n3".
func (l *Link) Name() string { return l.name }

// Addr is where the client finds the node.
func (l *Link) Addr() string { return l.proxy.Listen }

// Tap holds the nth message that m describes, and what follows it on the same
// connection and direction, until it is let pass or lost; hit is called in a goroutine.
func (l *Link) Tap(m nemesis.OnMessage, hit func(nemesis.Held)) error {
	if err := m.Check(); err != nil {
		return fmt.Errorf("tap link %s: %w", l.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taps = append(l.taps, &tap{OnMessage: m, hit: hit})
	return nil
}

// tapped shows a message to the taps, and holds its last piece if one waited for it.
func (l *Link) tapped(c *conn, of string, counts func(op string) bool, p *piece) {
	for _, t := range l.taps {
		if t.Of != of || !counts(t.Message) {
			continue
		}
		if t.seen++; t.seen != t.Nth {
			continue
		}
		p.holds++
		var once sync.Once
		go t.hit(nemesis.Held{
			Pass: func() { once.Do(func() { l.update(func() { p.holds-- }) }) },
			Lose: func() { once.Do(func() { l.update(c.reset) }) }, // nothing on the connection arrives any more
		})
	}
}

// update changes the link's state and wakes its pipes.
func (l *Link) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	l.wake()
}

func (l *Link) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// newWay breaks off what tries to reach the node. The mutex is held.
func (l *Link) newWay() {
	l.leave()
	l.way, l.leave = context.WithCancel(l.ctx)
}

// Mesh is the links of one run. Make a fresh one for each.
type Mesh struct {
	// Host is the address of this machine that links listen on; "": 127.0.0.1. It is
	// set before the first Open.
	Host string
	// Ports is the first of the local ports that links dial their nodes from, each link
	// from a range of its own (Link.Ports), so that its packets can be told apart; 0: from
	// any. It is set before the first Open.
	Ports int
	// Witness gives who is to hear of what passes a connection that a link has made to its
	// node, which sees it come from an address; nil: nobody. It is set before the first Open.
	Witness func(link, node, from string) Witness

	seed    uint64
	now     func() time.Duration
	record  func(history.Event)
	scripts resp.Scripts
	server  *toxiproxy.ApiServer

	mu    sync.Mutex
	links map[string]*Link
	given int // ranges of ports
}

// Witness hears of each command on one connection, before the node has it, and of each
// answer, which is to the first command that had none. It must not block.
type Witness interface {
	Sent(args []string, at int64)
	Answered(at int64)
}

// NewMesh returns a mesh without links. What is drawn for the messages of a link
// depends on the seed; now is true time since the run began; record takes one
// event for each lock command.
func NewMesh(seed uint64, now func() time.Duration, record func(history.Event)) *Mesh {
	registerOnce()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	return &Mesh{seed: seed, now: now, record: record, server: server, links: map[string]*Link{}}
}

// Open makes the link between a client and the node that listens on upstream.
func (m *Mesh) Open(client, node, upstream string) (*Link, error) {
	return m.open(&Link{name: nemesis.LinkName(client, node), node: node}, upstream)
}

// OpenUnread is Open of a node that isn't Redis: nobody reads what passes, and any piece of it is
// a message.
func (m *Mesh) OpenUnread(client, node, upstream string) (*Link, error) {
	return m.open(&Link{name: nemesis.LinkName(client, node), node: node, unread: true}, upstream)
}

// OpenReplication makes the link by which a node's replica follows it. What passes
// there is a snapshot and a stream of all that the node did, and no lock commands.
func (m *Mesh) OpenReplication(node, upstream string) (*Link, error) {
	return m.open(&Link{name: nemesis.LinkName(node, nemesis.Replica), node: nemesis.Replica, raw: true}, upstream)
}

func (m *Mesh) open(l *Link, upstream string) (*Link, error) {
	l.changed, l.conns, l.upstream = make(chan struct{}), map[*conn]bool{}, upstream
	l.now, l.record, l.scripts, l.server, l.witness = m.now, m.record, &m.scripts, m.server, m.Witness
	named := fnv.New64a()
	named.Write([]byte(l.name))
	l.random = rand.New(rand.NewPCG(m.seed, named.Sum64()))
	l.proxy = toxiproxy.NewProxy(m.server, l.name, m.host()+":0", upstream)
	if err := m.givePorts(l); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.way, l.leave = context.WithCancel(l.ctx)
	if err := bounded(l.name, "open", l.start); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.links[l.name] = l
	return l, nil
}

func (m *Mesh) host() string { return cmp.Or(m.Host, "127.0.0.1") }

// Refuse returns an address that refuses every connection, and that nobody else
// gets until release.
func (m *Mesh) Refuse() (addr string, release func() error, err error) { return refuse(m.host()) }

// Link finds a link by its name; nil: there is none.
func (m *Mesh) Link(name string) *Link {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.links[name]
}

// Gate keeps all data from and to a node until open is called, so that what is
// read back of it is what it came back with. Who opens it last opens it.
func (m *Mesh) Gate(node string) (open func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var gated []*Link
	for _, l := range m.links {
		if l.node == node {
			gated = append(gated, l)
			l.update(func() { l.gates++ })
		}
	}
	return func() {
		for _, l := range gated {
			l.update(func() { l.gates-- })
		}
	}
}

// Down says whether the machine of the server at upstream is down, so that clients of
// links that lead there are closed at once: a connect to an address where nobody is
// takes seconds to fail, and would keep those waiting who come after it is back.
func (m *Mesh) Down(upstream string, is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.links {
		if l.upstream == upstream {
			l.update(func() {
				if l.down = is; is {
					l.newWay()
				}
			})
		}
	}
}

// Turn lets all links to a node lead to another server, which is not down. The
// connections that there are are reset, for the one that they led to may be there
// still; clients keep the address that they have.
func (m *Mesh) Turn(node, upstream string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.links {
		if l.node == node {
			l.update(func() {
				l.upstream, l.down = upstream, false
				l.newWay()
				for c := range l.conns {
					c.reset()
				}
			})
		}
	}
}

// Close closes all links and returns once their last events are recorded.
func (m *Mesh) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	errs := make(chan error, len(m.links))
	for _, l := range m.links {
		go func() { errs <- bounded(l.name, "close", l.stop) }()
	}
	var all error
	for range m.links {
		all = errors.Join(all, <-errs)
	}
	clear(m.links)
	return all
}

// changeBound is how long toxiproxy may take for a change. It takes microseconds,
// unless it hangs.
const changeBound = 5 * time.Second

func bounded(link, verb string, change func() error) error {
	done := make(chan error, 1)
	go func() { done <- change() }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s link %s: %w", verb, link, err)
		}
		return nil
	case <-time.After(changeBound):
		return fmt.Errorf("%s link %s: not done after %v", verb, link, changeBound)
	}
}

// conn is one connection of a client to a node. Its fields are guarded by the link.
type conn struct {
	link         *Link
	stream       *resp.Stream
	client, node *net.TCPConn
	witness      Witness // nil: nobody hears of it
	clientGone   bool
	nodeGone     bool
	broken       bool // it has lost a message
	over         bool // it was reset
	finished     int  // pipes
}

// start listens for the client.
func (l *Link) start() error {
	for _, of := range []string{nemesis.Request, nemesis.Reply} {
		if err := addToxic(l, of); err != nil {
			return err
		}
	}
	ln, err := listen(l.proxy.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	l.proxy.Listen = ln.Addr().String()
	l.accept(ln)
	return nil
}

// accept takes the client's connections until the listener is closed. With toxiproxy's own
// listener all connections would end with it, and none could be reset.
func (l *Link) accept(ln net.Listener) {
	l.listener = ln
	l.serving.Go(func() {
		for {
			client, err := ln.Accept()
			if l.lacks(err) {
				time.Sleep(acceptAgain) // until another connection ends
				continue
			}
			if err != nil {
				return // closed
			}
			if l.ports.first == 0 {
				l.connect(client.(*net.TCPConn))
				continue
			}
			// Packets may be lost: who comes later must not wait until they pass.
			l.serving.Go(func() { l.connect(client.(*net.TCPConn)) })
		}
	})
}

// acceptAgain is how long a link waits that could not accept for want of open files.
const acceptAgain = 5 * time.Millisecond

// lacks says whether an error comes of what this machine is short of, and keeps the
// first: the clients saw a link that is cut, and nobody has planned that.
func (l *Link) lacks(err error) bool {
	if files.Remedy(err, "") == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lacked == nil {
		l.lacked = fmt.Errorf("connect: %w", err)
	}
	return true
}

// connect joins a client that has come to the node.
func (l *Link) connect(client *net.TCPConn) {
	l.mu.Lock()
	resets, closed, upstream, way := l.cut.Mode == nemesis.CutReset, l.closed || l.down, l.upstream, l.way
	l.mu.Unlock()
	if resets {
		client.SetLinger(0)
	}
	if resets || closed {
		client.Close()
		return
	}
	node, err := l.dial(way, client, upstream)
	if err != nil {
		l.lacks(err)
		client.Close()
		return
	}
	l.join(way, client, node)
}

// join lets a client and the node hear each other, one pair after the other: toxiproxy
// asks for the pipes of the connection that is being opened. A listener that was
// closed may still be at its last client when the next listener has its first.
func (l *Link) join(way context.Context, client *net.TCPConn, node net.Conn) {
	l.joining.Lock()
	defer l.joining.Unlock()
	c := &conn{link: l, stream: resp.NewStream(l.scripts), client: client, node: node.(*net.TCPConn)}
	if l.witness != nil && !l.raw && !l.unread {
		c.witness = l.witness(l.name, l.node, node.LocalAddr().String())
	}
	l.mu.Lock()
	if way.Err() != nil {
		l.mu.Unlock()
		client.Close()
		node.Close()
		return
	}
	l.conns[c] = true
	l.opening = c
	l.mu.Unlock()
	name := client.RemoteAddr().String()
	l.proxy.Toxics.StartLink(l.server, name+"upstream", client, node, stream.Upstream)
	l.proxy.Toxics.StartLink(l.server, name+"downstream", node, client, stream.Downstream)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut.Mode == nemesis.CutReset || l.closed {
		c.reset() // it came between
	}
}

// reset ends a connection as TCP does when it can't go on: both ends hear of it,
// and what is still on its way comes to nobody. The link's mutex is held.
func (c *conn) reset() {
	if c.over {
		return
	}
	c.over = true
	for _, end := range []*net.TCPConn{c.client, c.node} {
		end.SetLinger(0)
		end.Close()
	}
	c.link.wake()
}

// resetBroken resets the connections that have lost a message: TCP delivers all
// or fails. The link's mutex is held.
func (l *Link) resetBroken() {
	for c := range l.conns {
		if c.broken {
			c.reset()
		}
	}
}

// stop ends all connections and waits until they are recorded.
func (l *Link) stop() error {
	l.mu.Lock()
	l.closed = true
	l.cancel()
	l.listener.Close()
	release := l.refusing
	l.refusing = nil
	for c := range l.conns {
		c.client.Close()
		c.node.Close()
	}
	l.wake()
	l.mu.Unlock()
	if release != nil {
		release()
	}
	l.serving.Wait()
	for {
		l.mu.Lock()
		open, changed, lacked := len(l.conns), l.changed, l.lacked
		l.mu.Unlock()
		if open == 0 {
			return errors.Join(l.ports.short(), lacked)
		}
		<-changed
	}
}

// portsOfLink is how many ports a link has. A connection that a proxy has closed keeps
// its port for a while, and one whose packets are lost for as long as they are.
const portsOfLink = 500

// ports is the local ports that a link dials from. The zero value: any.
type ports struct {
	first, last int

	mu   sync.Mutex
	next int
	none int // how often all were taken
}

var errNoPort = errors.New("each port of the link is taken")

// Ports is the range of local ports that the link dials its node from; 0, 0: any.
func (l *Link) Ports() (first, last int) { return l.ports.first, l.ports.last }

func (m *Mesh) givePorts(l *Link) error {
	if m.Ports == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.Ports + m.given*portsOfLink
	if first+portsOfLink > 1<<16 {
		return fmt.Errorf("open link %s: no ports are left from %d on, for links have %d each", l.name, m.Ports, portsOfLink)
	}
	m.given++
	l.ports.first, l.ports.last, l.ports.next = first, first+portsOfLink-1, first
	return nil
}

// turn is the next port of the range.
func (p *ports) turn() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	port := p.next
	if p.next++; p.next > p.last {
		p.next = p.first
	}
	return port
}

// short is an error if a client has found no port: it saw a node that is down, and
// nobody has planned that.
func (p *ports) short() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.none == 0 {
		return nil
	}
	return fmt.Errorf("%d times each of the ports %d to %d was taken", p.none, p.first, p.last)
}

// dial connects to the node. From ports of its own, it gives up when the client does,
// as the client's kernel would.
func (l *Link) dial(way context.Context, client *net.TCPConn, upstream string) (net.Conn, error) {
	if l.ports.first == 0 {
		return new(net.Dialer).DialContext(way, "tcp", upstream)
	}
	ctx, done := whileThere(way, client)
	defer done()
	var d net.Dialer
	d.Control = func(_, _ string, c syscall.RawConn) error { return reusable(c) }
	for range portsOfLink {
		d.LocalAddr = &net.TCPAddr{Port: l.ports.turn()}
		node, err := d.DialContext(ctx, "tcp4", upstream)
		// Another may have bound it, or have a connection from it to this very node.
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) {
			continue
		}
		return node, err
	}
	l.ports.mu.Lock()
	defer l.ports.mu.Unlock()
	l.ports.none++
	return nil, errNoPort
}
