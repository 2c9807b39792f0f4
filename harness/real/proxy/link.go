// Package proxy is the network between clients and real nodes. It embeds toxiproxy, with one proxy
// for each pair of a client and a node, and parses the lock commands that pass through.
//
//	            requests ──►
//	client ── proxy ── toxic ── node
//	            ◄── replies
//
// A Mesh is the set of links of one run. A Link records each lock command as an event in the history,
// with the times at which it was sent, applied and answered. A link can be cut and mended, and can
// hold one message while others pass. Mesh.Refuse creates the address of an unreachable node.
//
// Each connection has two pipes, one per direction. A pipe is the state of toxiproxy's stub. All
// faults are states of a single toxic, implemented by this package. It is added to a proxy before the
// first connection and stays there, because adding and removing toxics under traffic can hang
// (toxiproxy #558), and toxiproxy's own toxics drop data and close connections. The package also has
// its own listener, so that connections can be reset and refused.
//
// Nothing below TCP is simulated: connections are established without delay, no matter which faults
// affect their data.
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
	name, node    string
	now           func() time.Duration
	record        func(history.Event)
	scripts       *resp.Scripts
	proxy         *toxiproxy.Proxy
	witness       func(link, node, from string) Witness
	isReplication bool // whether the link carries no lock commands
	isOpaque      bool // whether the link's protocol is not parsed

	ports ports

	ctx    context.Context // canceled when the link is closed
	cancel context.CancelFunc
	server *toxiproxy.ApiServer
	wg     sync.WaitGroup // running accept loops and connects
	joinMu sync.Mutex     // held while a connection is set up

	mu          sync.Mutex // guards the fields below and the state of all connections
	upstream    string     // address of the node
	listener    net.Listener
	releaseAddr func() error // frees the address that refuses connections, or nil
	cut         nemesis.LinkCut
	shapes      []*shape
	random      *rand.Rand
	closedGates int             // number of closed gates; data passes if it is 0
	down        bool            // whether the node's host is down
	route       context.Context // canceled when the link stops leading to upstream
	cancelRoute context.CancelFunc
	closed      bool
	shortage    error // first connection error due to a resource shortage on this machine
	taps        []*tap
	openingConn *conn          // connection whose pipes are being created
	conns       map[*conn]bool // connections with unrecorded events
	changed     chan struct{}  // closed and replaced at each change that affects pipes
}

type tap struct {
	nemesis.OnMessage
	seenCount int
	onHit     func(nemesis.HeldMessage)
}

// Name returns the link's name, for example "c1-n3".
func (l *Link) Name() string { return l.name }

// Addr returns the address at which the client reaches the node.
func (l *Link) Addr() string { return l.proxy.Listen }

// Tap holds the nth message that matches m, and everything after it in the same direction on the
// same connection, until the message is passed on or dropped. hit is called in its own goroutine.
func (l *Link) Tap(m nemesis.OnMessage, hit func(nemesis.HeldMessage)) error {
	if err := m.Check(); err != nil {
		return fmt.Errorf("tap link %s: %w", l.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taps = append(l.taps, &tap{OnMessage: m, onHit: hit})
	return nil
}

// applyTaps counts a message for each matching tap. If a tap is waiting for this message, applyTaps
// holds p, its last piece.
func (l *Link) applyTaps(c *conn, direction string, matches func(op string) bool, p *piece) {
	for _, t := range l.taps {
		if t.Of != direction || !matches(t.Message) {
			continue
		}
		if t.seenCount++; t.seenCount != t.Nth {
			continue
		}
		p.holdCount++
		var once sync.Once
		go t.onHit(nemesis.HeldMessage{
			Pass: func() { once.Do(func() { l.update(func() { p.holdCount-- }) }) },
			Lose: func() { once.Do(func() { l.update(c.reset) }) }, // the connection can't deliver anything after a lost message
		})
	}
}

// update changes the link's state and notifies its pipes.
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

// replaceRoute cancels pending connects to the node. The caller holds the mutex.
func (l *Link) replaceRoute() {
	l.cancelRoute()
	l.route, l.cancelRoute = context.WithCancel(l.ctx)
}

// Mesh is the set of links of one run. Each run needs a new one.
type Mesh struct {
	// Host is the local address on which links listen, by default 127.0.0.1. It must be set before
	// the first Open.
	Host string
	// Ports is the first local port from which links connect to their nodes, or 0 for any port.
	// Each link has its own range (Link.Ports), which identifies its packets. Ports must be set
	// before the first Open.
	Ports int
	// Witness returns an observer for a link's connection to its node, or nil. from is the
	// connection's source address as seen by the node. Witness must be set before the first Open.
	Witness func(link, node, from string) Witness

	seed    uint64
	now     func() time.Duration
	record  func(history.Event)
	scripts resp.Scripts
	server  *toxiproxy.ApiServer

	mu         sync.Mutex
	links      map[string]*Link
	rangeCount int // number of port ranges assigned so far
}

// Witness observes one connection. Sent is called for each command before the node receives it.
// Answered is called for each answer, which belongs to the earliest unanswered command. The methods
// must not block.
type Witness interface {
	Sent(args []string, at int64)
	Answered(at int64)
}

// NewMesh returns a mesh without links. seed determines the random choices for each link's
// messages. now returns true time since the run began. record receives one event per lock command.
func NewMesh(seed uint64, now func() time.Duration, record func(history.Event)) *Mesh {
	registerOnce()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	return &Mesh{seed: seed, now: now, record: record, server: server, links: map[string]*Link{}}
}

// Open creates the link between a client and the node at upstream.
func (m *Mesh) Open(client, node, upstream string) (*Link, error) {
	return m.open(&Link{name: nemesis.LinkName(client, node), node: node}, upstream)
}

// OpenOpaque is like Open, but for a node that is not a Redis server. The link does not parse the
// protocol, and treats each piece of data as a message.
func (m *Mesh) OpenOpaque(client, node, upstream string) (*Link, error) {
	return m.open(&Link{name: nemesis.LinkName(client, node), node: node, isOpaque: true}, upstream)
}

// OpenReplication creates the link between a node and its replica. It carries a snapshot and a
// replication stream, not lock commands.
func (m *Mesh) OpenReplication(node, upstream string) (*Link, error) {
	return m.open(&Link{name: nemesis.LinkName(node, nemesis.Replica), node: nemesis.Replica, isReplication: true}, upstream)
}

func (m *Mesh) open(l *Link, upstream string) (*Link, error) {
	l.changed, l.conns, l.upstream = make(chan struct{}), map[*conn]bool{}, upstream
	l.now, l.record, l.scripts, l.server, l.witness = m.now, m.record, &m.scripts, m.server, m.Witness
	hash := fnv.New64a()
	hash.Write([]byte(l.name))
	l.random = rand.New(rand.NewPCG(m.seed, hash.Sum64()))
	l.proxy = toxiproxy.NewProxy(m.server, l.name, m.host()+":0", upstream)
	if err := m.assignPorts(l); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.route, l.cancelRoute = context.WithCancel(l.ctx)
	if err := withTimeout(l.name, "open", l.start); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.links[l.name] = l
	return l, nil
}

func (m *Mesh) host() string { return cmp.Or(m.Host, "127.0.0.1") }

// Refuse reserves an address that refuses every connection, until release is called.
func (m *Mesh) Refuse() (addr string, release func() error, err error) { return refuse(m.host()) }

// Link returns the link with the given name, or nil.
func (m *Mesh) Link(name string) *Link {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.links[name]
}

// Gate holds all data to and from a node until open is called. A restarted node's state can then be
// read before clients change it. If several gates are closed for a node, data passes after the last
// one is opened.
func (m *Mesh) Gate(node string) (open func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var links []*Link
	for _, l := range m.links {
		if l.node == node {
			links = append(links, l)
			l.update(func() { l.closedGates++ })
		}
	}
	return func() {
		for _, l := range links {
			l.update(func() { l.closedGates-- })
		}
	}
}

// SetDown sets whether the host of the server at upstream is down. While it is down, its links
// disconnect their clients immediately. Otherwise, a connect to the unused address would take
// seconds to fail, and delay clients that connect after the host is back up.
func (m *Mesh) SetDown(upstream string, down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.links {
		if l.upstream == upstream {
			l.update(func() {
				if l.down = down; down {
					l.replaceRoute()
				}
			})
		}
	}
}

// Redirect makes all links to a node lead to another server, which counts as up. It resets existing
// connections, because their server may still be running. Clients use the same addresses as before.
func (m *Mesh) Redirect(node, upstream string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.links {
		if l.node == node {
			l.update(func() {
				l.upstream, l.down = upstream, false
				l.replaceRoute()
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
		go func() { errs <- withTimeout(l.name, "close", l.stop) }()
	}
	var err error
	for range m.links {
		err = errors.Join(err, <-errs)
	}
	clear(m.links)
	return err
}

// changeTimeout limits the time for a change in toxiproxy, which takes microseconds unless
// toxiproxy hangs.
const changeTimeout = 5 * time.Second

func withTimeout(link, verb string, change func() error) error {
	done := make(chan error, 1)
	go func() { done <- change() }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s link %s: %w", verb, link, err)
		}
		return nil
	case <-time.After(changeTimeout):
		return fmt.Errorf("%s link %s: no result within %v", verb, link, changeTimeout)
	}
}

// conn is one connection between a client and a node. The link's mutex guards its fields.
type conn struct {
	link          *Link
	stream        *resp.Stream
	client, node  *net.TCPConn
	witness       Witness // may be nil
	clientGone    bool
	nodeGone      bool
	broken        bool // whether the connection has lost a message
	wasReset      bool
	finishedPipes int // number of finished pipes
}

// start begins to listen for the client's connections.
func (l *Link) start() error {
	for _, direction := range []string{nemesis.Request, nemesis.Reply} {
		if err := addToxic(l, direction); err != nil {
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

// accept accepts the client's connections until the listener is closed. Unlike toxiproxy's own
// listener, it can reset connections, and leaves them open when the listener is closed.
func (l *Link) accept(ln net.Listener) {
	l.listener = ln
	l.wg.Go(func() {
		for {
			client, err := ln.Accept()
			if l.noteShortage(err) {
				time.Sleep(acceptRetryDelay) // until another connection ends
				continue
			}
			if err != nil {
				return // closed
			}
			if l.ports.first == 0 {
				l.connect(client.(*net.TCPConn))
				continue
			}
			// If packets are lost, later clients must not wait until packets pass again.
			l.wg.Go(func() { l.connect(client.(*net.TCPConn)) })
		}
	})
}

// acceptRetryDelay is the pause after a link fails to accept a connection because too many files
// are open.
const acceptRetryDelay = 5 * time.Millisecond

// noteShortage reports whether err is due to a resource shortage on this machine, and stores the
// first such error. To its clients, the link looks cut although no fault was planned.
func (l *Link) noteShortage(err error) bool {
	if files.Remedy(err, "") == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shortage == nil {
		l.shortage = fmt.Errorf("connect: %w", err)
	}
	return true
}

// connect connects an accepted client to the node.
func (l *Link) connect(client *net.TCPConn) {
	l.mu.Lock()
	mustReset, mustClose, upstream, route := l.cut.Mode == nemesis.CutReset, l.closed || l.down, l.upstream, l.route
	l.mu.Unlock()
	if mustReset {
		client.SetLinger(0)
	}
	if mustReset || mustClose {
		client.Close()
		return
	}
	node, err := l.dial(route, client, upstream)
	if err != nil {
		l.noteShortage(err)
		client.Close()
		return
	}
	l.join(route, client, node)
}

// join forwards data between a client and a node. It sets up one pair at a time, because toxiproxy
// assigns new pipes to the connection that is being opened. A closed listener may still be handling
// its last client when the next listener accepts its first.
func (l *Link) join(route context.Context, client *net.TCPConn, node net.Conn) {
	l.joinMu.Lock()
	defer l.joinMu.Unlock()
	c := &conn{link: l, stream: resp.NewStream(l.scripts), client: client, node: node.(*net.TCPConn)}
	if l.witness != nil && !l.isReplication && !l.isOpaque {
		c.witness = l.witness(l.name, l.node, node.LocalAddr().String())
	}
	l.mu.Lock()
	if route.Err() != nil {
		l.mu.Unlock()
		client.Close()
		node.Close()
		return
	}
	l.conns[c] = true
	l.openingConn = c
	l.mu.Unlock()
	name := client.RemoteAddr().String()
	l.proxy.Toxics.StartLink(l.server, name+"upstream", client, node, stream.Upstream)
	l.proxy.Toxics.StartLink(l.server, name+"downstream", node, client, stream.Downstream)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut.Mode == nemesis.CutReset || l.closed {
		c.reset() // the link has been cut or closed in the meantime
	}
}

// reset resets the connection as TCP does after a fatal error: both ends get an error, and data in
// transit is lost. The caller holds the link's mutex.
func (c *conn) reset() {
	if c.wasReset {
		return
	}
	c.wasReset = true
	for _, end := range []*net.TCPConn{c.client, c.node} {
		end.SetLinger(0)
		end.Close()
	}
	c.link.wake()
}

// resetBroken resets the connections that have lost a message, because TCP either delivers
// everything or fails. The caller holds the link's mutex.
func (l *Link) resetBroken() {
	for c := range l.conns {
		if c.broken {
			c.reset()
		}
	}
}

// stop ends all connections and waits until their events are recorded.
func (l *Link) stop() error {
	l.mu.Lock()
	l.closed = true
	l.cancel()
	l.listener.Close()
	release := l.releaseAddr
	l.releaseAddr = nil
	for c := range l.conns {
		c.client.Close()
		c.node.Close()
	}
	l.wake()
	l.mu.Unlock()
	if release != nil {
		release()
	}
	l.wg.Wait()
	for {
		l.mu.Lock()
		openConns, changed, shortage := len(l.conns), l.changed, l.shortage
		l.mu.Unlock()
		if openConns == 0 {
			return errors.Join(l.ports.err(), shortage)
		}
		<-changed
	}
}

// portsPerLink is the number of ports per link. They are not always all available: a connection
// closed by a proxy occupies its port for a while, and a connection whose packets are lost occupies
// it until they pass again.
const portsPerLink = 500

// ports is the range of local ports from which a link connects. The zero value means any port.
type ports struct {
	first, last int

	mu             sync.Mutex
	next           int
	exhaustedCount int // number of times that all ports were in use
}

var errNoPort = errors.New("all ports of the link are in use")

// Ports returns the range of local ports from which the link connects to its node, or 0, 0 if the
// link uses any port.
func (l *Link) Ports() (first, last int) { return l.ports.first, l.ports.last }

func (m *Mesh) assignPorts(l *Link) error {
	if m.Ports == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.Ports + m.rangeCount*portsPerLink
	if first+portsPerLink > 1<<16 {
		return fmt.Errorf("open link %s: no ports are left above %d, because each link needs %d", l.name, m.Ports, portsPerLink)
	}
	m.rangeCount++
	l.ports.first, l.ports.last, l.ports.next = first, first+portsPerLink-1, first
	return nil
}

// nextPort returns the next port, and starts over at the end of the range.
func (p *ports) nextPort() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	port := p.next
	if p.next++; p.next > p.last {
		p.next = p.first
	}
	return port
}

// err returns an error if any client found no free port. To that client, the node looked down
// although no fault was planned.
func (p *ports) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exhaustedCount == 0 {
		return nil
	}
	return fmt.Errorf("all ports from %d to %d were in use %d times", p.first, p.last, p.exhaustedCount)
}

// dial connects to the node. If the link has its own ports, dial gives up when the client
// disconnects, as the client's kernel would without a proxy.
func (l *Link) dial(route context.Context, client *net.TCPConn, upstream string) (net.Conn, error) {
	if l.ports.first == 0 {
		return new(net.Dialer).DialContext(route, "tcp", upstream)
	}
	ctx, done := whileConnected(route, client)
	defer done()
	var d net.Dialer
	d.Control = func(_, _ string, c syscall.RawConn) error { return setReuseAddr(c) }
	for range portsPerLink {
		d.LocalAddr = &net.TCPAddr{Port: l.ports.nextPort()}
		node, err := d.DialContext(ctx, "tcp4", upstream)
		// Another process may have bound the port, or use it for a connection to the same node.
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) {
			continue
		}
		return node, err
	}
	l.ports.mu.Lock()
	defer l.ports.mu.Unlock()
	l.ports.exhaustedCount++
	return nil, errNoPort
}
