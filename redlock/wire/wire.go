// Package wire implements a driver.Batcher with its own connections, for programs that acquire
// locks often. It sends the requests of many goroutines in one write, needs no goroutine and almost
// no allocations per request, and combines releases in one script.
//
// A Node is one independent Redis master. It has one connection, which is opened when first needed
// and replaced when it fails. The protocol is RESP2 over TCP, TLS or a Unix socket. All versions of
// Redis and Valkey start each connection in RESP2, and no reply to a lock needs a type that only
// RESP3 has.
//
//	callers ── Submit ──►  batch: releases, then sets  ── Flush ──►  socket ──►  node
//	        ◄── Answered ── waiting requests, in order  ◄── reader ──
//	                        their deadlines  ◄── one timer
//
// A node executes the requests on one connection in order, so no set arrives after its release. Two
// measures ensure this across connections. A release that the node may not have received is sent
// first on the next connection. And the next connection makes the node kill the previous one, from
// which the node may still have data to read.
//
// There are deliberately no retries, because the lock decides when to retry. Redis Cluster is not
// supported, and neither are commands other than SET and those of package driver.
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

// Options configures the connection to a node. Only Addr is required.
type Options struct {
	// Addr is host:port, or the path of a Unix socket, which begins with a slash.
	Addr string
	// Username and Password are for AUTH, which is not sent if both are empty.
	Username, Password string
	// DB is the database number, and ClientName is the name shown by CLIENT LIST.
	DB         int
	ClientName string
	// TLS enables encryption. Its ServerName defaults to the host in Addr.
	TLS *tls.Config
	// Timeout is the lock's timeout per request, redlock.Config.Timeout. A connection with an
	// overdue request is replaced if nothing is read for another quarter of the timeout. Default:
	// 50 ms.
	Timeout time.Duration
	// DialTimeout limits the time to connect, including the handshake. The first dial is limited to
	// eight times Timeout, if that is less. Each further dial may take twice as long as the
	// previous one. Default: 1 s.
	DialTimeout time.Duration
	// Dial connects. It must respect ctx. Default: the DialContext method of a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Now and After are the clock and the timer. They should be the same as in the lock's Config.
	// Defaults: time.Now and time.After.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Node is one Redis master. It is safe for concurrent use.
type Node struct{ *nodeState }

// nodeState is the state of a Node. It outlives connections.
type nodeState struct {
	opts       Options
	network    string
	base       time.Time       // deadlines are relative to it
	ctx        context.Context // canceled by Close
	stop       context.CancelFunc
	goroutines sync.WaitGroup

	// mu is not held while the clock is read, which takes long if this process is paused.
	mu              sync.Mutex
	state           state
	dialErr         error   // why there is no connection
	pending         []entry // requests waiting for a connection
	conn            net.Conn
	rawConn         syscall.RawConn // of conn; nil unless conn is a socket
	id              int64           // CLIENT ID of the current or last connection; 0: no connection yet
	outbox                          // for conn
	spareBuf        []byte
	writing         bool
	pendingReleases []pendingRelease
	unsentTokens    map[string]struct{} // tokens whose sets were never sent
	timer           timer

	writer      nonblockingWriter // only for the goroutine that writes
	dialTimeout time.Duration     // limit of the last dial, or 0 if it finished in time; only for the goroutine that connects
}

type state int

const (
	stateIdle       state = iota // no connection, and none needed
	stateDialing                 // connecting
	stateBackingOff              // the last dial failed; waiting before the next
	stateConnected
	stateClosed
)

var (
	_ driver.Settler    = (*Node)(nil)
	_ driver.Fencer     = (*Node)(nil)
	_ driver.Granter    = (*Node)(nil)
	_ driver.Identifier = (*Node)(nil)
)

var (
	errClosed       = errors.New("the node is closed")
	errTimeout      = errors.New("no answer in time")
	errUnresponsive = errors.New("no answer in time: the node is unresponsive")
)

// New returns a node. It does not connect yet.
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
	n := &nodeState{opts: o, network: "tcp", base: o.Now(), unsentTokens: map[string]struct{}{}}
	if len(o.Addr) > 0 && o.Addr[0] == '/' {
		n.network = "unix"
	}
	n.ctx, n.stop = context.WithCancel(context.Background())
	return &Node{n}
}

// String returns the node's address.
func (n *nodeState) String() string { return n.opts.Addr }

// Close closes the connection and waits until all goroutines have ended. Unanswered requests are
// answered with an error.
func (n *nodeState) Close() error {
	n.mu.Lock()
	c := n.conn
	unanswered := n.pending
	n.state, n.dialErr, n.pending, n.pendingReleases = stateClosed, errClosed, nil, nil
	n.mu.Unlock()
	n.stop()
	if c != nil {
		n.closeConn(c, errClosed)
	}
	answerAll(unanswered, errClosed)
	n.goroutines.Wait()
	return nil
}

// now returns the time since the node was created.
func (n *nodeState) now() time.Duration { return n.opts.Now().Sub(n.base) }

// Set implements driver.Node.
func (n *Node) Set(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	return boolResult(n.do(ctx, driver.Request{Op: driver.OpSet, Key: key, Token: token, Terms: driver.Terms{TTL: ttl}}))
}

// Extend implements driver.Node.
func (n *Node) Extend(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	return boolResult(n.do(ctx, driver.Request{Op: driver.OpExtend, Key: key, Token: token, Terms: driver.Terms{TTL: ttl}}))
}

// Release implements driver.Node. It does not know how long the key can still live, so an
// unanswered release stays pending for a minute.
func (n *Node) Release(ctx context.Context, key, token string) (bool, error) {
	return boolResult(n.do(ctx, driver.Request{Op: driver.OpRelease, Key: key, Token: token, Terms: driver.Terms{TTL: time.Minute}}))
}

// SetFenced implements driver.Fencer.
func (n *Node) SetFenced(ctx context.Context, key, token string, ttl time.Duration) (int64, error) {
	return n.do(ctx, driver.Request{Op: driver.OpSetFenced, Key: key, Token: token, Terms: driver.Terms{TTL: ttl}})
}

// RaiseFence implements driver.Fencer.
func (n *Node) RaiseFence(ctx context.Context, key, token string, fence int64) (bool, error) {
	return boolResult(n.do(ctx, driver.Request{Op: driver.OpRaiseFence, Key: key, Token: token, Count: fence}))
}

// Grant implements driver.Granter.
func (n *Node) Grant(ctx context.Context, key, token string, t driver.Terms) (int64, error) {
	return n.do(ctx, driver.Request{Op: driver.OpGrant, Key: key, Token: token, Terms: t})
}

// Abandon implements driver.Granter.
func (n *Node) Abandon(ctx context.Context, key, token string, refuse time.Duration) (bool, error) {
	return boolResult(n.do(ctx, driver.Request{Op: driver.OpAbandon, Key: key, Token: token, Terms: driver.Terms{TTL: refuse}}))
}

// Identity implements driver.Identifier. It returns a prefix of the server's run_id.
func (n *Node) Identity(ctx context.Context) (string, error) {
	id, err := n.do(ctx, driver.Request{Op: driver.OpIdentify})
	return strconv.FormatInt(id, 16), err
}

// Ready ends the node's quarantine; see redisnode.Node.Ready.
func (n *Node) Ready(ctx context.Context) error {
	_, err := n.do(ctx, driver.Request{Op: driver.OpReady})
	return err
}

func boolResult(n int64, err error) (bool, error) { return n > 0, err }

// call is the Collector for a single request.
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
	r.Collector, r.Deadline = c, n.opts.Now().Add(n.opts.Timeout)
	n.Submit(&r)
	n.Flush()
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		return 0, fmt.Errorf("request to %s: %w", n, context.Cause(ctx))
	}
}

// maxBatch limits how many keys one script releases or grants, and thus how long it occupies a
// node.
const maxBatch = 64

// entry is a submitted request that the node has not answered yet.
type entry struct {
	r                 *driver.Request // nil once answered
	unansweredRelease *pendingRelease // a release that was answered with an error although the node had not replied
	commandSize       int             // number of requests from this one to the last one in its command
	due               time.Duration   // deadline, relative to nodeState.base
}

// asRelease returns the release's key, token and expiry; ok is false for other operations.
func (e entry) asRelease() (d pendingRelease, ok bool) {
	if e.unansweredRelease != nil {
		return *e.unansweredRelease, true
	}
	if e.r == nil || e.r.Op != driver.OpRelease {
		return pendingRelease{}, false
	}
	return pendingRelease{e.r.Key, e.r.Token, e.due + e.r.TTL}, true
}

// batch contains the submitted requests that are not yet encoded in the output. The releases come
// first, in one script with many keys, then the other operations. Successive grants with the same
// terms share a script, too.
type batch struct {
	due                            time.Duration // deadline of the first request
	releases, steps, grants        []entry
	keyArgs, tokenArgs, stepOutput []byte
	tokens                         map[string]struct{} // tokens of steps and grants
}

func (b *batch) empty() bool { return len(b.releases)+len(b.steps)+len(b.grants) == 0 }

// outbox contains the requests to be sent to a node, and those waiting for its answer.
type outbox struct {
	runID    string // run_id of the server process, or "" if unknown
	batch    batch
	output   []byte // encoded, but not yet written
	inFlight queue  // already encoded, possibly sent
}

// Submit implements driver.Batcher.
func (n *nodeState) Submit(r *driver.Request) {
	e := entry{r: r, due: r.Deadline.Sub(n.base)}
	n.mu.Lock()
	switch n.state {
	case stateConnected:
		n.add(e)
	case stateIdle:
		n.connect()
		fallthrough
	case stateDialing:
		n.pending = append(n.pending, e)
	default:
		n.recordUnanswered(e)
		err := n.dialErr
		n.mu.Unlock()
		r.Collector.Answered(r, 0, err)
		return
	}
	n.startTimer(e.due)
	n.mu.Unlock()
}

// add puts e into the batch. A release whose set is in the current batch goes into the next one.
func (n *outbox) add(e entry) {
	b := &n.batch
	d, isRelease := e.asRelease()
	if isRelease {
		if _, ok := b.tokens[d.token]; ok {
			n.closeBatch()
		} else if len(b.releases) == maxBatch {
			n.closeScript()
		}
	}
	if b.empty() {
		b.due = e.due
	}
	if isRelease {
		b.keyArgs, b.tokenArgs = appendBulk(b.keyArgs, d.key), appendBulk(b.tokenArgs, d.token)
		b.releases = append(b.releases, e)
		return
	}
	if b.tokens == nil {
		b.tokens = map[string]struct{}{}
	}
	b.tokens[e.r.Token] = struct{}{}
	if e.r.Op != driver.OpGrant {
		n.closeGrants()
		b.stepOutput = appendStep(b.stepOutput, e.r, false, n.runID)
		e.commandSize = 1
		b.steps = append(b.steps, e)
		return
	}
	if k := len(b.grants); k == maxBatch || k > 0 && b.grants[0].r.Terms != e.r.Terms {
		n.closeGrants()
	}
	b.grants = append(b.grants, e)
}

func (n *outbox) closeGrants() {
	b := &n.batch
	b.stepOutput = appendGrants(b.stepOutput, b.grants, false, n.runID)
	for i, e := range b.grants {
		e.commandSize = len(b.grants) - i
		b.steps = append(b.steps, e)
	}
	b.grants = b.grants[:0]
}

func (n *outbox) closeScript() {
	b := &n.batch
	if len(b.releases) == 0 {
		return
	}
	n.output = appendReleases(n.output, len(b.releases), false)
	n.output = append(append(n.output, b.keyArgs...), b.tokenArgs...)
	for i, e := range b.releases {
		e.commandSize, e.due = len(b.releases)-i, b.due
		n.inFlight.push(e)
	}
	b.keyArgs, b.tokenArgs, b.releases = b.keyArgs[:0], b.tokenArgs[:0], b.releases[:0]
}

func (n *outbox) closeBatch() {
	n.closeScript()
	n.closeGrants()
	b := &n.batch
	n.output = append(n.output, b.stepOutput...)
	for _, e := range b.steps {
		e.due = b.due
		n.inFlight.push(e)
	}
	b.stepOutput, b.steps = b.stepOutput[:0], b.steps[:0]
	clear(b.tokens)
}

// isReleased reports whether a release of token is in progress.
func (n *outbox) isReleased(token string) bool {
	for _, e := range n.inFlight.entries() {
		if d, ok := e.asRelease(); ok && d.token == token {
			return true
		}
	}
	for _, e := range n.batch.releases {
		if d, _ := e.asRelease(); d.token == token {
			return true
		}
	}
	return false
}

// appendReleases appends the start of a command that releases the given number of keys.
func appendReleases(b []byte, keys int, fullText bool) []byte {
	if keys == 1 {
		return appendScript(b, driver.Release, fullText, 1, 1)
	}
	return appendScript(b, driver.Releases, fullText, keys, keys)
}

// Flush implements driver.Batcher. If the socket does not accept all data at once, a goroutine
// writes the rest.
func (n *nodeState) Flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for !n.writing && n.state == stateConnected && (!n.batch.empty() || len(n.output) > 0) {
		n.closeBatch()
		buf, c, raw := n.output, n.conn, n.rawConn
		n.output, n.spareBuf, n.writing = n.spareBuf[:0], nil, true
		n.mu.Unlock()
		numWritten := n.writer.write(raw, buf)
		n.mu.Lock()
		if numWritten < len(buf) && n.conn == c {
			n.goroutines.Add(1)
			go n.writeRest(c, buf[numWritten:])
			return
		}
		n.writing, n.spareBuf = false, buf
	}
}

// writeRest writes the data that Flush could not write. Then it flushes the requests that arrived
// in the meantime.
func (n *nodeState) writeRest(c net.Conn, buf []byte) {
	defer n.goroutines.Done()
	if _, err := c.Write(buf); err != nil {
		n.closeConn(c, err)
	}
	n.mu.Lock()
	n.writing = false
	n.mu.Unlock()
	n.Flush()
}

// queue is a FIFO of entries. The node answers them in order.
type queue struct {
	items      []entry
	head       int
	overdueEnd int // index of the first entry that is not overdue
}

func (q *queue) len() int         { return len(q.items) - q.head }
func (q *queue) push(e entry)     { q.items = append(q.items, e) }
func (q *queue) first() *entry    { return &q.items[q.head] }
func (q *queue) entries() []entry { return q.items[q.head:] }
func (q *queue) hasOverdue() bool { return q.overdueEnd > q.head }

func (q *queue) pop() entry {
	e := q.items[q.head]
	q.items[q.head] = entry{}
	q.head++
	q.overdueEnd = max(q.overdueEnd, q.head)
	switch {
	case q.head == len(q.items):
		*q = queue{items: q.items[:0]}
	case q.head >= 4096:
		*q = queue{items: q.items[:copy(q.items, q.items[q.head:])], overdueEnd: q.overdueEnd - q.head}
	}
	return e
}

// timer watches a node's deadlines. It runs while requests are waiting.
type timer struct {
	armed             bool
	due               time.Duration // when it should fire
	unresponsiveSince time.Duration // when the node became unresponsive: a request was overdue and nothing has been read since; 0: responsive
	paused            bool          // it fired much too late last time
}

// startTimer makes the timer fire at due, unless it is already running. The caller must hold the
// mutex.
func (n *nodeState) startTimer(due time.Duration) {
	if n.timer.armed {
		return
	}
	n.timer.armed, n.timer.due = true, due
	n.goroutines.Add(1)
	go func() {
		defer n.goroutines.Done()
		for wait := max(0, due-n.now()); wait >= 0; {
			select {
			case <-n.opts.After(wait):
				wait = n.expire(n.now())
			case <-n.ctx.Done():
				return
			}
		}
	}()
}

// expire answers overdue requests with an error, and drops their replies if they arrive later. It
// closes the connection only if nothing at all is read for another quarter of the timeout. It
// returns the time until the next check, which is negative if none is needed.
func (n *nodeState) expire(now time.Duration) (wait time.Duration) {
	n.mu.Lock()
	t, quarter := &n.timer, n.opts.Timeout/4
	if !t.paused && now-t.due > quarter {
		// This process was paused, so replies may be waiting in the socket.
		t.paused, t.due = true, now+quarter
		n.mu.Unlock()
		return quarter
	}
	t.paused = false
	overdue := n.takeOverdue(now)
	var deadConn net.Conn
	next := n.nextDue()
	if n.inFlight.hasOverdue() {
		if t.unresponsiveSince == 0 {
			t.unresponsiveSince = now
		}
		if end := t.unresponsiveSince + quarter; end <= now {
			deadConn, next = n.conn, -1
		} else if next < 0 || end < next {
			next = end
		}
	}
	if next < 0 {
		t.armed, t.unresponsiveSince, wait = false, 0, -1
	} else {
		t.due, wait = next, max(0, next-now)
	}
	n.mu.Unlock()
	answerAll(overdue, errTimeout)
	if deadConn != nil {
		n.closeConn(deadConn, errUnresponsive)
	}
	return wait
}

// takeOverdue marks waiting requests whose deadlines have passed, and returns them.
func (n *nodeState) takeOverdue(now time.Duration) (overdue []entry) {
	for len(n.pending) > 0 && n.pending[0].due <= now {
		n.recordUnanswered(n.pending[0])
		overdue = append(overdue, n.pending[0])
		n.pending = n.pending[1:]
	}
	n.closeBatch()
	for q := &n.inFlight; q.overdueEnd < len(q.items) && q.items[q.overdueEnd].due <= now; q.overdueEnd++ {
		e := &q.items[q.overdueEnd]
		if e.r == nil {
			continue
		}
		overdue = append(overdue, *e)
		if d, ok := e.asRelease(); ok {
			e.unansweredRelease = &d
		}
		e.r = nil
	}
	return overdue
}

// nextDue returns the next deadline, or a negative value if no request is waiting.
func (n *nodeState) nextDue() time.Duration {
	next := time.Duration(-1)
	if len(n.pending) > 0 {
		next = n.pending[0].due
	}
	if q := n.inFlight; q.overdueEnd < len(q.items) && (next < 0 || q.items[q.overdueEnd].due < next) {
		next = q.items[q.overdueEnd].due
	}
	return next
}
