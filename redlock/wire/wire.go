// Package wire is a redlock.Batcher on a connection of its own, for programs that
// lock often: what many goroutines ask of a node is sent by one write, costs no
// goroutine and next to no allocation, and releases share a script.
//
// Its noun is Node, one independent Redis master and one connection to it, which is
// made when it is first needed and replaced when it fails. It speaks RESP2 over TCP,
// TLS or a Unix socket. Each connection begins with RESP2, in all versions of Redis and
// Valkey, whatever others have asked for on theirs; and no step answers anything of which
// RESP3 has a type of its own.
//
//	callers ── Submit ──►  batch: releases, then sets  ── Flush ──►  socket ──►  node
//	        ◄── Answered ── requests that wait, in order  ◄── reader ──
//	                        their deadlines  ◄── one timer
//
// On one connection a node does what it was asked in order, so that no set comes after
// its release. Across connections this must be seen to: a release that the node has
// perhaps not got is a debt, which is paid first on the next one; and the next one has the
// node end the one before, of which it may not have read all.
//
// Deliberately missing: retries, for the lock decides about these; Redis Cluster;
// commands other than those of package script and SET.
package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"lockpick/redlock"
)

// Options are how a node is reached. Only Addr is needed.
type Options struct {
	// Addr is host:port, or the path of a Unix socket, which begins with a slash.
	Addr string
	// Username and Password are for AUTH, which is left out where both are empty.
	Username, Password string
	// DB is the number of the database, ClientName what CLIENT LIST shows.
	DB         int
	ClientName string
	// TLS is for encrypted connections. ServerName is taken from Addr if it is empty.
	TLS *tls.Config
	// Timeout is the lock's time-out for a request, redlock.Config.Timeout. A connection on
	// which a request is overdue is replaced if nothing is read for another quarter of it.
	// 0: 50 ms.
	Timeout time.Duration
	// DialTimeout bounds making a connection, with its greeting. The first try is given up after eight
	// times Timeout, if that is less, and each that follows after twice as long. 0: 1 s.
	DialTimeout time.Duration
	// Dial connects, and must heed ctx. Nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Now and After are the clock and the timer, those of the lock's Config. Nil:
	// time.Now and time.After.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Node is one Redis master. It may be used by several goroutines at once.
type Node struct{ *line }

// line is what goes to a node and comes from it, by one connection after another.
type line struct {
	o       Options
	network string
	base    time.Time       // deadlines are reckoned from it
	ctx     context.Context // ends by Close
	stop    context.CancelFunc
	running sync.WaitGroup

	// mu is not held while the clock is asked, which may take as long as this process is paused.
	mu      sync.Mutex
	state   state
	why     error   // there is no connection
	pending []entry // until there is one
	conn    net.Conn
	raw     syscall.RawConn // of conn, if that is a socket
	id      int64           // of conn or the one before, as the node calls it; 0: there was none
	outbox                  // for conn
	spare   []byte
	writing bool
	debts   []debt
	unsent  map[string]struct{} // tokens of sets that no connection has seen
	timer   timer

	try      socketWrite   // of the one that writes
	patience time.Duration // of the one that connects, in its last try; 0: that ended in time
}

type state int

const (
	idle     state = iota // there is no connection, and no need of one
	dialling              // one is being made
	resting               // one could not be made just now
	up
	closed
)

var (
	_ redlock.Debtor     = (*Node)(nil)
	_ redlock.Fencer     = (*Node)(nil)
	_ redlock.Granter    = (*Node)(nil)
	_ redlock.Identifier = (*Node)(nil)
)

var (
	errClosed  = errors.New("the node is closed")
	errLate    = errors.New("no answer in time")
	errIgnored = errors.New("no answer in time, nor to anything else that was asked")
)

// New returns the node with these options. It does not connect yet.
func New(o Options) *Node {
	if o.Timeout == 0 {
		o.Timeout = 50 * time.Millisecond
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = time.Second
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	n := &line{o: o, network: "tcp", base: o.Now(), unsent: map[string]struct{}{}}
	if len(o.Addr) > 0 && o.Addr[0] == '/' {
		n.network = "unix"
	}
	n.ctx, n.stop = context.WithCancel(context.Background())
	return &Node{n}
}

// String is the node's address.
func (n *line) String() string { return n.o.Addr }

// Close ends the connection and all goroutines, and waits for these. Requests that
// have no answer are answered by an error.
func (n *line) Close() error {
	n.mu.Lock()
	c := n.conn
	lost := n.pending
	n.state, n.why, n.pending, n.debts = closed, errClosed, nil, nil
	n.mu.Unlock()
	n.stop()
	if c != nil {
		n.fail(c, errClosed)
	}
	answer(lost, errClosed)
	n.running.Wait()
	return nil
}

// now is the time since the node was made.
func (n *line) now() time.Duration { return n.o.Now().Sub(n.base) }

// Set implements redlock.Node.
func (n *Node) Set(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	return yes(n.do(ctx, redlock.Request{Op: redlock.OpSet, Key: key, Token: token, Terms: redlock.Terms{TTL: ttl}}))
}

// Extend implements redlock.Node.
func (n *Node) Extend(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	return yes(n.do(ctx, redlock.Request{Op: redlock.OpExtend, Key: key, Token: token, Terms: redlock.Terms{TTL: ttl}}))
}

// Release implements redlock.Node. How long the key can still live is not known here;
// a debt is kept for a minute.
func (n *Node) Release(ctx context.Context, key, token string) (bool, error) {
	return yes(n.do(ctx, redlock.Request{Op: redlock.OpRelease, Key: key, Token: token, Terms: redlock.Terms{TTL: time.Minute}}))
}

// SetFenced implements redlock.Fencer.
func (n *Node) SetFenced(ctx context.Context, key, token string, ttl time.Duration) (int64, error) {
	return n.do(ctx, redlock.Request{Op: redlock.OpSetFenced, Key: key, Token: token, Terms: redlock.Terms{TTL: ttl}})
}

// RaiseFence implements redlock.Fencer.
func (n *Node) RaiseFence(ctx context.Context, key, token string, fence int64) (bool, error) {
	return yes(n.do(ctx, redlock.Request{Op: redlock.OpRaiseFence, Key: key, Token: token, Count: fence}))
}

// Grant implements redlock.Granter.
func (n *Node) Grant(ctx context.Context, key, token string, t redlock.Terms) (int64, error) {
	return n.do(ctx, redlock.Request{Op: redlock.OpGrant, Key: key, Token: token, Terms: t})
}

// Abandon implements redlock.Granter.
func (n *Node) Abandon(ctx context.Context, key, token string, refuse time.Duration) (bool, error) {
	return yes(n.do(ctx, redlock.Request{Op: redlock.OpAbandon, Key: key, Token: token, Terms: redlock.Terms{TTL: refuse}}))
}

// Identity implements redlock.Identifier by the server's run_id.
func (n *Node) Identity(ctx context.Context) (string, error) {
	id, err := n.do(ctx, redlock.Request{Op: redlock.OpIdentify})
	return strconv.FormatInt(id, 16), err
}

// Ready ends the node's quarantine, as that of package redisnode does.
func (n *Node) Ready(ctx context.Context) error {
	_, err := n.do(ctx, redlock.Request{Op: redlock.OpReady})
	return err
}

func yes(n int64, err error) (bool, error) { return n > 0, err }

// call is the Collector of one request.
type call struct {
	value int64
	err   error
	done  chan struct{}
}

func (c *call) Answered(_ *redlock.Request, value int64, err error) {
	c.value, c.err = value, err
	close(c.done)
}

func (n *Node) do(ctx context.Context, r redlock.Request) (int64, error) {
	c := &call{done: make(chan struct{})}
	r.To, r.Deadline = c, n.o.Now().Add(n.o.Timeout)
	n.Submit(&r)
	n.Flush()
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		return 0, fmt.Errorf("ask %s: %w", n, context.Cause(ctx))
	}
}
