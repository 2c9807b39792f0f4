package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/redlock/driver"
)

// errNotAwaited replaces the answer of a node if the caller did not wait for it.
var errNotAwaited = errors.New("not waited for")

// ballot is one request to several nodes. The request to each node runs until it is answered or
// times out, whether or not a caller waits for it.
//
//	ask ──► n1 yes, n2 yes, n3 yes: a quorum, Acquire returns … n4 yes, n5 no answer
//	                                                       └─ onAnswer ─────┘
type ballot struct {
	timeout <-chan time.Time   // nil with Batchers, which have their own timeouts
	cancel  context.CancelFunc // nil without Batchers
	batcher *batchSender       // set with Batchers
	work    *sync.WaitGroup    // if not nil, counts the requests in progress

	mu            sync.Mutex
	votes         []vote // one per node
	numMissing    int    // number of missing answers
	numUnfinished int    // number of answers that are missing or whose callback is running
	refs          int    // one for the caller, one for the requests; the last user returns the ballot to batchSender.pool
	quorum        int    // number of nodes that must agree; see decided
	waiting       bool   // a caller is waiting for wake
	wake          chan struct{}
	onAnswer      func(driver.Answer)
}

// vote is a request to one node, with its answer.
type vote struct {
	request driver.Request // only with Batchers
	answer  driver.Answer
}

func (b *ballot) begin(nodes []int, work *sync.WaitGroup) {
	if cap(b.votes) < len(nodes) {
		b.votes = make([]vote, len(nodes))
	}
	b.votes, b.numMissing, b.numUnfinished, b.refs, b.work = b.votes[:len(nodes)], len(nodes), len(nodes), 2, work
	for i, n := range nodes {
		b.votes[i].answer = driver.Answer{Node: n, Err: errNotAwaited}
	}
	if work != nil {
		work.Add(1)
	}
}

// isPlaceholder reports whether a is a placeholder for a missing answer.
func isPlaceholder(a driver.Answer) bool { return a.Err == errNotAwaited || a.Err == errNoAnswer }

// send sends r to nodes, in batches if they are Batchers, otherwise with one goroutine per node.
// Canceling ctx does not cancel the requests.
func (l *Locker) send(ctx context.Context, nodes []int, r driver.Request) *ballot {
	if l.client.batcher == nil || r.Op == driver.OpIdentify {
		return l.sendEach(ctx, nodes, func(int) driver.Request { return r })
	}
	return l.client.batcher.send(nodes, &l.work, r, l.cfg.Now().Add(l.cfg.Timeout))
}

// sendEach sends a separate request to each node, with one goroutine per node.
func (l *Locker) sendEach(ctx context.Context, nodes []int, r func(node int) driver.Request) *ballot {
	b := new(ballot)
	b.begin(nodes, &l.work)
	ctx, b.cancel = context.WithTimeout(context.WithoutCancel(ctx), l.cfg.Timeout+l.cfg.Timeout/8)
	for i, n := range nodes {
		go func() {
			value, err := l.execute(ctx, n, r(n))
			b.answer(i, value, err)
		}()
	}
	b.timeout = l.cfg.After(l.cfg.Timeout)
	return b
}

// execute executes r on one node. For OpIdentify it records the returned identity.
func (l *Locker) execute(ctx context.Context, n int, r driver.Request) (int64, error) {
	if r.Op != driver.OpIdentify {
		return executeOn(ctx, r, l.cfg.Nodes[n])
	}
	id, err := l.cfg.Nodes[n].(driver.Identifier).Identity(ctx)
	if err == nil {
		l.setIdentity(n, id)
	}
	return boolValue(err == nil, err)
}

// Answered implements driver.Collector.
func (b *ballot) Answered(r *driver.Request, value int64, err error) { b.answer(r.Node, value, err) }

func (b *ballot) answer(i int, value int64, err error) {
	b.mu.Lock()
	a := &b.votes[i].answer
	a.Value, a.Err = value, err
	answer := *a
	b.numMissing--
	callback := b.onAnswer
	if callback == nil {
		b.numUnfinished--
	}
	last := b.numUnfinished == 0
	if b.waiting && b.decided() {
		b.waiting = false
		b.wake <- struct{}{}
	}
	b.mu.Unlock()
	if callback != nil {
		callback(answer)
		b.mu.Lock()
		b.numUnfinished--
		last = b.numUnfinished == 0
		b.mu.Unlock()
	}
	if !last {
		return
	}
	if b.cancel != nil {
		b.cancel()
	}
	work := b.work
	b.unref()
	if work != nil {
		work.Done()
	}
}

// unref drops one of the two references to b. The caller holds one, and the requests share the
// other.
func (b *ballot) unref() {
	b.mu.Lock()
	b.refs--
	unused := b.refs == 0 && b.batcher != nil
	b.mu.Unlock()
	if unused {
		b.batcher.put(b)
	}
}

// forEach calls f for each answer that has arrived, and later for each answer that arrives.
func (b *ballot) forEach(f func(driver.Answer)) {
	var arrived []driver.Answer
	b.mu.Lock()
	for i := range b.votes {
		if a := b.votes[i].answer; !isPlaceholder(a) {
			arrived = append(arrived, a)
		}
	}
	b.onAnswer = f
	b.mu.Unlock()
	for _, a := range arrived {
		f(a)
	}
}

// decided reports whether the outcome is clear: b.quorum nodes have said yes, or too few nodes are
// left to reach it. With waitForAll, every answer must have arrived.
func (b *ballot) decided() bool {
	if b.quorum == waitForAll || b.numMissing == 0 {
		return b.numMissing == 0
	}
	yes := 0
	for i := range b.votes {
		if b.votes[i].answer.Yes() {
			yes++
		}
	}
	return yes >= b.quorum || yes+b.numMissing < b.quorum
}

// waitForAll can be passed instead of a quorum, to wait for every answer.
const waitForAll = 0

// wait waits until a quorum has said yes or has become impossible, the timeout has passed, or p has
// ended. It appends the answers so far to buf, in node order.
func (b *ballot) wait(p waitContext, quorum int, buf []driver.Answer) []driver.Answer {
	b.mu.Lock()
	if b.quorum = quorum; b.decided() {
		return b.appendAndUnlock(buf)
	}
	if b.wake == nil {
		b.wake = make(chan struct{}, 1)
	}
	b.waiting = true
	b.mu.Unlock()
	if b.batcher != nil {
		b.batcher.waiters.Add(1)
		defer b.batcher.waiters.Add(-1)
	}
	timedOut := false
	select {
	case <-b.wake:
	case <-b.timeout:
		timedOut = true
	case <-p.Done():
	case <-p.lifetimeDone():
	}
	b.mu.Lock()
	b.waiting = false
	select {
	case <-b.wake: // a wake-up that arrived in the meantime
	default:
	}
	for i := range b.votes {
		if a := &b.votes[i].answer; timedOut && isPlaceholder(*a) {
			a.Err = errNoAnswer
		}
	}
	return b.appendAndUnlock(buf)
}

// appendAndUnlock appends the answers to buf and unlocks b.mu, which the caller must have locked.
func (b *ballot) appendAndUnlock(buf []driver.Answer) []driver.Answer {
	buf = slices.Grow(buf, len(b.votes))
	for i := range b.votes {
		buf = append(buf, b.votes[i].answer)
	}
	b.mu.Unlock()
	return buf
}

// waitContext ends when its context ends or, if lifetime is not nil, when the Locker is closed.
type waitContext struct {
	context.Context
	lifetime context.Context
}

func (p waitContext) lifetimeDone() <-chan struct{} {
	if p.lifetime == nil {
		return nil
	}
	return p.lifetime.Done()
}

// endedContext returns the context that has ended, or nil.
func (p waitContext) endedContext() context.Context {
	switch {
	case p.Context.Err() != nil:
		return p.Context
	case p.lifetime != nil && p.lifetime.Err() != nil:
		return p.lifetime
	}
	return nil
}

// send sends r to nodes, given by their indices, and returns their answers.
func (c *Client) send(ctx context.Context, nodes []int, r driver.Request) []driver.Answer {
	if c.batcher != nil && ctx.Err() == nil {
		b := c.batcher.send(nodes, nil, r, c.cfg.Now().Add(c.cfg.Timeout))
		defer b.unref()
		return b.wait(waitContext{Context: ctx}, waitForAll, nil)
	}
	return c.cfg.Ask(ctx, nodes, func(ctx context.Context, node int) (int64, error) { return executeOn(ctx, r, c.cfg.Nodes[node]) })
}

// Ask calls request for each of the given nodes, which are indices of c.Nodes, and returns the
// answers in the same order. It returns when all requests have been answered or timed out, or ctx
// has ended. It is meant for other lock implementations that send requests to many nodes at once,
// as Redlock does. c must be a result of WithDefaults.
func (c Config) Ask(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []driver.Answer {
	if !c.Sequential {
		return c.round(ctx, nodes, request)
	}
	var out []driver.Answer
	for i := range nodes {
		out = append(out, c.round(ctx, nodes[i:i+1], request)...)
	}
	return out
}

// round calls request for all nodes at once.
//
// A single timer on the client's clock ends the round, so a driver that ignores its context delays
// nobody, and no two timers are due at the same instant. The drivers' deadline is an eighth of the
// timeout later and only lets them free their resources. The caller is woken once, by the last
// answer or by the end of the round. Later answers are dropped.
func (c Config) round(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []driver.Answer {
	out := make([]driver.Answer, len(nodes))
	for i, n := range nodes {
		out[i] = driver.Answer{Node: n, Err: errNoAnswer}
	}
	if ctx.Err() != nil || len(nodes) == 0 {
		return out
	}
	nodeCtx, cancel := context.WithTimeout(ctx, c.Timeout+c.Timeout/8)
	defer cancel()

	var mu sync.Mutex // guards out and left
	numMissing, allAnswered := len(nodes), make(chan struct{})
	for i, n := range nodes {
		go func() {
			growStack(i)
			value, err := request(nodeCtx, n)
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil { // once ctx has ended, a driver's error is not an answer
				out[i].Value, out[i].Err = value, err
			}
			if numMissing--; numMissing == 0 {
				close(allAnswered)
			}
		}()
	}
	select {
	case <-allAnswered:
		return out
	case <-c.After(c.Timeout):
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(out)
}

// stackSize is roughly how much stack go-redis needs.
const stackSize = 7000

// growStack grows a new goroutine's stack while there is nothing on it to copy. Otherwise the
// stack would double twice during the driver's work, which accounted for a tenth of the CPU time of
// a simulated run with go-redis.
//
//go:noinline
func growStack(i int) byte {
	var padding [stackSize]byte
	return padding[i]
}

// nodeErrors returns an error for each node that did not say yes.
func (c *Client) nodeErrors(answers []driver.Answer) []NodeError {
	var out []NodeError
	for _, a := range answers {
		err := a.Err
		if err == nil {
			err = errRefused
		}
		if !a.Yes() {
			out = append(out, NodeError{c.nodeName(a.Node), err})
		}
	}
	return out
}

func (c *Client) nodeName(node int) string {
	if s, ok := c.cfg.Nodes[node].(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("node %d", node+1)
}

// batchSender sends requests to nodes that are all Batchers, without a goroutine or timer per
// request.
type batchSender struct {
	nodes        []driver.Batcher
	isGranter    []bool       // by node
	pool         sync.Pool    // unused ballots
	waiters      atomic.Int32 // number of callers waiting for answers
	flushPending atomic.Bool  // a goroutine is about to flush
}

// newBatchSender returns nil unless all nodes are Batchers.
func newBatchSender(nodes []Node) *batchSender {
	rs := &batchSender{}
	for _, n := range nodes {
		b, ok := n.(driver.Batcher)
		if !ok {
			return nil
		}
		_, grants := n.(driver.Granter)
		rs.nodes, rs.isGranter = append(rs.nodes, b), append(rs.isGranter, grants)
	}
	return rs
}

// send submits r to nodes and flushes it.
func (rs *batchSender) send(nodes []int, work *sync.WaitGroup, r driver.Request, deadline time.Time) *ballot {
	b, _ := rs.pool.Get().(*ballot)
	if b == nil {
		b = &ballot{batcher: rs}
	}
	b.begin(nodes, work)
	r.Deadline, r.Collector = deadline, b
	for i, n := range nodes {
		v := &b.votes[i]
		v.request = r
		v.request.Op, v.request.Node = simplestOp(r.Op, rs.isGranter[n], r.Terms), i
		rs.nodes[n].Submit(&v.request)
	}
	rs.flush()
	return b
}

// put clears b and returns it to the pool.
func (rs *batchSender) put(b *ballot) {
	clear(b.votes)
	b.work, b.onAnswer, b.quorum = nil, nil, 0
	rs.pool.Put(b)
}

// simplestOp returns the simplest operation that a node can execute instead of o. Batchers keep
// requests in order, so they need no tombstones. Without fencing and quarantine, the plain
// operations suffice.
func simplestOp(o driver.Op, granter bool, t driver.Terms) driver.Op {
	switch {
	case o == driver.OpAbandon:
		return driver.OpRelease
	case o != driver.OpGrant || granter && (t.Fence || t.Quarantine > 0):
		return o
	case t.Fence:
		return driver.OpSetFenced
	}
	return driver.OpSet
}

// flush sends the submitted requests to all nodes. If no caller is waiting for answers, it sends
// them directly. Otherwise, one goroutine sends the requests of all callers that can run now, so
// that batches grow with load.
func (rs *batchSender) flush() {
	if rs.waiters.Load() == 0 {
		rs.flushAll()
	} else if !rs.flushPending.Swap(true) {
		go func() {
			runtime.Gosched()
			rs.flushPending.Store(false)
			rs.flushAll()
		}()
	}
}

func (rs *batchSender) flushAll() {
	for _, n := range rs.nodes {
		n.Flush()
	}
}
