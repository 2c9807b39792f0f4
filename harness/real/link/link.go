package link

import (
	"fmt"
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
	addr       string
	raw        bool // it carries no lock commands

	mu      sync.Mutex // guards what follows, and the state of all connections
	cut     bool
	gated   bool // the node is being read back
	closed  bool
	taps    []*tap
	opening *conn         // it has one pipe, the next one is its other
	conns   int           // connections whose events are not all recorded
	changed chan struct{} // closed and replaced upon each change that pipes must see
}

// tap waits for one message.
type tap struct {
	nemesis.OnMessage
	seen int
	hit  func(pass func())
}

// Addr is where the client finds the node.
func (l *Link) Addr() string { return l.addr }

// Cut keeps all data, both ways, until Mend. Connects succeed meanwhile, as far as the node lives.
func (l *Link) Cut() { l.update(func() { l.cut = true }) }

// Mend delivers what Cut has kept, in order.
func (l *Link) Mend() { l.update(func() { l.cut = false }) }

// Tap holds the nth message that m describes, and what follows it on the same
// connection and direction, until hit calls pass; hit is called in a goroutine.
func (l *Link) Tap(m nemesis.OnMessage, hit func(pass func())) error {
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
func (l *Link) tapped(of string, counts func(op string) bool, p *piece) {
	for _, t := range l.taps {
		if t.Of != of || !counts(t.Message) {
			continue
		}
		if t.seen++; t.seen != t.Nth {
			continue
		}
		p.holds++
		pass := sync.OnceFunc(func() { l.update(func() { p.holds-- }) })
		go t.hit(pass)
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

func (l *Link) start() error {
	for _, of := range []string{nemesis.Request, nemesis.Reply} {
		if err := l.addToxic(of); err != nil {
			return err
		}
	}
	if err := l.proxy.Start(); err != nil {
		return err
	}
	l.addr = l.proxy.Listen
	return nil
}

// stop ends all connections and waits until they are recorded.
func (l *Link) stop() error {
	l.update(func() { l.closed = true })
	l.proxy.Stop()
	for {
		l.mu.Lock()
		open, changed := l.conns, l.changed
		l.mu.Unlock()
		if open == 0 {
			return nil
		}
		<-changed
	}
}
