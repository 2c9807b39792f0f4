package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
)

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
