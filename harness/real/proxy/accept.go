package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"

	"lockpick/harness/resp"
	"lockpick/internal/files"
	"lockpick/nemesis"
)

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
	resets, closed, upstream, way := l.cut.mode == nemesis.CutReset, l.closed || l.down, l.upstream, l.way
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
	if l.cut.mode == nemesis.CutReset || l.closed {
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
