// Package wire is a driver.Batcher on a connection of its own, for programs that
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
// commands other than those of package driver and SET.
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

	"lockpick/redlock/driver"
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
	_ driver.Debtor     = (*Node)(nil)
	_ driver.Fencer     = (*Node)(nil)
	_ driver.Granter    = (*Node)(nil)
	_ driver.Identifier = (*Node)(nil)
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

// Set implements driver.Node.
func (n *Node) Set(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	return yes(n.do(ctx, driver.Request{Op: driver.OpSet, Key: key, Token: token, Terms: driver.Terms{TTL: ttl}}))
}

// Extend implements driver.Node.
func (n *Node) Extend(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	return yes(n.do(ctx, driver.Request{Op: driver.OpExtend, Key: key, Token: token, Terms: driver.Terms{TTL: ttl}}))
}

// Release implements driver.Node. How long the key can still live is not known here;
// a debt is kept for a minute.
func (n *Node) Release(ctx context.Context, key, token string) (bool, error) {
	return yes(n.do(ctx, driver.Request{Op: driver.OpRelease, Key: key, Token: token, Terms: driver.Terms{TTL: time.Minute}}))
}

// SetFenced implements driver.Fencer.
func (n *Node) SetFenced(ctx context.Context, key, token string, ttl time.Duration) (int64, error) {
	return n.do(ctx, driver.Request{Op: driver.OpSetFenced, Key: key, Token: token, Terms: driver.Terms{TTL: ttl}})
}

// RaiseFence implements driver.Fencer.
func (n *Node) RaiseFence(ctx context.Context, key, token string, fence int64) (bool, error) {
	return yes(n.do(ctx, driver.Request{Op: driver.OpRaiseFence, Key: key, Token: token, Count: fence}))
}

// Grant implements driver.Granter.
func (n *Node) Grant(ctx context.Context, key, token string, t driver.Terms) (int64, error) {
	return n.do(ctx, driver.Request{Op: driver.OpGrant, Key: key, Token: token, Terms: t})
}

// Abandon implements driver.Granter.
func (n *Node) Abandon(ctx context.Context, key, token string, refuse time.Duration) (bool, error) {
	return yes(n.do(ctx, driver.Request{Op: driver.OpAbandon, Key: key, Token: token, Terms: driver.Terms{TTL: refuse}}))
}

// Identity implements driver.Identifier by the server's run_id.
func (n *Node) Identity(ctx context.Context) (string, error) {
	id, err := n.do(ctx, driver.Request{Op: driver.OpIdentify})
	return strconv.FormatInt(id, 16), err
}

// Ready ends the node's quarantine, as that of package redisnode does.
func (n *Node) Ready(ctx context.Context) error {
	_, err := n.do(ctx, driver.Request{Op: driver.OpReady})
	return err
}

func yes(n int64, err error) (bool, error) { return n > 0, err }

// call is the Collector of one request.
type call struct {
	value int64
	err   error
	done  chan struct{}
}

func (c *call) Answered(_ *driver.Request, value int64, err error) {
	c.value, c.err = value, err
	close(c.done)
}

func (n *Node) do(ctx context.Context, r driver.Request) (int64, error) {
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

// most is the keys that one script releases or grants: how long a node may be held up.
const most = 64

// entry is a request between Submit and the node's answer.
type entry struct {
	r    *driver.Request // nil once it was answered
	owed *debt           // what is left of a release that was answered without the node
	same int             // requests in its command, from this one on
	due  time.Duration   // by when it is answered, since Node.base
}

// release is the key and the token of a release; ok is false for other steps.
func (e entry) release() (d debt, ok bool) {
	if e.owed != nil {
		return *e.owed, true
	}
	if e.r == nil || e.r.Op != driver.OpRelease {
		return debt{}, false
	}
	return debt{e.r.Key, e.r.Token, e.due + e.r.TTL}, true
}

// batch is what was submitted and is not yet part of the output: releases in one script
// of many keys, and the other steps behind them, of which grants that follow each other on the
// same terms share a script, too.
type batch struct {
	due              time.Duration // the first one's
	rel, set, grants []entry
	keys, toks, sets []byte
	tokens           map[string]struct{} // of set and grants
}

func (b *batch) empty() bool { return len(b.rel)+len(b.set)+len(b.grants) == 0 }

// outbox is what is to be sent to a node, and what it is still to answer.
type outbox struct {
	runID   string // of the process that is asked; "": the node does not tell
	batch   batch
	out     []byte // encoded, not yet given to a write
	waiting queue  // sent, or to be sent
}

// Submit implements driver.Batcher.
func (n *line) Submit(r *driver.Request) {
	e := entry{r: r, due: r.Deadline.Sub(n.base)}
	n.mu.Lock()
	switch n.state {
	case up:
		n.add(e)
	case idle:
		n.connect()
		fallthrough
	case dialling:
		n.pending = append(n.pending, e)
	default:
		n.undone(e)
		err := n.why
		n.mu.Unlock()
		r.To.Answered(r, 0, err)
		return
	}
	n.arm(e.due)
	n.mu.Unlock()
}

// add puts e into the batch. A release whose own set is in there goes into the next.
func (n *outbox) add(e entry) {
	b := &n.batch
	d, isRelease := e.release()
	if isRelease {
		if _, ok := b.tokens[d.token]; ok {
			n.closeBatch()
		} else if len(b.rel) == most {
			n.closeScript()
		}
	}
	if b.empty() {
		b.due = e.due
	}
	if isRelease {
		b.keys, b.toks = bulk(b.keys, d.key), bulk(b.toks, d.token)
		b.rel = append(b.rel, e)
		return
	}
	if b.tokens == nil {
		b.tokens = map[string]struct{}{}
	}
	b.tokens[e.r.Token] = struct{}{}
	if e.r.Op != driver.OpGrant {
		n.closeGrants()
		b.sets = step(b.sets, e.r, false, n.runID)
		e.same = 1
		b.set = append(b.set, e)
		return
	}
	if k := len(b.grants); k == most || k > 0 && b.grants[0].r.Terms != e.r.Terms {
		n.closeGrants()
	}
	b.grants = append(b.grants, e)
}

func (n *outbox) closeGrants() {
	b := &n.batch
	b.sets = grants(b.sets, b.grants, false, n.runID)
	for i, e := range b.grants {
		e.same = len(b.grants) - i
		b.set = append(b.set, e)
	}
	b.grants = b.grants[:0]
}

func (n *outbox) closeScript() {
	b := &n.batch
	if len(b.rel) == 0 {
		return
	}
	n.out = releases(n.out, len(b.rel), false)
	n.out = append(append(n.out, b.keys...), b.toks...)
	for i, e := range b.rel {
		e.same, e.due = len(b.rel)-i, b.due
		n.waiting.push(e)
	}
	b.keys, b.toks, b.rel = b.keys[:0], b.toks[:0], b.rel[:0]
}

func (n *outbox) closeBatch() {
	n.closeScript()
	n.closeGrants()
	b := &n.batch
	n.out = append(n.out, b.sets...)
	for _, e := range b.set {
		e.due = b.due
		n.waiting.push(e)
	}
	b.sets, b.set = b.sets[:0], b.set[:0]
	clear(b.tokens)
}

// isReleased says whether a release of token is on its way.
func (n *outbox) isReleased(token string) bool {
	for _, e := range n.waiting.rest() {
		if d, ok := e.release(); ok && d.token == token {
			return true
		}
	}
	for _, e := range n.batch.rel {
		if d, _ := e.release(); d.token == token {
			return true
		}
	}
	return false
}

// releases begins the command that releases so many keys.
func releases(b []byte, keys int, whole bool) []byte {
	if keys == 1 {
		return run(b, driver.Release, whole, 1, 1)
	}
	return run(b, driver.Releases, whole, keys, keys)
}

// Flush implements driver.Batcher. What the socket does not take at once, a goroutine
// writes.
func (n *line) Flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for !n.writing && n.state == up && (!n.batch.empty() || len(n.out) > 0) {
		n.closeBatch()
		buf, c, raw := n.out, n.conn, n.raw
		n.out, n.spare, n.writing = n.spare[:0], nil, true
		n.mu.Unlock()
		done := n.try.write(raw, buf)
		n.mu.Lock()
		if done < len(buf) && n.conn == c {
			n.running.Add(1)
			go n.rest(c, buf[done:])
			return
		}
		n.writing, n.spare = false, buf
	}
}

// rest writes what Flush could not, and flushes what came meanwhile.
func (n *line) rest(c net.Conn, buf []byte) {
	defer n.running.Done()
	if _, err := c.Write(buf); err != nil {
		n.fail(c, err)
	}
	n.mu.Lock()
	n.writing = false
	n.mu.Unlock()
	n.Flush()
}

// queue is entries in order. Those at the front are answered first.
type queue struct {
	all  []entry
	head int
	late int // all before it are past their deadline
}

func (q *queue) len() int      { return len(q.all) - q.head }
func (q *queue) push(e entry)  { q.all = append(q.all, e) }
func (q *queue) first() *entry { return &q.all[q.head] }
func (q *queue) rest() []entry { return q.all[q.head:] }
func (q *queue) overdue() bool { return q.late > q.head }

func (q *queue) pop() entry {
	e := q.all[q.head]
	q.all[q.head] = entry{}
	q.head++
	q.late = max(q.late, q.head)
	switch {
	case q.head == len(q.all):
		*q = queue{all: q.all[:0]}
	case q.head >= 4096:
		*q = queue{all: q.all[:copy(q.all, q.all[q.head:])], late: q.late - q.head}
	}
	return e
}

// timer is the one that sees to a node's deadlines. It runs while requests wait.
type timer struct {
	armed  bool
	due    time.Duration // when it is to fire
	silent time.Duration // since when something is overdue and nothing was read; 0: not so
	paused bool          // the last time it fired much too late
}

// arm makes sure that somebody looks when a request is due. Whoever calls it holds the
// mutex.
func (n *line) arm(due time.Duration) {
	if n.timer.armed {
		return
	}
	n.timer.armed, n.timer.due = true, due
	n.running.Add(1)
	go func() {
		defer n.running.Done()
		for wait := max(0, due-n.now()); wait >= 0; {
			select {
			case <-n.o.After(wait):
				wait = n.expire(n.now())
			case <-n.ctx.Done():
				return
			}
		}
	}()
}

// expire answers what is overdue, and says when to look again; below 0: there is no need.
// The answers may still come, and are dropped. Only if nothing at all is read for another
// quarter of the time-out is the connection given up.
func (n *line) expire(now time.Duration) (wait time.Duration) {
	n.mu.Lock()
	t, quarter := &n.timer, n.o.Timeout/4
	if !t.paused && now-t.due > quarter {
		// This process was paused, and answers may lie in the socket.
		t.paused, t.due = true, now+quarter
		n.mu.Unlock()
		return quarter
	}
	t.paused = false
	over := n.overdue(now)
	var dead net.Conn
	next := n.next()
	if n.waiting.overdue() {
		if t.silent == 0 {
			t.silent = now
		}
		if end := t.silent + quarter; end <= now {
			dead, next = n.conn, -1
		} else if next < 0 || end < next {
			next = end
		}
	}
	if next < 0 {
		t.armed, t.silent, wait = false, 0, -1
	} else {
		t.due, wait = next, max(0, next-now)
	}
	n.mu.Unlock()
	answer(over, errLate)
	if dead != nil {
		n.fail(dead, errIgnored)
	}
	return wait
}

// overdue takes out of all that waits what must be answered now.
func (n *line) overdue(now time.Duration) (over []entry) {
	for len(n.pending) > 0 && n.pending[0].due <= now {
		n.undone(n.pending[0])
		over = append(over, n.pending[0])
		n.pending = n.pending[1:]
	}
	n.closeBatch()
	for q := &n.waiting; q.late < len(q.all) && q.all[q.late].due <= now; q.late++ {
		e := &q.all[q.late]
		if e.r == nil {
			continue
		}
		over = append(over, *e)
		if d, ok := e.release(); ok {
			e.owed = &d
		}
		e.r = nil
	}
	return over
}

// next is when the next request is due, below 0 if none is.
func (n *line) next() time.Duration {
	next := time.Duration(-1)
	if len(n.pending) > 0 {
		next = n.pending[0].due
	}
	if q := n.waiting; q.late < len(q.all) && (next < 0 || q.all[q.late].due < next) {
		next = q.all[q.late].due
	}
	return next
}
