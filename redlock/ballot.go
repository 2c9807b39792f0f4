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

// errNotAwaited is what is known of a node whose answer was not needed.
var errNotAwaited = errors.New("not waited for")

// ballot is one request to several nodes. The requests go on until each is answered or its
// time is over, whether somebody waits for them or not.
//
//	ask ──► n1 yes, n2 yes, n3 yes: a quorum, Acquire returns … n4 yes, n5 no answer
//	                                                       └─ then ─────────┘
type ballot struct {
	end    <-chan time.Time // the time-out; of Batchers nil, for they see to it
	free   context.CancelFunc
	rounds *rounds         // of Batchers
	work   *sync.WaitGroup // what the requests count as, if not nil

	mu      sync.Mutex
	votes   []vote // one for each node
	left    int    // so many have not come
	undone  int    // so many have not come, or what follows them is still being done
	users   int    // whoever asked, and the requests: the last one puts it back to rounds.used
	quorum  int    // what is waited for, see enough
	awaited bool   // by somebody who reads from wake
	wake    chan struct{}
	follow  func(driver.Answer)
}

// vote is a request and its answer.
type vote struct {
	request driver.Request // to a Batcher
	answer  driver.Answer
}

func (b *ballot) begin(nodes []int, work *sync.WaitGroup) {
	if cap(b.votes) < len(nodes) {
		b.votes = make([]vote, len(nodes))
	}
	b.votes, b.left, b.undone, b.users, b.work = b.votes[:len(nodes)], len(nodes), len(nodes), 2, work
	for i, n := range nodes {
		b.votes[i].answer = driver.Answer{Node: n, Err: errNotAwaited}
	}
	if work != nil {
		work.Add(1)
	}
}

// open reports whether no answer has come.
func open(a driver.Answer) bool { return a.Err == errNotAwaited || a.Err == errNoAnswer }

// ask has nodes asked for r: Batchers together, others each by a goroutine. A caller who loses
// patience ends its waiting, not the requests.
func (l *Locker) ask(ctx context.Context, nodes []int, r driver.Request) *ballot {
	if l.plain.rounds == nil || r.Op == driver.OpIdentify {
		return l.spread(ctx, nodes, func(int) driver.Request { return r })
	}
	return l.plain.rounds.ask(nodes, &l.work, r, l.cfg.Now().Add(l.cfg.Timeout))
}

// spread asks each node by a goroutine, for what r says of it.
func (l *Locker) spread(ctx context.Context, nodes []int, r func(node int) driver.Request) *ballot {
	b := new(ballot)
	b.begin(nodes, &l.work)
	ctx, b.free = context.WithTimeout(context.WithoutCancel(ctx), l.cfg.Timeout+l.cfg.Timeout/8)
	for i, n := range nodes {
		go func() {
			value, err := l.carry(ctx, n, r(n))
			b.answer(i, value, err)
		}()
	}
	b.end = l.cfg.After(l.cfg.Timeout)
	return b
}

// carry has one node do what r says.
func (l *Locker) carry(ctx context.Context, n int, r driver.Request) (int64, error) {
	if r.Op != driver.OpIdentify {
		return carryOut(ctx, r, l.cfg.Nodes[n])
	}
	id, err := l.cfg.Nodes[n].(driver.Identifier).Identity(ctx)
	if err == nil {
		l.is(n, id)
	}
	return number(err == nil, err)
}

// Answered implements Collector.
func (b *ballot) Answered(r *driver.Request, value int64, err error) { b.answer(r.Node, value, err) }

func (b *ballot) answer(i int, value int64, err error) {
	b.mu.Lock()
	a := &b.votes[i].answer
	a.Value, a.Err = value, err
	answer := *a
	b.left--
	follow := b.follow
	if follow == nil {
		b.undone--
	}
	last := b.undone == 0
	if b.awaited && b.enough() {
		b.awaited = false
		b.wake <- struct{}{}
	}
	b.mu.Unlock()
	if follow != nil {
		follow(answer)
		b.mu.Lock()
		b.undone--
		last = b.undone == 0
		b.mu.Unlock()
	}
	if !last {
		return
	}
	if b.free != nil {
		b.free()
	}
	work := b.work
	b.leave()
	if work != nil {
		work.Done()
	}
}

// leave says that whoever asked, or the last request, has done with b.
func (b *ballot) leave() {
	b.mu.Lock()
	b.users--
	unused := b.users == 0 && b.rounds != nil
	b.mu.Unlock()
	if unused {
		b.rounds.put(b)
	}
}

// then has f called with each answer, those that have come and those to come.
func (b *ballot) then(f func(driver.Answer)) {
	var had []driver.Answer
	b.mu.Lock()
	for i := range b.votes {
		if a := b.votes[i].answer; !open(a) {
			had = append(had, a)
		}
	}
	b.follow = f
	b.mu.Unlock()
	for _, a := range had {
		f(a)
	}
}

// enough says whether the answers decide: so many have said yes, or so many can't any more.
// Where all are awaited, each has to be there.
func (b *ballot) enough() bool {
	if b.quorum == all || b.left == 0 {
		return b.left == 0
	}
	yes := 0
	for i := range b.votes {
		if b.votes[i].answer.Yes() {
			yes++
		}
	}
	return yes >= b.quorum || yes+b.left < b.quorum
}

// all is the quorum of those who wait for each answer.
const all = 0

// until waits until a quorum has said yes or none can, or the time-out has ended or the
// caller's patience. It appends what there is by then to buf, in the order of the nodes.
func (b *ballot) until(p patience, quorum int, buf []driver.Answer) []driver.Answer {
	b.mu.Lock()
	if b.quorum = quorum; b.enough() {
		return b.look(buf)
	}
	if b.wake == nil {
		b.wake = make(chan struct{}, 1)
	}
	b.awaited = true
	b.mu.Unlock()
	if b.rounds != nil {
		b.rounds.waiting.Add(1)
		defer b.rounds.waiting.Add(-1)
	}
	late := false
	select {
	case <-b.wake:
	case <-b.end:
		late = true
	case <-p.Done():
	case <-p.closed():
	}
	b.mu.Lock()
	b.awaited = false
	select {
	case <-b.wake: // it came meanwhile
	default:
	}
	for i := range b.votes {
		if a := &b.votes[i].answer; late && open(*a) {
			a.Err = errNoAnswer
		}
	}
	return b.look(buf)
}

// look appends the answers to buf, and ends what its caller began by locking b.
func (b *ballot) look(buf []driver.Answer) []driver.Answer {
	buf = slices.Grow(buf, len(b.votes))
	for i := range b.votes {
		buf = append(buf, b.votes[i].answer)
	}
	b.mu.Unlock()
	return buf
}

// patience is for how long somebody waits: until a context ends, and the life of the Locker,
// if that is not nil.
type patience struct {
	context.Context
	life context.Context
}

func (p patience) closed() <-chan struct{} {
	if p.life == nil {
		return nil
	}
	return p.life.Done()
}

// ended returns the context that has ended, or nil.
func (p patience) ended() context.Context {
	switch {
	case p.Context.Err() != nil:
		return p.Context
	case p.life != nil && p.life.Err() != nil:
		return p.life
	}
	return nil
}

// ask asks nodes by their indices for the step of r.
func (c *Client) ask(ctx context.Context, nodes []int, r driver.Request) []driver.Answer {
	if c.rounds != nil && ctx.Err() == nil {
		b := c.rounds.ask(nodes, nil, r, c.cfg.Now().Add(c.cfg.Timeout))
		defer b.leave()
		return b.until(patience{Context: ctx}, all, nil)
	}
	return c.cfg.Ask(ctx, nodes, func(ctx context.Context, node int) (int64, error) { return carryOut(ctx, r, c.cfg.Nodes[node]) })
}

// Ask asks nodes by their indices and returns their answers in the same order, at
// the latest when the time-out of each has passed or ctx ended. It is for those
// who build another lock on Redlock's rounds. c has to have its defaults.
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

// round asks nodes at once.
//
// One timer, the client's own, ends it: a driver that ignores its context can
// hold up nobody, and no two timers compete for one instant. The drivers'
// deadline comes an eighth later, to free what they hold. Whoever asks is woken
// once, by the last answer or the end; answers that come later go nowhere.
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

	var mu sync.Mutex // guards the answers, and how many are left
	left, all := len(nodes), make(chan struct{})
	for i, n := range nodes {
		go func() {
			deepen(i)
			value, err := request(nodeCtx, n)
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil { // else what drivers say of it is no answer
				out[i].Value, out[i].Err = value, err
			}
			if left--; left == 0 {
				close(all)
			}
		}()
	}
	select {
	case <-all:
		return out
	case <-c.After(c.Timeout):
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(out)
}

// deep is what go-redis needs of a stack, nearly.
const deep = 7000

// deepen has a new goroutine's stack grow while there is nothing on it to be moved. A driver would
// double it twice in the midst of its work: that took a tenth of the processor's time of a
// simulated run with go-redis.
//
//go:noinline
func deepen(i int) byte {
	var room [deep]byte
	return room[i]
}

// causes lists the nodes that did not say yes.
func (c *Client) causes(answers []driver.Answer) []NodeError {
	var out []NodeError
	for _, a := range answers {
		err := a.Err
		if err == nil {
			err = errNo
		}
		if !a.Yes() {
			out = append(out, NodeError{c.name(a.Node), err})
		}
	}
	return out
}

func (c *Client) name(node int) string {
	if s, ok := c.cfg.Nodes[node].(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("node %d", node+1)
}

// rounds asks the nodes of a client that all are Batchers: there is no goroutine and no
// timer for any request.
type rounds struct {
	nodes   []driver.Batcher
	grants  []bool       // by node: it is a Granter
	used    sync.Pool    // ballots that nobody uses
	waiting atomic.Int32 // callers who wait for answers
	flushes atomic.Bool  // somebody is about to flush
}

// newRounds returns nil unless all nodes are Batchers.
func newRounds(nodes []Node) *rounds {
	rs := &rounds{}
	for _, n := range nodes {
		b, ok := n.(driver.Batcher)
		if !ok {
			return nil
		}
		_, grants := n.(driver.Granter)
		rs.nodes, rs.grants = append(rs.nodes, b), append(rs.grants, grants)
	}
	return rs
}

// ask submits r to nodes, and has it sent.
func (rs *rounds) ask(nodes []int, work *sync.WaitGroup, r driver.Request, deadline time.Time) *ballot {
	b, _ := rs.used.Get().(*ballot)
	if b == nil {
		b = &ballot{rounds: rs}
	}
	b.begin(nodes, work)
	r.Deadline, r.To = deadline, b
	for i, n := range nodes {
		v := &b.votes[i]
		v.request = r
		v.request.Op, v.request.Node = plainest(r.Op, rs.grants[n], r.Terms), i
		rs.nodes[n].Submit(&v.request)
	}
	rs.flush()
	return b
}

// put keeps b for another time, without what it refers to.
func (rs *rounds) put(b *ballot) {
	clear(b.votes)
	b.work, b.follow, b.quorum = nil, nil, 0
	rs.used.Put(b)
}

// plainest returns the step that a Batcher is asked for in place of o. A Batcher keeps the order of
// requests, so it needs no tombstones, and without fencing or quarantine the plain steps will do.
func plainest(o driver.Op, granter bool, t driver.Terms) driver.Op {
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

// flush sends what was submitted to all nodes. A caller who is alone does it by himself.
// Of several, one goroutine does it for all who can run now, so that batches grow with
// load.
func (rs *rounds) flush() {
	if rs.waiting.Load() == 0 {
		rs.send()
	} else if !rs.flushes.Swap(true) {
		go func() {
			runtime.Gosched()
			rs.flushes.Store(false)
			rs.send()
		}()
	}
}

func (rs *rounds) send() {
	for _, n := range rs.nodes {
		n.Flush()
	}
}
