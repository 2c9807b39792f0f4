package redlock

import (
	"context"
	"errors"
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

// op is what a step does.
type op int

const (
	opGrant op = iota
	opRaise
	opExtend
	opRelease
	opAbandon
	opIdentify
)

// step is one request to one node, as data: how it goes out is for ask to say.
type step struct {
	op         op
	key, token string
	terms      Terms // of a grant; of others the TTL alone
	fence      int64
	identified func(id string)
}

func (s step) on(ctx context.Context, n Node) (int64, error) {
	g, grants := n.(Granter)
	switch s.op {
	case opGrant:
		switch {
		case grants:
			return g.Grant(ctx, s.key, s.token, s.terms)
		case s.terms.Fence:
			return n.(Fencer).SetFenced(ctx, s.key, s.token, s.terms.TTL)
		}
		return number(n.Set(ctx, s.key, s.token, s.terms.TTL))
	case opRaise:
		return number(n.(Fencer).RaiseFence(ctx, s.key, s.token, s.fence))
	case opExtend:
		return number(n.Extend(ctx, s.key, s.token, s.terms.TTL))
	case opAbandon:
		if grants {
			return number(g.Abandon(ctx, s.key, s.token, s.terms.TTL))
		}
	case opIdentify:
		id, err := n.(Identifier).Identity(ctx)
		if err == nil {
			s.identified(id)
		}
		return number(err == nil, err)
	}
	return number(n.Release(ctx, s.key, s.token))
}

// errNotAwaited is what is known of a node whose answer was not needed.
var errNotAwaited = errors.New("not waited for")

// ballot is one step asked of several nodes. Its requests go on until each is answered or
// its time is over, whether somebody waits for them or not.
//
//	ask ──► n1 yes, n2 yes, n3 yes: a quorum, Acquire returns … n4 yes, n5 no answer
//	                                                       └─ then ─────────┘
type ballot struct {
	wake     chan struct{}    // there are enough answers
	end      <-chan time.Time // the time-out; of Batchers nil, for they see to it
	free     context.CancelFunc
	rounds   *rounds         // of Batchers
	work     *sync.WaitGroup // counts the requests, if not nil
	requests []Request       // to Batchers

	mu      sync.Mutex
	answers []Answer // one for each node
	left    int      // so many have not come
	enough  func(t Tally, open int) bool
	follow  func(Answer)
}

func newBallot(nodes []int, work *sync.WaitGroup) *ballot {
	b := &ballot{wake: make(chan struct{}, 1), work: work, answers: make([]Answer, len(nodes)), left: len(nodes)}
	for i, n := range nodes {
		b.answers[i] = Answer{Node: n, Err: errNotAwaited}
	}
	return b
}

// open says that no answer has come.
func (a Answer) open() bool { return a.Err == errNotAwaited || a.Err == errNoAnswer }

// ask is the one place from which a Locker's requests go out. What step gives for a node is
// done there; a caller who loses patience ends its waiting, not the requests.
func (l *Locker) ask(ctx context.Context, nodes []int, s func(node int) step) *ballot {
	b, timeout := newBallot(nodes, &l.work), l.cfg.Timeout
	if rs := l.plain.rounds; rs != nil && len(nodes) > 0 && s(nodes[0]).op != opIdentify {
		rs.ask(b, nodes, l.cfg.Now().Add(timeout), func(n int) Request { return s(n).to(l.cfg.Nodes[n]) })
		return b
	}
	ctx, b.free = context.WithTimeout(context.WithoutCancel(ctx), timeout+timeout/8)
	for i, n := range nodes {
		l.work.Go(func() {
			value, err := s(n).on(ctx, l.cfg.Nodes[n])
			b.answer(i, value, err)
		})
	}
	b.end = l.cfg.After(timeout)
	return b
}

// to is s for a Batcher. What it does in order needs no tombstones, so that the plain steps
// do where nothing is to be counted and nobody is in quarantine.
func (s step) to(n Node) Request {
	r := Request{Op: OpRelease, Key: s.key, Token: s.token, Terms: s.terms, Count: s.fence}
	switch _, grants := n.(Granter); s.op {
	case opGrant:
		switch {
		case grants && (s.terms.Fence || s.terms.Quarantine > 0):
			r.Op = OpGrant
		case s.terms.Fence:
			r.Op = OpSetFenced
		default:
			r.Op = OpSet
		}
	case opRaise:
		r.Op = OpRaiseFence
	case opExtend:
		r.Op = OpExtend
	}
	return r
}

// Answered implements Collector.
func (b *ballot) Answered(r *Request, value int64, err error) {
	b.answer(r.Node, value, err)
	if b.work != nil {
		b.work.Done()
	}
}

func (b *ballot) answer(i int, value int64, err error) {
	b.mu.Lock()
	a := Answer{b.answers[i].Node, value, err}
	b.answers[i] = a
	b.left--
	left, follow := b.left, b.follow
	if b.enough != nil && (left == 0 || b.enough(Count(b.answers), left)) {
		b.enough = nil
		b.wake <- struct{}{}
	}
	b.mu.Unlock()
	if left == 0 && b.free != nil {
		b.free()
	}
	if follow != nil {
		follow(a)
	}
}

// then has f called with each answer, those that have come and those to come.
func (b *ballot) then(f func(Answer)) {
	var had []Answer
	b.mu.Lock()
	for _, a := range b.answers {
		if !a.open() {
			had = append(had, a)
		}
	}
	b.follow = f
	b.mu.Unlock()
	for _, a := range had {
		f(a)
	}
}

// until waits until enough answers have come, or the time-out or ctx has ended, and returns
// what there is by then, in the order of the nodes. It is called once.
func (b *ballot) until(ctx context.Context, enough func(t Tally, open int) bool) []Answer {
	b.mu.Lock()
	wait := b.left > 0 && !enough(Count(b.answers), b.left)
	if wait {
		b.enough = enough
	}
	b.mu.Unlock()
	if !wait {
		return b.look()
	}
	if b.rounds != nil {
		b.rounds.waiting.Add(1)
		defer b.rounds.waiting.Add(-1)
	}
	select {
	case <-b.wake:
	case <-b.end:
		b.timeOut()
	case <-ctx.Done():
	}
	return b.look()
}

func (b *ballot) look() []Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Answer(nil), b.answers...)
}

func (b *ballot) timeOut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.answers {
		if b.answers[i].open() {
			b.answers[i].Err = errNoAnswer
		}
	}
}

// decided is when a quorum has said yes, or none can any more.
func decided(quorum int) func(Tally, int) bool {
	return func(t Tally, open int) bool { return t.Yes >= quorum || t.Yes+open < quorum }
}

// all is when each has answered.
func all(_ Tally, open int) bool { return open == 0 }
