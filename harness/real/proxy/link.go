package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"

	"lockpick/harness/history"
	"lockpick/harness/resp"
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
	cut      cut
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
	if !slices.Contains(nemesis.MessageKinds, m.Message) {
		return fmt.Errorf("tap link %s: message %q is none of %v", l.name, m.Message, nemesis.MessageKinds)
	}
	if m.Of != nemesis.Request && m.Of != nemesis.Reply {
		return fmt.Errorf("tap link %s: %q is neither %s nor %s", l.name, m.Of, nemesis.Request, nemesis.Reply)
	}
	if m.Nth < 1 {
		return fmt.Errorf("tap link %s: messages are counted from 1, not %d", l.name, m.Nth)
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
