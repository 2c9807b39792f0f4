// Package link is the network between clients and real nodes: an embedded
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
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"lockpick/harness/history"
	"lockpick/harness/resp"
	"lockpick/nemesis"
)

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
