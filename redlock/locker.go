package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/redlock/driver"
)

// Locker acquires locks as the specification has it, and holds where that does not:
// requests that come late, nodes that forget, callers who lose patience. It may be used by
// several goroutines at once.
type Locker struct {
	plain *Client // its arithmetic and its dice
	cfg   Config
	all   []int
	life  context.Context // ends with Close
	end   context.CancelCauseFunc
	work  sync.WaitGroup // what goes on in the background, and who uses the Locker

	watch watch

	mu     sync.Mutex // never held while nodes are asked
	closed bool
	owed   [][]debt       // by node, in order
	paying bool           // somebody does
	ids    map[string]int // nodes by their identity
	known  []bool         // by node: its identity is
	twice  error          // one Redis was given twice
	agreed atomic.Bool    // all are known, and different
}

// New returns a Locker, or says what is wrong with its configuration.
func New(cfg Config) (*Locker, error) {
	if err := cfg.hardened(); err != nil {
		return nil, fmt.Errorf("configure redlock: %w", err)
	}
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	l := &Locker{plain: c, cfg: c.cfg, all: c.all, owed: make([][]debt, len(c.all)), ids: map[string]int{}, known: make([]bool, len(c.all))}
	l.life, l.end = context.WithCancelCause(context.Background())
	l.watch.locker, l.watch.sooner = l, make(chan struct{}, 1)
	return l, nil
}

// Close ends what waits to acquire, and waits for the clean-up of what failed. Leases that
// are still held keep their keys until these expire. The nodes must stay open until it
// returns; what they still owe an answer to is asked of them once more. The error says that a
// node's driver does not heed its context.
func (l *Locker) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.end(ErrClosed)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	answered, settled := make(chan struct{}), make(chan error, 1)
	go func() { l.work.Wait(); close(answered); settled <- l.settle(ctx) }()
	patience := 5 * l.cfg.Timeout // a grant, its release, and that once more
	select {
	case err := <-settled:
		return err
	case <-l.cfg.After(patience):
	}
	select {
	case <-answered:
	default:
		more := time.Second - patience // short time-outs pass before a busy machine lets a driver heed its context
		if more <= 0 {
			return errDeaf
		}
		select {
		case <-answered:
		case <-l.cfg.After(more):
			return errDeaf
		}
	}
	stop()
	return <-settled
}

var errDeaf = errors.New("close redlock: requests to nodes are still under way; their drivers must heed contexts")

// settle waits until no node is owed anything, as far as they can be waited for.
func (l *Locker) settle(ctx context.Context) error {
	var errs []error
	for n, node := range l.cfg.Nodes {
		if d, ok := node.(driver.Debtor); ok {
			if err := d.Settle(ctx); err != nil {
				errs = append(errs, fmt.Errorf("close redlock: %w: %s: %w", ErrOwed, l.plain.name(n), err))
			}
		}
	}
	return errors.Join(errs...)
}

// enter keeps Close waiting until work.Done, unless it was called before.
func (l *Locker) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.work.Add(1)
	return nil
}

// Option changes one call of Acquire, TryAcquire or Do.
type Option func(*call)

// call is the configuration of one call.
type call struct {
	cfg  Config
	wait time.Duration
}

// WithTTL sets this lease's TTL in place of Config.TTL. It must suit the rest of the configuration as
// Config.TTL must, or the call returns an error that says what does not.
func WithTTL(ttl time.Duration) Option { return func(c *call) { c.cfg.TTL = ttl } }

// WithWait limits how long Acquire waits for the lock, in place of Config.Tries. The last attempt
// begins when wait is over, at the latest, and takes no longer than Config.Timeout. Unlike the end of a context,
// WithWait does not interrupt an attempt, and the error is that of the last attempt. Zero allows one attempt.
func WithWait(wait time.Duration) Option {
	return func(c *call) { c.wait, c.cfg.Tries = max(0, wait), 0 }
}

// with returns a client that has the configuration of a call with opts, and the call's wait.
func (c *Client) with(key string, opts []Option) (*Client, time.Duration, error) {
	if len(opts) == 0 {
		return c, noLimit, nil
	}
	o := call{cfg: c.cfg, wait: noLimit}
	for _, set := range opts {
		set(&o)
	}
	if err := cmp.Or(o.cfg.validate(), o.cfg.hardened()); err != nil {
		return nil, 0, fmt.Errorf("acquire %q: %w", key, err)
	}
	own := *c
	own.cfg = o.cfg
	return &own, o.wait, nil
}

// TryAcquire makes one attempt to get the lock on key. It waits for nothing but the nodes' answers, so
// it returns within Config.Timeout. Its errors are those of Acquire. WithWait has no effect on it.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	return l.Acquire(ctx, key, append(slices.Clip(opts), WithWait(0))...)
}

// Acquire tries to get the lock on key until it has it, has tried Config.Tries times, or ctx
// ends. It returns as soon as a quorum has granted or none can. What a failed attempt has
// set is given back in the background. The kinds of its errors are ErrTaken, ErrNoQuorum,
// ErrExpired and ErrCancelled, and ErrSameNode and ErrClosed. If it ends because of ctx, its error is
// ErrCancelled and the context's, and ErrTaken as well if the lock was taken.
func (l *Locker) Acquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	c, wait, err := l.plain.with(key, opts)
	if err != nil {
		return nil, err
	}
	if err := l.enter(); err != nil {
		return nil, &Error{Op: "acquire", Key: key, Kind: err}
	}
	defer l.work.Done()
	l.observe(Event{Type: Invoke, Op: "acquire", Key: key})
	attempt := func(p patience, key string) (*Lease, *Error, error) { return l.attempt(c, p, key) }
	lease, err := tried(patience{ctx, l.life}, c, wait, key, attempt)
	if err != nil {
		l.observe(Event{Type: Fail, Op: "acquire", Key: key, Err: err})
		return nil, err
	}
	l.observe(Event{Type: OK, Op: "acquire", Key: key, Token: lease.token, Fence: lease.fence, Until: lease.until})
	lease.begin()
	return lease, nil
}

// attempt returns the lease, or why there is none, or that it could not be tried at all.
func (l *Locker) attempt(c *Client, p patience, key string) (*Lease, *Error, error) {
	if err := l.same(); err != nil {
		return nil, nil, &Error{Op: "acquire", Key: key, Kind: ErrSameNode, Cause: err}
	}
	token, err := c.token() // fresh for every attempt, see Client.attempt
	if err != nil {
		return nil, nil, err
	}
	start := l.cfg.Now()
	grants := l.ask(p.Context, l.all, driver.Request{Op: driver.OpGrant, Key: key, Token: token, Terms: c.terms()})
	defer grants.leave()
	answers, twice := l.votes(p, grants)
	fence := l.raise(p, key, token, answers)
	elapsed := l.cfg.Now().Sub(start)

	kind := c.judge(driver.Count(answers), elapsed)
	if kind == nil && twice == nil && p.ended() == nil {
		if !l.agreed.Load() {
			grants.then(l.greet(p.Context))
		}
		s := &Lease{held: c.held(key, token, fence, start, answers), locker: l, within: p.Context, answers: answers}
		if grants.rounds == nil {
			s.grants = grants
		}
		return s, nil, nil
	}
	grants.then(l.undo(p.Context, debt{key: key, token: token, ttl: c.cfg.TTL, until: start.Add(c.cfg.TTL)}))
	if twice != nil {
		return nil, nil, &Error{Op: "acquire", Key: key, Kind: ErrSameNode, Cause: twice}
	}
	return nil, c.refused(key, kind, answers), nil
}

// undo lets go of what a node has perhaps granted.
func (l *Locker) undo(ctx context.Context, d debt) func(driver.Answer) {
	return func(a driver.Answer) {
		if !a.No() && !errors.Is(a.Err, driver.ErrNotSent) {
			l.release(ctx, []int{a.Node}, d, func(int) bool { return a.Err != nil }).leave()
		}
	}
}

// raise gives the fencing token (see Client.raise).
func (l *Locker) raise(p patience, key, token string, answers []driver.Answer) int64 {
	return l.plain.raise(key, token, answers, func(nodes []int, r driver.Request) []driver.Answer { return l.answers(p, nodes, r, all) })
}

// answers asks nodes, and waits for as many answers as make a quorum sure.
func (l *Locker) answers(p patience, nodes []int, r driver.Request, quorum int) []driver.Answer {
	b := l.ask(p.Context, nodes, r)
	defer b.leave()
	return b.until(p, quorum, nil)
}

// votes waits for a quorum of different servers, or until there can't be one.
func (l *Locker) votes(p patience, grants *ballot) ([]driver.Answer, error) {
	quorum := Quorum(len(l.all))
	answers := grants.until(p, quorum, nil)
	if p.ended() != nil { // nobody wants them: nodes are asked to give back, and nothing beside that
		return answers, nil
	}
	had := driver.Count(answers).Yes
	twice := l.distinct(p, answers)
	if had < quorum || twice != nil || driver.Count(answers).Yes >= quorum {
		return answers, twice
	}
	for n, a := range grants.until(p, all, nil) { // some of that quorum did not count, others still may
		if open(answers[n]) {
			answers[n] = a
		}
	}
	return answers, l.distinct(p, answers)
}

// distinct sees that the votes are of different servers: it asks nodes that have granted who they
// are, where that is not known yet, and takes the votes of those that don't tell out of answers.
// It waits for no others. They are asked behind their own grants, so that a node never has two
// requests that began in one instant.
func (l *Locker) distinct(p patience, answers []driver.Answer) error {
	if l.agreed.Load() {
		return nil
	}
	var ask []int
	for _, a := range answers {
		if a.Yes() && l.strange(a.Node) {
			ask = append(ask, a.Node)
		}
	}
	if len(ask) > 0 {
		for _, a := range l.answers(p, ask, driver.Request{Op: driver.OpIdentify}, all) {
			if a.Err != nil {
				answers[a.Node] = a
			}
		}
	}
	err := l.same()
	l.agreed.Store(err == nil && !slices.ContainsFunc(l.all, l.strange))
	return err
}

// greet asks a node that has granted late who it is.
func (l *Locker) greet(ctx context.Context) func(driver.Answer) {
	return func(a driver.Answer) {
		if a.Yes() && l.strange(a.Node) {
			l.ask(ctx, []int{a.Node}, driver.Request{Op: driver.OpIdentify}).leave()
		}
	}
}

// strange says whether a node could tell who it is and has not yet.
func (l *Locker) strange(node int) bool {
	if _, tells := l.cfg.Nodes[node].(driver.Identifier); !tells {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.known[node]
}

// same says that one Redis was given twice, once that is known.
func (l *Locker) same() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.twice
}

// is notes which server a node is.
func (l *Locker) is(node int, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, had := l.ids[id]; had && other != node {
		l.twice = fmt.Errorf("%s and %s are one Redis, with one vote: give each of them once", l.plain.name(min(other, node)), l.plain.name(max(other, node)))
	}
	l.ids[id], l.known[node] = node, true
}

// Do acquires the lock on key, calls work, and gives the lock back. The context that work gets
// ends with ctx or with the lease, whichever ends first, and as Lease.Context describes: work must
// stop then. If the lease ended before work returned, Do returns why, along with what work
// returned: another client may have had the lock.
func (l *Locker) Do(ctx context.Context, key string, work func(ctx context.Context) error, opts ...Option) error {
	lease, err := l.Acquire(ctx, key, opts...)
	if err != nil {
		return err
	}
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	within = &leaseContext{Context: within, lease: lease, end: stop}
	defer context.AfterFunc(lease.Context(), func() { stop(context.Cause(lease.Context())) })()
	err = work(within)
	lost := lease.ended(l.cfg.Now())
	released := lease.Release(ctx)
	if lost != nil {
		return errors.Join(err, &Error{Op: "hold", Key: key, Kind: lost})
	}
	return errors.Join(err, released)
}

// debt is a release that a node has not answered.
type debt struct {
	key, token string
	ttl        time.Duration // of its grant
	until      time.Time     // from then on the key has expired
	unsure     bool          // whether the node has granted: its grant may be under way
}

// mostDebts is how many debts a node is owed at most; beyond them the oldest is dropped,
// whose key expires first.
const mostDebts = 1000

// release asks nodes to let go of a token; it is unsure of some whether they have granted.
// Where no answer comes it stays owed.
func (l *Locker) release(ctx context.Context, nodes []int, d debt, unsure func(node int) bool) *ballot {
	if l.plain.rounds != nil { // Batchers see to their debts
		return l.ask(ctx, nodes, payment(d))
	}
	of := func(n int) debt { d := d; d.unsure = unsure(n); return d }
	b := l.spread(ctx, nodes, func(n int) driver.Request { return payment(of(n)) })
	b.then(func(a driver.Answer) {
		if a.Err != nil {
			l.owe(a.Node, of(a.Node))
		}
	})
	return b
}

// payment is the request that settles a debt.
func payment(d debt) driver.Request {
	r := driver.Request{Op: driver.OpRelease, Key: d.key, Token: d.token, Terms: driver.Terms{TTL: d.ttl}}
	if d.unsure {
		r.Op = driver.OpAbandon
	}
	return r
}

// owe notes a debt, and sees that somebody pays it.
func (l *Locker) owe(node int, d debt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owed[node] = append(l.owed[node], d); len(l.owed[node]) > mostDebts {
		l.owed[node] = l.owed[node][1:]
	}
	if !l.paying {
		l.paying = true
		l.work.Go(l.pay)
	}
}

// pay asks all nodes at once, each for the oldest release that it is owed; those that answer, for
// the next. One request at a time is enough for a node that is down. After Close it tries once.
//
// It is one goroutine with one timer: where each node had its own, which of them went first after
// a round that nobody answered would be the scheduler's choice.
func (l *Locker) pay() {
	for closing := false; !closing; {
		select {
		case <-l.cfg.After(l.cfg.RetryMax):
		case <-l.life.Done():
			closing = true
			<-l.cfg.After(l.cfg.Timeout / 8) // what other nodes owe since the same round goes with it
		}
		for silent := make([]bool, len(l.all)); ; {
			nodes, oldest, done := l.oldest(l.cfg.Now(), silent)
			if done {
				return
			}
			if len(nodes) == 0 {
				break
			}
			b := l.spread(context.Background(), nodes, func(n int) driver.Request { return payment(oldest[n]) })
			for _, a := range b.until(patience{Context: context.Background()}, all, nil) {
				if silent[a.Node] = a.Err != nil; a.Err == nil {
					l.paid(a.Node, oldest[a.Node])
				}
			}
		}
	}
}

// oldest is the oldest debt of each node whose key can still be there, but for those that are
// silent. Where no node is owed anything it is done, and nobody pays any more.
func (l *Locker) oldest(now time.Time, silent []bool) (nodes []int, oldest map[int]debt, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	done, oldest = true, map[int]debt{}
	for n, debts := range l.owed {
		for len(debts) > 0 && !now.Before(debts[0].until) {
			debts = debts[1:]
		}
		if l.owed[n] = debts; len(debts) == 0 {
			l.owed[n] = nil
			continue
		}
		if done = false; !silent[n] {
			nodes = append(nodes, n)
			oldest[n] = debts[0]
		}
	}
	l.paying = !done
	return nodes, oldest, done
}

// paid takes a debt off what is owed, unless it was dropped meanwhile.
func (l *Locker) paid(node int, d debt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.owed[node]; len(o) > 0 && o[0] == d {
		l.owed[node] = o[1:]
	}
}

// Quorum is the smallest majority of n nodes, ⌊n/2⌋+1: any two quorums share a node.
func Quorum(n int) int { return n/2 + 1 }

// Drift is what is subtracted from a lock's validity for clocks that run at
// slightly different rates: factor × ttl + 2 ms. The constant covers the
// millisecond to which Redis counts expiries, and that of the client.
func Drift(ttl time.Duration, factor float64) time.Duration {
	return time.Duration(factor*float64(ttl)) + 2*time.Millisecond
}

// Validity is how long a lock is certainly held, counted from the end of the
// attempt that got it: TTL − elapsed − drift (the specification's MIN_VALIDITY).
// It is not held at all unless the result is above zero.
//
//	start                 end                                 start+TTL
//	|------- elapsed ------|------------ validity ----|- drift -|
//	first key set at the earliest                              first key gone
//
// An attempt that ended before it began was timed by a clock that steps back.
// Nobody knows how long it took, so that it gives no validity.
func Validity(ttl, elapsed, drift time.Duration) time.Duration {
	if elapsed < 0 {
		return 0
	}
	return max(0, ttl-elapsed-drift)
}

// carryOut does r's step on a Node by its methods. A Node that is no Granter does the plain step.
func carryOut(ctx context.Context, r driver.Request, n Node) (int64, error) {
	switch r.Op {
	case driver.OpSet:
		return number(n.Set(ctx, r.Key, r.Token, r.TTL))
	case driver.OpExtend:
		return number(n.Extend(ctx, r.Key, r.Token, r.TTL))
	case driver.OpRelease:
		return number(n.Release(ctx, r.Key, r.Token))
	case driver.OpSetFenced:
		return n.(driver.Fencer).SetFenced(ctx, r.Key, r.Token, r.TTL)
	case driver.OpRaiseFence:
		return number(n.(driver.Fencer).RaiseFence(ctx, r.Key, r.Token, r.Count))
	case driver.OpGrant:
		if g, ok := n.(driver.Granter); ok {
			return g.Grant(ctx, r.Key, r.Token, r.Terms)
		}
		r.Op = plainest(r.Op, false, r.Terms)
		return carryOut(ctx, r, n)
	case driver.OpAbandon:
		if g, ok := n.(driver.Granter); ok {
			return number(g.Abandon(ctx, r.Key, r.Token, r.TTL))
		}
		return number(n.Release(ctx, r.Key, r.Token))
	}
	panic(fmt.Sprintf("redlock: a request has step %d, which does not exist", r.Op))
}
