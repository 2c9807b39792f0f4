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

// Locker acquires locks with the Redlock algorithm. Beyond the specification, it handles late
// requests, nodes that forget keys, and callers that give up. It is safe for concurrent use.
type Locker struct {
	client   *Client // provides validity rules, errors and random numbers
	cfg      Config
	allNodes []int
	lifetime context.Context // canceled by Close
	cancel   context.CancelCauseFunc
	work     sync.WaitGroup // background work and calls in progress

	watcher deadlineWatcher

	mu          sync.Mutex // never held during requests to nodes
	closed      bool
	pending     [][]pendingRelease // by node, oldest first
	retrying    bool               // retryReleases is running
	ids         map[string]int     // node index by server identity
	identified  []bool             // by node: its identity is known
	duplicate   error              // set if two nodes turned out to be the same server
	allDistinct atomic.Bool        // all identities are known and distinct
}

// New returns a Locker, or an error if the configuration is invalid.
func New(cfg Config) (*Locker, error) {
	if err := cfg.validateLocker(); err != nil {
		return nil, fmt.Errorf("configure redlock: %w", err)
	}
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	l := &Locker{client: c, cfg: c.cfg, allNodes: c.allNodes, pending: make([][]pendingRelease, len(c.allNodes)), ids: map[string]int{}, identified: make([]bool, len(c.allNodes))}
	l.lifetime, l.cancel = context.WithCancelCause(context.Background())
	l.watcher.locker, l.watcher.wake = l, make(chan struct{}, 1)
	return l, nil
}

// Close cancels calls of Acquire that are still waiting, and waits until failed attempts are
// cleaned up. The keys of unreleased leases remain until they expire. The nodes must stay open
// until Close returns, because Close sends each unanswered release once more. It returns an error
// if releases stay unanswered or if a driver ignores its context.
func (l *Locker) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel(ErrClosed)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	answered, settled := make(chan struct{}), make(chan error, 1)
	go func() { l.work.Wait(); close(answered); settled <- l.settle(ctx) }()
	wait := 5 * l.cfg.Timeout // one timeout each for a grant, its release, and a retry, with some slack
	select {
	case err := <-settled:
		return err
	case <-l.cfg.After(wait):
	}
	select {
	case <-answered:
	default:
		extraWait := time.Second - wait // with short timeouts, a driver on a busy machine may take longer to notice that its context has ended
		if extraWait <= 0 {
			return errDriverIgnoresContext
		}
		select {
		case <-answered:
		case <-l.cfg.After(extraWait):
			return errDriverIgnoresContext
		}
	}
	stop()
	return <-settled
}

var errDriverIgnoresContext = errors.New("close redlock: requests to nodes are still in progress; their drivers must respect context cancellation")

// settle waits until no node has pending releases, or ctx ends.
func (l *Locker) settle(ctx context.Context) error {
	var errs []error
	for n, node := range l.cfg.Nodes {
		if d, ok := node.(driver.Settler); ok {
			if err := d.Settle(ctx); err != nil {
				errs = append(errs, fmt.Errorf("close redlock: %w: %s: %w", ErrReleasesPending, l.client.nodeName(n), err))
			}
		}
	}
	return errors.Join(errs...)
}

// startWork makes Close wait until l.work.Done is called. It fails if the Locker is closed.
func (l *Locker) startWork() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.work.Add(1)
	return nil
}

// Option changes the configuration of one call of Acquire, TryAcquire or Do.
type Option func(*callOptions)

type callOptions struct {
	cfg  Config
	wait time.Duration
}

// WithTTL overrides Config.TTL for one lease. The rules for Config.TTL apply; if the TTL does not
// fit the rest of the configuration, the call returns an error.
func WithTTL(ttl time.Duration) Option { return func(c *callOptions) { c.cfg.TTL = ttl } }

// WithWait limits how long Acquire waits for the lock, and replaces Config.Tries. The last attempt
// starts no later than wait after the call and takes at most Config.Timeout. Unlike a context,
// WithWait does not interrupt an attempt, and the error is that of the last attempt. Zero allows
// one attempt.
func WithWait(wait time.Duration) Option {
	return func(c *callOptions) { c.wait, c.cfg.Tries = max(0, wait), 0 }
}

// withOptions applies opts to the configuration for one call. It returns a client with the result,
// and the wait set by WithWait.
func (c *Client) withOptions(key string, opts []Option) (*Client, time.Duration, error) {
	if len(opts) == 0 {
		return c, noLimit, nil
	}
	o := callOptions{cfg: c.cfg, wait: noLimit}
	for _, set := range opts {
		set(&o)
	}
	if err := cmp.Or(o.cfg.validate(), o.cfg.validateLocker()); err != nil {
		return nil, 0, fmt.Errorf("acquire %q: %w", key, err)
	}
	callClient := *c
	callClient.cfg = o.cfg
	return &callClient, o.wait, nil
}

// TryAcquire makes one attempt to acquire the lock on key. It does not wait for the lock to become
// free, and returns within Config.Timeout. It returns the same errors as Acquire. WithWait has no
// effect on it.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	return l.Acquire(ctx, key, append(slices.Clip(opts), WithWait(0))...)
}

// Acquire acquires the lock on key. It makes attempts until one succeeds, Config.Tries attempts
// have failed, or ctx ends. Each attempt ends as soon as a quorum has granted the lock or no quorum
// is possible. Keys set by a failed attempt are released in the background. The kinds of error are
// ErrTaken, ErrNoQuorum, ErrExpired, ErrCanceled, ErrSameNode and ErrClosed. If ctx ends, the error
// matches ErrCanceled and the context's error, and also ErrTaken if the lock was taken.
func (l *Locker) Acquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	c, wait, err := l.client.withOptions(key, opts)
	if err != nil {
		return nil, err
	}
	if err := l.startWork(); err != nil {
		return nil, &Error{Op: "acquire", Key: key, Kind: err}
	}
	defer l.work.Done()
	l.observe(Event{Type: Invoke, Op: "acquire", Key: key})
	attempt := func(p waitContext, key string) (*Lease, *Error, error) { return l.attempt(c, p, key) }
	lease, err := acquireWithRetries(waitContext{ctx, l.lifetime}, c, wait, key, attempt)
	if err != nil {
		l.observe(Event{Type: Fail, Op: "acquire", Key: key, Err: err})
		return nil, err
	}
	l.observe(Event{Type: OK, Op: "acquire", Key: key, Token: lease.token, Fence: lease.fence, Until: lease.deadline})
	lease.startRenewal()
	return lease, nil
}

// attempt returns a lease, the reason for the failure, or an error if no attempt could be made.
func (l *Locker) attempt(c *Client, p waitContext, key string) (*Lease, *Error, error) {
	if err := l.duplicateError(); err != nil {
		return nil, nil, &Error{Op: "acquire", Key: key, Kind: ErrSameNode, Cause: err}
	}
	token, err := c.token() // new for every attempt; see Client.attempt
	if err != nil {
		return nil, nil, err
	}
	start := l.cfg.Now()
	grants := l.send(p.Context, l.allNodes, driver.Request{Op: driver.OpGrant, Key: key, Token: token, Terms: c.terms()})
	defer grants.unref()
	answers, duplicate := l.waitForVotes(p, grants)
	fence := l.raiseFence(p, key, token, answers)
	elapsed := l.cfg.Now().Sub(start)

	kind := c.failureKind(driver.Count(answers), elapsed)
	if kind == nil && duplicate == nil && p.endedContext() == nil {
		if !l.allDistinct.Load() {
			grants.forEach(l.identify(p.Context))
		}
		s := &Lease{acquisition: c.newAcquisition(key, token, fence, start, answers), locker: l, acquireCtx: p.Context, answers: answers}
		if grants.batcher == nil {
			s.grants = grants
		}
		return s, nil, nil
	}
	grants.forEach(l.undoGrant(p.Context, pendingRelease{key: key, token: token, ttl: c.cfg.TTL, until: start.Add(c.cfg.TTL)}))
	if duplicate != nil {
		return nil, nil, &Error{Op: "acquire", Key: key, Kind: ErrSameNode, Cause: duplicate}
	}
	return nil, c.acquireError(key, kind, answers), nil
}

// undoGrant returns a callback that releases a key if a node may have granted it.
func (l *Locker) undoGrant(ctx context.Context, d pendingRelease) func(driver.Answer) {
	return func(a driver.Answer) {
		if !a.No() && !errors.Is(a.Err, driver.ErrNotSent) {
			l.release(ctx, []int{a.Node}, d, func(int) bool { return a.Err != nil }).unref()
		}
	}
}

// raiseFence returns the fencing token; see Client.raiseFence.
func (l *Locker) raiseFence(p waitContext, key, token string, answers []driver.Answer) int64 {
	return l.client.raiseFence(key, token, answers, func(nodes []int, r driver.Request) []driver.Answer { return l.ask(p, nodes, r, waitForAll) })
}

// ask sends r to nodes and waits until a quorum has agreed or can no longer be reached.
func (l *Locker) ask(p waitContext, nodes []int, r driver.Request, quorum int) []driver.Answer {
	b := l.send(p.Context, nodes, r)
	defer b.unref()
	return b.wait(p, quorum, nil)
}

// waitForVotes waits until a quorum of distinct servers has granted the lock or can no longer be
// reached.
func (l *Locker) waitForVotes(p waitContext, grants *ballot) ([]driver.Answer, error) {
	quorum := Quorum(len(l.allNodes))
	answers := grants.wait(p, quorum, nil)
	if p.endedContext() != nil { // the caller gave up: release the keys without asking for identities
		return answers, nil
	}
	numGrants := driver.Count(answers).Yes
	duplicate := l.checkDistinct(p, answers)
	if numGrants < quorum || duplicate != nil || driver.Count(answers).Yes >= quorum {
		return answers, duplicate
	}
	for n, a := range grants.wait(p, waitForAll, nil) { // some votes did not count, but later answers still may
		if isPlaceholder(answers[n]) {
			answers[n] = a
		}
	}
	return answers, l.checkDistinct(p, answers)
}

// checkDistinct makes sure that the votes come from different servers. It asks the nodes that
// granted for their identities, unless they are known, and discards the vote of any node that
// doesn't return one. It asks a node only after its grant, so a node never has two requests that
// start at the same instant.
func (l *Locker) checkDistinct(p waitContext, answers []driver.Answer) error {
	if l.allDistinct.Load() {
		return nil
	}
	var unidentified []int
	for _, a := range answers {
		if a.Yes() && l.needsIdentity(a.Node) {
			unidentified = append(unidentified, a.Node)
		}
	}
	if len(unidentified) > 0 {
		for _, a := range l.ask(p, unidentified, driver.Request{Op: driver.OpIdentify}, waitForAll) {
			if a.Err != nil {
				answers[a.Node] = a
			}
		}
	}
	err := l.duplicateError()
	l.allDistinct.Store(err == nil && !slices.ContainsFunc(l.allNodes, l.needsIdentity))
	return err
}

// identify returns a callback that asks late granters for their identities.
func (l *Locker) identify(ctx context.Context) func(driver.Answer) {
	return func(a driver.Answer) {
		if a.Yes() && l.needsIdentity(a.Node) {
			l.send(ctx, []int{a.Node}, driver.Request{Op: driver.OpIdentify}).unref()
		}
	}
}

// needsIdentity reports whether a node supports identities but has not returned its own yet.
func (l *Locker) needsIdentity(node int) bool {
	if _, supported := l.cfg.Nodes[node].(driver.Identifier); !supported {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.identified[node]
}

// duplicateError returns an error if a server is known to be listed twice.
func (l *Locker) duplicateError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.duplicate
}

// setIdentity records a node's identity, and detects a server that is listed twice.
func (l *Locker) setIdentity(node int, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, ok := l.ids[id]; ok && other != node {
		l.duplicate = fmt.Errorf("%s and %s are the same Redis server, which has only one vote: list it once", l.client.nodeName(min(other, node)), l.client.nodeName(max(other, node)))
	}
	l.ids[id], l.identified[node] = node, true
}

// Do acquires the lock on key, calls work, and releases the lock. The context passed to work ends
// when ctx or the lease ends (see Lease.Context), and work must stop then. If the lease ended
// before work returned, Do joins the reason with work's error, because another client may have held
// the lock in the meantime.
func (l *Locker) Do(ctx context.Context, key string, work func(ctx context.Context) error, opts ...Option) error {
	lease, err := l.Acquire(ctx, key, opts...)
	if err != nil {
		return err
	}
	workCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	workCtx = &leaseContext{Context: workCtx, lease: lease, end: stop}
	defer context.AfterFunc(lease.Context(), func() { stop(context.Cause(lease.Context())) })()
	err = work(workCtx)
	endCause := lease.endCause(l.cfg.Now())
	releaseErr := lease.Release(ctx)
	if endCause != nil {
		return errors.Join(err, &Error{Op: "hold", Key: key, Kind: endCause})
	}
	return errors.Join(err, releaseErr)
}

// pendingRelease is a release that a node has not answered.
type pendingRelease struct {
	key, token string
	ttl        time.Duration // the grant's TTL
	until      time.Time     // when the key expires
	unsure     bool          // the node's grant may still be in flight
}

// maxPendingReleases limits the pending releases per node. Above the limit, the oldest one is
// dropped, because its key expires first.
const maxPendingReleases = 1000

// release asks nodes to delete a key. unsure reports whether a node's grant may still be in flight.
// Unanswered releases stay pending.
func (l *Locker) release(ctx context.Context, nodes []int, d pendingRelease, unsure func(node int) bool) *ballot {
	if l.client.batcher != nil { // Batchers retry releases themselves
		return l.send(ctx, nodes, releaseRequest(d))
	}
	releaseFor := func(n int) pendingRelease { d := d; d.unsure = unsure(n); return d }
	b := l.sendEach(ctx, nodes, func(n int) driver.Request { return releaseRequest(releaseFor(n)) })
	b.forEach(func(a driver.Answer) {
		if a.Err != nil {
			l.addPending(a.Node, releaseFor(a.Node))
		}
	})
	return b
}

func releaseRequest(d pendingRelease) driver.Request {
	r := driver.Request{Op: driver.OpRelease, Key: d.key, Token: d.token, Terms: driver.Terms{TTL: d.ttl}}
	if d.unsure {
		r.Op = driver.OpAbandon
	}
	return r
}

// addPending records a pending release and makes sure that it is retried.
func (l *Locker) addPending(node int, d pendingRelease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[node] = append(l.pending[node], d); len(l.pending[node]) > maxPendingReleases {
		l.pending[node] = l.pending[node][1:]
	}
	if !l.retrying {
		l.retrying = true
		l.work.Go(l.retryReleases)
	}
}

// retryReleases sends each node its oldest pending release and, once the node has answered, the
// next one, until none are left. A node that is down thus gets only one request per round. After
// Close, it makes a last round.
//
// It uses one goroutine and one timer. With one per node, the scheduler would decide which node is
// asked first after a round without answers, and simulated runs would not be reproducible.
func (l *Locker) retryReleases() {
	for closing := false; !closing; {
		select {
		case <-l.cfg.After(l.cfg.RetryMax):
		case <-l.lifetime.Done():
			closing = true
			<-l.cfg.After(l.cfg.Timeout / 8) // catch releases from the same round on other nodes
		}
		for unresponsive := make([]bool, len(l.allNodes)); ; {
			nodes, oldest, done := l.oldestPending(l.cfg.Now(), unresponsive)
			if done {
				return
			}
			if len(nodes) == 0 {
				break
			}
			b := l.sendEach(context.Background(), nodes, func(n int) driver.Request { return releaseRequest(oldest[n]) })
			for _, a := range b.wait(waitContext{Context: context.Background()}, waitForAll, nil) {
				if unresponsive[a.Node] = a.Err != nil; a.Err == nil {
					l.removePending(a.Node, oldest[a.Node])
				}
			}
		}
	}
}

// oldestPending returns, for each node that is not unresponsive, the oldest pending release whose
// key may still exist. If no releases are pending on any node, done is true and retrying stops.
func (l *Locker) oldestPending(now time.Time, unresponsive []bool) (nodes []int, oldest map[int]pendingRelease, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	done, oldest = true, map[int]pendingRelease{}
	for n, releases := range l.pending {
		for len(releases) > 0 && !now.Before(releases[0].until) {
			releases = releases[1:]
		}
		if l.pending[n] = releases; len(releases) == 0 {
			l.pending[n] = nil
			continue
		}
		if done = false; !unresponsive[n] {
			nodes = append(nodes, n)
			oldest[n] = releases[0]
		}
	}
	l.retrying = !done
	return nodes, oldest, done
}

// removePending removes a release unless it has already been dropped.
func (l *Locker) removePending(node int, d pendingRelease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.pending[node]; len(o) > 0 && o[0] == d {
		l.pending[node] = o[1:]
	}
}

// Quorum returns the size of the smallest majority of n nodes, ⌊n/2⌋+1. Any two quorums share a
// node.
func Quorum(n int) int { return n/2 + 1 }

// Drift returns the allowance for clocks that run at slightly different rates: factor × ttl + 2 ms.
// It is subtracted from a lock's validity. The 2 ms cover the millisecond resolution of Redis
// expiries and of the client's clock.
func Drift(ttl time.Duration, factor float64) time.Duration {
	return time.Duration(factor*float64(ttl)) + 2*time.Millisecond
}

// Validity returns how long a lock is certain to be held, counted from the end of the attempt that
// acquired it: TTL − elapsed − drift (MIN_VALIDITY in the specification). If the result is 0, the
// lock is not held.
//
//	start                 end                                 start+TTL
//	|------- elapsed ------|------------ validity ----|- drift -|
//	first key set at the earliest                              first key gone
//
// A negative elapsed time means that the clock stepped back. The duration of the attempt is then
// unknown, so the validity is 0.
func Validity(ttl, elapsed, drift time.Duration) time.Duration {
	if elapsed < 0 {
		return 0
	}
	return max(0, ttl-elapsed-drift)
}

// executeOn executes r by calling the corresponding method of n, or a simpler method if n is not a
// Granter.
func executeOn(ctx context.Context, r driver.Request, n Node) (int64, error) {
	switch r.Op {
	case driver.OpSet:
		return boolValue(n.Set(ctx, r.Key, r.Token, r.TTL))
	case driver.OpExtend:
		return boolValue(n.Extend(ctx, r.Key, r.Token, r.TTL))
	case driver.OpRelease:
		return boolValue(n.Release(ctx, r.Key, r.Token))
	case driver.OpSetFenced:
		return n.(driver.Fencer).SetFenced(ctx, r.Key, r.Token, r.TTL)
	case driver.OpRaiseFence:
		return boolValue(n.(driver.Fencer).RaiseFence(ctx, r.Key, r.Token, r.Count))
	case driver.OpGrant:
		if g, ok := n.(driver.Granter); ok {
			return g.Grant(ctx, r.Key, r.Token, r.Terms)
		}
		r.Op = simplestOp(r.Op, false, r.Terms)
		return executeOn(ctx, r, n)
	case driver.OpAbandon:
		if g, ok := n.(driver.Granter); ok {
			return boolValue(g.Abandon(ctx, r.Key, r.Token, r.TTL))
		}
		return boolValue(n.Release(ctx, r.Key, r.Token))
	}
	panic(fmt.Sprintf("redlock: unknown operation %d", r.Op))
}
