package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Granter is a Node with the two steps that a Locker needs so that no request which comes
// late can leave a key behind. Without them it makes do with Set and Release.
type Granter interface {
	Node
	// Grant is Set, or SetFenced, on terms. It is refused where the token was abandoned, and
	// answers yes again where the key has this token already. 0 is the answer no, without
	// Terms.Fence 1 is yes.
	Grant(ctx context.Context, key, token string, t Terms) (count int64, err error)
	// Abandon is Release of a token whose grant may still be under way: where there is nothing to
	// delete, the node refuses that grant for so long.
	Abandon(ctx context.Context, key, token string, refuse time.Duration) (yes bool, err error)
}

// Terms are on what a Granter grants.
type Terms struct {
	TTL   time.Duration
	Fence bool // count the grant, from the node's clock in milliseconds where it knows no count
	// Quarantine is for how long a node that was restarted, or whose data is gone, refuses
	// all grants, by an error. 0: not at all.
	Quarantine time.Duration
}

// Identifier is a Node that can tell which server it is, so that one which was given twice
// is found out. A server that restarts may be another.
type Identifier interface {
	Identity(ctx context.Context) (string, error)
}

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
	follow  func(Answer)
}

// vote is a request and its answer.
type vote struct {
	request Request // to a Batcher
	answer  Answer
}

func (b *ballot) begin(nodes []int, work *sync.WaitGroup) {
	if cap(b.votes) < len(nodes) {
		b.votes = make([]vote, len(nodes))
	}
	b.votes, b.left, b.undone, b.users, b.work = b.votes[:len(nodes)], len(nodes), len(nodes), 2, work
	for i, n := range nodes {
		b.votes[i].answer = Answer{Node: n, Err: errNotAwaited}
	}
	if work != nil {
		work.Add(1)
	}
}

// open says that no answer has come.
func (a Answer) open() bool { return a.Err == errNotAwaited || a.Err == errNoAnswer }

// ask has nodes asked for r: Batchers together, others each by a goroutine. A caller who loses
// patience ends its waiting, not the requests.
func (l *Locker) ask(ctx context.Context, nodes []int, r Request) *ballot {
	if l.plain.rounds == nil || r.Op == OpIdentify {
		return l.spread(ctx, nodes, func(int) Request { return r })
	}
	return l.plain.rounds.ask(nodes, &l.work, r, l.cfg.Now().Add(l.cfg.Timeout))
}

// spread asks each node by a goroutine, for what r says of it.
func (l *Locker) spread(ctx context.Context, nodes []int, r func(node int) Request) *ballot {
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
func (l *Locker) carry(ctx context.Context, n int, r Request) (int64, error) {
	if r.Op != OpIdentify {
		return r.on(ctx, l.cfg.Nodes[n])
	}
	id, err := l.cfg.Nodes[n].(Identifier).Identity(ctx)
	if err == nil {
		l.is(n, id)
	}
	return number(err == nil, err)
}

// Answered implements Collector.
func (b *ballot) Answered(r *Request, value int64, err error) { b.answer(r.Node, value, err) }

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
func (b *ballot) then(f func(Answer)) {
	var had []Answer
	b.mu.Lock()
	for i := range b.votes {
		if a := b.votes[i].answer; !a.open() {
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
func (b *ballot) until(p patience, quorum int, buf []Answer) []Answer {
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
		if a := &b.votes[i].answer; late && a.open() {
			a.Err = errNoAnswer
		}
	}
	return b.look(buf)
}

// look appends the answers to buf, and ends what its caller began by locking b.
func (b *ballot) look(buf []Answer) []Answer {
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
