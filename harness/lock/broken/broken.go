// Package broken implements Redlock with exactly one mistake, to test whether the harness finds
// that mistake. It uses the reference implementation's nodes and arithmetic but its own
// implementation of the algorithm, so that the reference needs no switches for mistakes.
//
// Each step of type algorithm can be replaced separately. The table in mistakes.go lists the
// mistakes. Each replaces one step, and quotes a programmer who thought that the change was right.
// An algorithm without replacements behaves like the reference.
//
// Deliberately missing: combinations of mistakes. A lock with two mistakes demonstrates neither.
package broken

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock"
	"lockpick/redlock/driver"
	"lockpick/redlock/redisnode"
)

var _ lock.Factory = New

// New returns a lock that makes the mistake named in env's settings.
func New(env lock.Env) (lock.Lock, error) {
	m, err := findMistake(env.Settings.Mistake)
	if err != nil {
		return nil, err
	}
	l, err := newBroken(env)
	if err != nil {
		return nil, err
	}
	m.apply(l)
	if l.cfg.Fence && !l.nodesCountGrants {
		return nil, errors.Join(fmt.Errorf("lock \"broken\" with mistake %q has no fencing tokens: remove fence", m.Name), l.Close())
	}
	return l, nil
}

func findMistake(name string) (mistake, error) {
	if i := slices.IndexFunc(mistakes, func(m mistake) bool { return m.Name == name }); i >= 0 {
		return mistakes[i], nil
	}
	var names []string
	for _, m := range mistakes {
		names = append(names, m.Name)
	}
	return mistake{}, fmt.Errorf("lock \"broken\" has no mistake %q: use one of %s", name, strings.Join(names, ", "))
}

// newBroken returns a lock without a mistake.
func newBroken(env lock.Env) (*brokenLock, error) {
	s := env.Settings
	if s.Ask != "" && s.Ask != "multiplexed" && s.Ask != "sequential" {
		return nil, fmt.Errorf("lock \"broken\" does not support ask: %q: use \"multiplexed\" or \"sequential\"", s.Ask)
	}
	if s.TTL == 0 {
		s.TTL = 10 * time.Second
	}
	l := &brokenLock{env: env, closed: make(chan struct{})}
	for i, n := range env.Nodes {
		o := redisnode.Options(n.Addr)
		o.Dialer = env.Dial
		l.Clients = append(l.Clients, redis.NewClient(o))
		l.nodes = append(l.nodes, redisnode.New(l.Clients[i]))
		l.allNodes = append(l.allNodes, i)
	}
	cfg := redlock.Config{
		TTL: s.TTL, Timeout: s.Timeout, Drift: cmp.Or(s.Drift, redlock.NoDrift), RetryMin: s.RetryMin, RetryMax: s.RetryMax,
		Tries: s.Tries, Extends: s.Extends, Sequential: s.Ask == "sequential", Fence: s.Fence, Now: env.Now, After: env.After,
	}
	for _, n := range l.nodes {
		cfg.Nodes = append(cfg.Nodes, n)
	}
	var err error
	if l.cfg, err = cfg.WithDefaults(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.algorithm = l.reference()
	return l, nil
}

// brokenLock is one client's lock.
type brokenLock struct {
	lock.Clients[*redis.Client]
	algorithm
	env        lock.Env
	cfg        redlock.Config
	nodes      []*redisnode.Node
	allNodes   []int // indexes of all nodes
	drawCount  int   // number of random values drawn
	retryCount int
	closed     chan struct{}
}

func (l *brokenLock) Close() error {
	close(l.closed)
	return l.Clients.Close()
}

func (l *brokenLock) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	for try := 1; ctx.Err() == nil; try++ {
		if h := l.attempt(ctx, key, try); h != nil {
			return l.wrapHandle(h), nil
		}
		if try == l.cfg.Tries && ctx.Err() == nil {
			return nil, fmt.Errorf("acquire %q: no quorum in %d attempts", key, try)
		}
		l.wait(ctx)
	}
	return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
}

// attempt tries to acquire the lock once. If it fails, it cleans up and returns nil.
func (l *brokenLock) attempt(ctx context.Context, key string, try int) *handle {
	start := l.now()
	h := &handle{lock: l, key: key, value: l.value(try, start)}
	h.answers = l.ask(ctx, l.allNodes, func(ctx context.Context, node int) (int64, error) {
		return l.setKey(ctx, node, key, h.value)
	})
	if l.cfg.Fence && driver.Count(h.answers).Yes >= l.quorum {
		h.fence = l.fencingToken(ctx, h)
	}
	end := l.now()

	if l.countVotes(try, h.answers) >= l.quorum && l.isValid(start, end) && ctx.Err() == nil {
		h.deadline = l.deadlineFrom(start, end)
		return h
	}
	l.undoAttempt(ctx, h)
	return nil
}

// release applies deleteKey to the given nodes, even if ctx has ended.
func (l *brokenLock) release(ctx context.Context, nodes []int, h *handle, deleteKey step) []driver.Answer {
	return l.ask(context.WithoutCancel(ctx), nodes, func(ctx context.Context, node int) (int64, error) {
		return deleteKey(ctx, node, h.key, h.value)
	})
}

func (l *brokenLock) wait(ctx context.Context) {
	l.retryCount++
	select {
	case <-l.cfg.After(l.delay()):
	case <-ctx.Done():
	}
}

// step sends one request for a key and a value to one node. The result is positive for yes and 0
// for no.
type step func(ctx context.Context, node int, key, value string) (int64, error)

// algorithm contains the steps of Redlock. A mistake replaces one of them.
type algorithm struct {
	now           func() time.Time
	usesWallClock bool          // now reads the wall clock
	drift         time.Duration // allowance for clock drift

	ask              func(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []driver.Answer // sends a request to each node
	value            func(try int, start time.Time) string                                                                              // returns the value to set; tries count from 1
	setKey           step                                                                                                               // sets the key in an attempt
	nodesCountGrants bool                                                                                                               // nodes count grants, which fencing tokens require
	quorum           int                                                                                                                // votes needed by an attempt
	countVotes       func(try int, granted []driver.Answer) int                                                                         // counts an attempt's votes; tries count from 1
	isValid          func(start, end time.Time) bool                                                                                    // reports whether an attempt leaves any validity
	deadlineFrom     func(start, end time.Time) time.Time                                                                               // returns the deadline of an attempt
	fencingToken     func(ctx context.Context, h *handle) int64                                                                         // returns the fencing token from a quorum's answers
	wrapHandle       func(h *handle) lock.Handle                                                                                        // wraps the handle for the caller
	undoAttempt      func(ctx context.Context, h *handle) []driver.Answer                                                               // cleans up a failed attempt
	delay            func() time.Duration                                                                                               // returns the delay before the next attempt
	deleteKey        step                                                                                                               // deletes the key in a release
	releaseNodes     func(h *handle) []int                                                                                              // returns the nodes to contact in a release

	canExtend        func(h *handle, start time.Time) bool // reports whether an extension may start now
	maxExtensions    int                                   // maximum number of extensions
	extendKey        step
	extensionQuorum  int                                             // votes needed by an extension
	isExtendedInTime func(h *handle, start, end time.Time) (ok bool) // reports whether an extension finished in time
	extendedDeadline func(start, end time.Time) (until time.Time)    // returns the deadline after an extension

	checkHold     func(h *handle) (lost, done bool) // checks a lock that extends itself; done means stop checking
	checkInterval time.Duration                     // time before each check
}

// reference returns the reference implementation's algorithm.
func (l *brokenLock) reference() algorithm {
	majority := redlock.Quorum(len(l.nodes))
	return algorithm{
		now: l.cfg.Now, drift: redlock.Drift(l.cfg.TTL, l.cfg.Drift), nodesCountGrants: true,
		// A mistake may change the configuration.
		ask: func(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []driver.Answer {
			return l.cfg.Ask(ctx, nodes, request)
		},
		value: func(int, time.Time) string { return l.random() }, setKey: l.setFree, quorum: majority,
		countVotes: func(_ int, granted []driver.Answer) int { return driver.Count(granted).Yes },
		isValid:    l.hasTimeLeft, deadlineFrom: l.deadlineFromStart, fencingToken: l.highestCount, wrapHandle: func(h *handle) lock.Handle { return h },
		undoAttempt: func(ctx context.Context, h *handle) []driver.Answer {
			return l.release(ctx, l.allNodes, h, l.deleteIfOwner)
		},
		delay:     func() time.Duration { return l.env.Delay(l.retryCount, l.cfg.RetryMin, l.cfg.RetryMax) },
		deleteKey: l.deleteIfOwner, releaseNodes: func(*handle) []int { return l.allNodes },

		canExtend:     func(h *handle, start time.Time) bool { return start.Before(h.deadline) },
		maxExtensions: l.cfg.Extends, extendKey: l.extendIfOwner, extensionQuorum: majority,
		isExtendedInTime: func(h *handle, start, end time.Time) bool { return end.Before(h.deadline) && l.hasTimeLeft(start, end) },
		extendedDeadline: l.deadlineFromStart,
	}
}

// random returns 20 random bytes in hexadecimal.
func (l *brokenLock) random() string {
	l.drawCount++
	return l.env.Token(l.drawCount)
}

// setFree sets the key if it doesn't exist. If nodes count grants, it returns the number of grants.
func (l *brokenLock) setFree(ctx context.Context, node int, key, value string) (int64, error) {
	if l.cfg.Fence {
		return l.nodes[node].SetFenced(ctx, key, value, l.cfg.TTL)
	}
	return boolToCount(l.nodes[node].Set(ctx, key, value, l.cfg.TTL))
}

func (l *brokenLock) extendIfOwner(ctx context.Context, node int, key, value string) (int64, error) {
	return boolToCount(l.nodes[node].Extend(ctx, key, value, l.cfg.TTL))
}

func (l *brokenLock) deleteIfOwner(ctx context.Context, node int, key, value string) (int64, error) {
	return boolToCount(l.nodes[node].Release(ctx, key, value))
}

func (l *brokenLock) hasTimeLeft(start, end time.Time) bool {
	return redlock.Validity(l.cfg.TTL, end.Sub(start), l.drift) > 0
}

func (l *brokenLock) deadlineFromStart(start, _ time.Time) time.Time {
	return start.Add(l.cfg.TTL - l.drift)
}
func (l *brokenLock) deadlineFromEnd(_, end time.Time) time.Time { return end.Add(l.cfg.TTL - l.drift) }

// highestCount returns the highest count among the nodes that granted the lock. It raises the count
// on each node that is behind, and discards the vote of a node that doesn't confirm this.
func (l *brokenLock) highestCount(ctx context.Context, h *handle) int64 {
	fence, behind := driver.HighestCount(h.answers)
	for _, a := range l.ask(ctx, behind, func(ctx context.Context, node int) (int64, error) {
		return boolToCount(l.nodes[node].RaiseFence(ctx, h.key, h.value, fence))
	}) {
		h.answers[a.Node] = a
	}
	return fence
}

func boolToCount(yes bool, err error) (int64, error) {
	if yes {
		return 1, err
	}
	return 0, err
}

// Reasons not to start an extension, or to reject its result. The lock remains held until its old
// deadline.
var (
	errExtensionLimit = errors.New("limit of extensions reached")
	errExpired        = errors.New("validity time exceeded")
)

// handle is one acquired lock, or one attempt to acquire it.
type handle struct {
	lock           *brokenLock
	key, value     string
	answers        []driver.Answer // answers to the attempt, by node
	fence          int64
	deadline       time.Time
	extensionCount int // number of extensions tried
}

var (
	_ lock.Tokener         = (*handle)(nil)
	_ lock.Extender        = (*handle)(nil)
	_ lock.WallClockHandle = (*handle)(nil)
	_ lock.Fencer          = (*handle)(nil)
)

func (h *handle) Deadline() time.Time { return h.deadline }
func (h *handle) Token() string       { return h.value }
func (h *handle) ByWall() bool        { return h.lock.usesWallClock }
func (h *handle) Fence() int64        { return h.fence }

func (h *handle) Release(ctx context.Context) error {
	l := h.lock
	answers := driver.Count(l.release(ctx, l.releaseNodes(h), h, l.deleteKey))
	switch quorum := redlock.Quorum(len(l.nodes)); {
	case answers.Yes >= quorum:
		return nil
	case answers.No >= quorum:
		return fmt.Errorf("release %q: %w", h.key, lock.ErrNotHeld)
	}
	return fmt.Errorf("release %q: outcome unknown: %d nodes answered yes, %d no", h.key, answers.Yes, answers.No)
}

func (h *handle) Extend(ctx context.Context) error {
	l := h.lock
	start := l.now()
	switch {
	case !l.canExtend(h, start):
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	case h.extensionCount >= l.maxExtensions:
		return fmt.Errorf("extend %q: %w", h.key, errExtensionLimit)
	}
	h.extensionCount++
	answers := driver.Count(l.ask(ctx, l.allNodes, func(ctx context.Context, node int) (int64, error) {
		return l.extendKey(ctx, node, h.key, h.value)
	}))
	end := l.now()

	switch quorum := redlock.Quorum(len(l.nodes)); {
	case answers.Yes >= l.extensionQuorum:
	case answers.No >= quorum:
		return fmt.Errorf("extend %q: %w", h.key, lock.ErrNotHeld)
	default:
		return fmt.Errorf("extend %q: outcome unknown: %d nodes answered yes, %d no", h.key, answers.Yes, answers.No)
	}
	if !l.isExtendedInTime(h, start, end) {
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	}
	if until := l.extendedDeadline(start, end); until.After(h.deadline) {
		h.deadline = until
	}
	return nil
}

var contextByTimer = mistake{Mistake{"context-by-timer",
	"ends its context with a timer that starts when the context is first requested, and never checks the clock, so a context requested after the deadline has not ended",
	"a context that nobody has requested needs no timer, and the timer knows when to fire"},
	func(l *brokenLock) {
		l.wrapHandle = func(h *handle) lock.Handle {
			return &contextHandle{handle: h, ctxDeadline: h.deadline, nextCheck: func(remaining time.Duration) time.Duration { return remaining }}
		}
	}}

var contextByTicker = mistake{Mistake{"context-by-ticker",
	"checks the deadline only every three quarters of a TTL to end its context, so the context can outlive the lease",
	"an occasional check is cheaper than a timer for each lock, and the deadline is checked either way"},
	func(l *brokenLock) {
		l.wrapHandle = func(h *handle) lock.Handle {
			return contextNotifier{&contextHandle{handle: h, ctxDeadline: h.deadline, nextCheck: func(time.Duration) time.Duration { return l.cfg.TTL * 3 / 4 }}}
		}
	}}

// contextHandle is a handle whose context is canceled by a goroutine.
type contextHandle struct {
	*handle
	nextCheck func(remaining time.Duration) time.Duration // returns the time until the next check of the deadline

	mu          sync.Mutex
	ctxDeadline time.Time       // deadline
	ctx         context.Context // nil until the first call of Context
	cancel      context.CancelFunc
}

var _ lock.ContextHandle = (*contextHandle)(nil)

func (c *contextHandle) Context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ctx, c.cancel = context.WithCancel(context.Background())
		go c.watch(c.ctx, c.cancel)
	}
	return c.ctx
}

// watch cancels the context once the deadline has passed.
func (c *contextHandle) watch(ctx context.Context, cancel context.CancelFunc) {
	l := c.handle.lock
	remaining := func() time.Duration {
		c.mu.Lock()
		deadline := c.ctxDeadline
		c.mu.Unlock()
		return deadline.Sub(l.now())
	}
	for {
		select {
		case <-l.cfg.After(c.nextCheck(remaining())):
		case <-ctx.Done():
			return
		case <-l.closed:
			return
		}
		if remaining() <= 0 {
			cancel()
			return
		}
	}
}

func (c *contextHandle) Extend(ctx context.Context) error {
	err := c.handle.Extend(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctxDeadline = c.handle.deadline
	return err
}

func (c *contextHandle) Release(ctx context.Context) error {
	c.mu.Lock()
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	return c.handle.Release(ctx)
}

// contextNotifier is a contextHandle whose holder watches the context from the start.
type contextNotifier struct{ *contextHandle }

var _ lock.LossNotifier = contextNotifier{}

func (c contextNotifier) Lost() <-chan struct{} { return c.Context().Done() }
