// Package broken is Redlock with exactly one mistake, to see that the harness
// finds it. It stands on the reference's nodes and arithmetic, but has a course
// of its own, so that the reference needs no switches for mistakes.
//
// Its nouns are the course, the algorithm as steps that can be replaced one by
// one, and the mistake, a line of the table in mistakes.go that
// replaces one of them and says what its author thought. A course in which
// nothing was replaced is the reference's.
//
// Deliberately missing: combinations. A lock with two mistakes shows neither.
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

// New returns a lock that makes the mistake which env's settings name.
func New(env lock.Env) (lock.Lock, error) {
	m, err := find(env.Settings.Mistake)
	if err != nil {
		return nil, err
	}
	l, err := newBroken(env)
	if err != nil {
		return nil, err
	}
	m.make(l)
	if l.cfg.Fence && !l.counts {
		return nil, errors.Join(fmt.Errorf("lock broken has no fencing tokens with the mistake %s: leave fence out", m.Name), l.Close())
	}
	return l, nil
}

func find(name string) (mistake, error) {
	if i := slices.IndexFunc(mistakes, func(m mistake) bool { return m.Name == name }); i >= 0 {
		return mistakes[i], nil
	}
	var names []string
	for _, m := range mistakes {
		names = append(names, m.Name)
	}
	return mistake{}, fmt.Errorf("lock broken knows no mistake %q: say one of %s", name, strings.Join(names, ", "))
}

// newBroken returns a lock in which nothing is wrong yet.
func newBroken(env lock.Env) (*broken, error) {
	s := env.Settings
	if s.Ask != "" && s.Ask != "multiplexed" && s.Ask != "sequential" {
		return nil, fmt.Errorf("lock broken can't ask %q: say multiplexed or sequential", s.Ask)
	}
	if s.TTL == 0 {
		s.TTL = 10 * time.Second
	}
	l := &broken{env: env, closed: make(chan struct{})}
	for i, n := range env.Nodes {
		o := redisnode.Options(n.Addr)
		o.Dialer = env.Dial
		l.Clients = append(l.Clients, redis.NewClient(o))
		l.nodes = append(l.nodes, redisnode.New(l.Clients[i]))
		l.all = append(l.all, i)
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
	l.course = l.right()
	return l, nil
}

// broken is one client's lock.
type broken struct {
	lock.Clients[*redis.Client]
	course
	env     lock.Env
	cfg     redlock.Config
	nodes   []*redisnode.Node
	all     []int // indices of all nodes
	drawn   int   // random values so far
	retries int
	closed  chan struct{}
}

func (l *broken) Close() error {
	close(l.closed)
	return l.Clients.Close()
}

func (l *broken) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	for try := 1; ctx.Err() == nil; try++ {
		if h := l.attempt(ctx, key, try); h != nil {
			return l.give(h), nil
		}
		if try == l.cfg.Tries && ctx.Err() == nil {
			return nil, fmt.Errorf("acquire %q: no quorum in %d attempts", key, try)
		}
		l.wait(ctx)
	}
	return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
}

// attempt returns nil if it failed, and has then undone what it did.
func (l *broken) attempt(ctx context.Context, key string, try int) *handle {
	start := l.now()
	h := &handle{lock: l, key: key, value: l.value(try, start)}
	h.granted = l.ask(ctx, l.all, func(ctx context.Context, node int) (int64, error) {
		return l.set(ctx, node, key, h.value)
	})
	if l.cfg.Fence && driver.Count(h.granted).Yes >= l.quorum {
		h.fence = l.number(ctx, h)
	}
	end := l.now()

	if l.votes(try, h.granted) >= l.quorum && l.inTime(start, end) && ctx.Err() == nil {
		h.deadline = l.until(start, end)
		return h
	}
	l.undo(ctx, h)
	return nil
}

// release asks some nodes to delete the key by one step, even if ctx has ended.
func (l *broken) release(ctx context.Context, nodes []int, h *handle, by step) []driver.Answer {
	return l.ask(context.WithoutCancel(ctx), nodes, func(ctx context.Context, node int) (int64, error) {
		return by(ctx, node, h.key, h.value)
	})
}

func (l *broken) wait(ctx context.Context) {
	l.retries++
	select {
	case <-l.cfg.After(l.delay()):
	case <-ctx.Done():
	}
}

// step is one request about a key with a value to one node; its answer is above
// 0 for yes, and 0 for no.
type step func(ctx context.Context, node int, key, value string) (int64, error)

// course is the algorithm's steps. A mistake replaces one.
type course struct {
	now    func() time.Time
	byWall bool          // whether that is the wall clock
	drift  time.Duration // allowed for

	ask     func(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []driver.Answer // a round
	value   func(try int, start time.Time) string                                                                              // that an attempt sets; tries count from 1
	set     step                                                                                                               // of an attempt
	counts  bool                                                                                                               // whether it counts grants, as fencing tokens need it
	quorum  int                                                                                                                // votes that an attempt needs
	votes   func(try int, granted []driver.Answer) int                                                                         // that it has; tries count from 1
	inTime  func(start, end time.Time) bool                                                                                    // whether an attempt left any validity
	until   func(start, end time.Time) time.Time                                                                               // the deadline that it gives
	number  func(ctx context.Context, h *handle) int64                                                                         // the fencing token of a quorum
	give    func(h *handle) lock.Handle                                                                                        // what the caller gets
	undo    func(ctx context.Context, h *handle) []driver.Answer                                                               // of a failed attempt
	delay   func() time.Duration                                                                                               // before the next
	del     step                                                                                                               // of a release
	holders func(h *handle) []int                                                                                              // nodes that a release asks

	current func(h *handle, start time.Time) bool // whether an extension may begin at start
	extends int                                   // how often one may
	extend  step
	renewal int                                             // votes that it needs
	renewed func(h *handle, start, end time.Time) (ok bool) // whether it ended in time
	further func(start, end time.Time) (until time.Time)    // the deadline that it gives

	look  func(h *handle) (lost, over bool) // of a hold that extends itself: whether it is lost, and whether to look no more
	pause time.Duration                     // before each look
}

// right is the reference's course.
func (l *broken) right() course {
	majority := redlock.Quorum(len(l.nodes))
	return course{
		now: l.cfg.Now, drift: redlock.Drift(l.cfg.TTL, l.cfg.Drift), counts: true,
		// A mistake may change the configuration.
		ask: func(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []driver.Answer {
			return l.cfg.Ask(ctx, nodes, request)
		},
		value: func(int, time.Time) string { return l.random() }, set: l.setFree, quorum: majority,
		votes:  func(_ int, granted []driver.Answer) int { return driver.Count(granted).Yes },
		inTime: l.leaves, until: l.fromStart, number: l.highest, give: func(h *handle) lock.Handle { return h },
		undo:  func(ctx context.Context, h *handle) []driver.Answer { return l.release(ctx, l.all, h, l.delOwn) },
		delay: func() time.Duration { return l.env.Delay(l.retries, l.cfg.RetryMin, l.cfg.RetryMax) },
		del:   l.delOwn, holders: func(*handle) []int { return l.all },

		current: func(h *handle, start time.Time) bool { return start.Before(h.deadline) },
		extends: l.cfg.Extends, extend: l.extendOwn, renewal: majority,
		renewed: func(h *handle, start, end time.Time) bool { return end.Before(h.deadline) && l.leaves(start, end) },
		further: l.fromStart,
	}
}

// random is 20 random bytes, in hexadecimal digits.
func (l *broken) random() string {
	l.drawn++
	return l.env.Token(l.drawn)
}

// setFree sets the key if there is none. Where nodes count, the answer is the
// number of grants.
func (l *broken) setFree(ctx context.Context, node int, key, value string) (int64, error) {
	if l.cfg.Fence {
		return l.nodes[node].SetFenced(ctx, key, value, l.cfg.TTL)
	}
	return number(l.nodes[node].Set(ctx, key, value, l.cfg.TTL))
}

func (l *broken) extendOwn(ctx context.Context, node int, key, value string) (int64, error) {
	return number(l.nodes[node].Extend(ctx, key, value, l.cfg.TTL))
}

func (l *broken) delOwn(ctx context.Context, node int, key, value string) (int64, error) {
	return number(l.nodes[node].Release(ctx, key, value))
}

func (l *broken) leaves(start, end time.Time) bool {
	return redlock.Validity(l.cfg.TTL, end.Sub(start), l.drift) > 0
}

func (l *broken) fromStart(start, _ time.Time) time.Time { return start.Add(l.cfg.TTL - l.drift) }
func (l *broken) fromEnd(_, end time.Time) time.Time     { return end.Add(l.cfg.TTL - l.drift) }

// highest is the highest count of the nodes that granted. It is written back to
// those that are behind, and who doesn't confirm it has no vote.
func (l *broken) highest(ctx context.Context, h *handle) int64 {
	fence, behind := driver.Highest(h.granted)
	for _, a := range l.ask(ctx, behind, func(ctx context.Context, node int) (int64, error) {
		return number(l.nodes[node].RaiseFence(ctx, h.key, h.value, fence))
	}) {
		h.granted[a.Node] = a
	}
	return fence
}

func number(yes bool, err error) (int64, error) {
	if yes {
		return 1, err
	}
	return 0, err
}

// Why an extension was not tried, or not done. The lock is held until its old deadline.
var (
	errLimit   = errors.New("the limit of extensions is reached")
	errExpired = errors.New("the validity time was over")
)

// handle is one acquired lock, or one attempt at it.
type handle struct {
	lock       *broken
	key, value string
	granted    []driver.Answer // to the attempt, by node
	fence      int64
	deadline   time.Time
	extends    int // tried so far
}

var (
	_ lock.Tokener     = (*handle)(nil)
	_ lock.Extender    = (*handle)(nil)
	_ lock.WallClocked = (*handle)(nil)
	_ lock.Fencer      = (*handle)(nil)
)

func (h *handle) Deadline() time.Time { return h.deadline }
func (h *handle) Token() string       { return h.value }
func (h *handle) ByWall() bool        { return h.lock.byWall }
func (h *handle) Fence() int64        { return h.fence }

func (h *handle) Release(ctx context.Context) error {
	l := h.lock
	answers := driver.Count(l.release(ctx, l.holders(h), h, l.del))
	switch quorum := redlock.Quorum(len(l.nodes)); {
	case answers.Yes >= quorum:
		return nil
	case answers.No >= quorum:
		return fmt.Errorf("release %q: %w", h.key, lock.ErrNotHeld)
	}
	return fmt.Errorf("release %q: outcome unknown, %d nodes said yes and %d no", h.key, answers.Yes, answers.No)
}

func (h *handle) Extend(ctx context.Context) error {
	l := h.lock
	start := l.now()
	switch {
	case !l.current(h, start):
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	case h.extends >= l.extends:
		return fmt.Errorf("extend %q: %w", h.key, errLimit)
	}
	h.extends++
	answers := driver.Count(l.ask(ctx, l.all, func(ctx context.Context, node int) (int64, error) {
		return l.extend(ctx, node, h.key, h.value)
	}))
	end := l.now()

	switch quorum := redlock.Quorum(len(l.nodes)); {
	case answers.Yes >= l.renewal:
	case answers.No >= quorum:
		return fmt.Errorf("extend %q: %w", h.key, lock.ErrNotHeld)
	default:
		return fmt.Errorf("extend %q: outcome unknown, %d nodes said yes and %d no", h.key, answers.Yes, answers.No)
	}
	if !l.renewed(h, start, end) {
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	}
	if until := l.further(start, end); until.After(h.deadline) {
		h.deadline = until
	}
	return nil
}

var contextByTimer = mistake{Mistake{"context-by-timer",
	"ends its context only by a timer that starts when the context is first requested, and never checks the clock: a context requested after the deadline has not ended yet",
	"a context that nobody has requested needs no timer, and the timer knows when to fire"},
	func(l *broken) {
		l.give = func(h *handle) lock.Handle {
			return &contexter{handle: h, until: h.deadline, wait: func(left time.Duration) time.Duration { return left }}
		}
	}}

var contextByTicker = mistake{Mistake{"context-by-ticker",
	"checks the deadline only every three quarters of a TTL to end its context, so the context can outlive the lease",
	"an occasional check is cheaper than a timer for each lock, and the deadline is checked either way"},
	func(l *broken) {
		l.give = func(h *handle) lock.Handle {
			return contextLoser{&contexter{handle: h, until: h.deadline, wait: func(time.Duration) time.Duration { return l.cfg.TTL * 3 / 4 }}}
		}
	}}

// contexter is a handle with a context that a goroutine ends.
type contexter struct {
	*handle
	wait func(left time.Duration) time.Duration // before the next look at the deadline

	mu    sync.Mutex
	until time.Time       // the deadline
	ctx   context.Context // nil until it is asked for
	end   context.CancelFunc
}

var _ lock.Contexter = (*contexter)(nil)

// Context implements lock.Contexter.
func (c *contexter) Context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ctx, c.end = context.WithCancel(context.Background())
		go c.watch(c.ctx, c.end)
	}
	return c.ctx
}

// watch ends the context once it finds the deadline past.
func (c *contexter) watch(ctx context.Context, end context.CancelFunc) {
	l := c.handle.lock
	left := func() time.Duration {
		c.mu.Lock()
		until := c.until
		c.mu.Unlock()
		return until.Sub(l.now())
	}
	for {
		select {
		case <-l.cfg.After(c.wait(left())):
		case <-ctx.Done():
			return
		case <-l.closed:
			return
		}
		if left() <= 0 {
			end()
			return
		}
	}
}

func (c *contexter) Extend(ctx context.Context) error {
	err := c.handle.Extend(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = c.handle.deadline
	return err
}

func (c *contexter) Release(ctx context.Context) error {
	c.mu.Lock()
	end := c.end
	c.mu.Unlock()
	if end != nil {
		end()
	}
	return c.handle.Release(ctx)
}

// contextLoser is a contexter whose holder listens to the context from the start.
type contextLoser struct{ *contexter }

var _ lock.Loser = contextLoser{}

// Lost implements lock.Loser.
func (c contextLoser) Lost() <-chan struct{} { return c.Context().Done() }
