package redlock

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"lockpick/redlock/driver"
)

// held is what a quorum has granted, and until when: what a Lock and a Lease have in common.
type held struct {
	client     *Client // whose arithmetic it is
	key, token string
	fence      int64
	votes      int
	start      time.Time // of the attempt

	mu       sync.Mutex // never held while nodes are asked
	until    time.Time
	extends  int   // tried so far
	released bool  // of a Lease
	cause    error // why it has ended, of a Lease
}

func (c *Client) held(key, token string, fence int64, start time.Time, answers []driver.Answer) held {
	return held{client: c, key: key, token: token, fence: fence, votes: driver.Count(answers).Yes, start: start,
		until: start.Add(c.cfg.TTL - c.cfg.drift())}
}

// Key is the name of what is locked.
func (h *held) Key() string { return h.key }

// Token is the random value that the key has on the nodes.
func (h *held) Token() string { return h.token }

// Fence is the fencing token, above that of every earlier holder of the key; 0 without
// Config.Fence.
func (h *held) Fence() int64 { return h.fence }

// Votes is the number of nodes that had granted it when it was acquired.
func (h *held) Votes() int { return h.votes }

// Until is the deadline, by the clock of Config.Now, at which the holder must have stopped. A
// failed Extend does not move it.
func (h *held) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// extend moves the deadline, if a quorum of those who are asked agrees to it in time. The answers
// are those that decided it.
func (h *held) extend(ctx context.Context, ask func() []driver.Answer) (answers []driver.Answer, err *Error) {
	c := h.client
	fail := Error{Op: "extend", Key: h.key}
	if ctx.Err() != nil {
		return nil, cancelled(ctx, fail)
	}
	start := c.cfg.Now()
	if fail.Kind = h.admit(start); fail.Kind != nil {
		return nil, &fail
	}
	answers = ask()
	end := c.cfg.Now()
	kind := c.standing(driver.Count(answers))
	if kind == nil {
		kind = h.prolong(start, end)
	}
	if kind == nil {
		return answers, nil
	}
	failed := c.failure(fail.Op, h.key, kind, answers)
	if kind == ErrNoQuorum && ctx.Err() != nil {
		failed = cancelled(ctx, *failed)
	}
	return answers, failed
}

// admit says whether an extension may be tried, and counts it.
func (h *held) admit(start time.Time) error {
	cfg := h.client.cfg
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.released:
		return ErrReleased
	case !start.Before(h.until):
		return ErrExpired
	case h.extends >= cfg.Extends, cfg.MaxHold > 0 && start.Add(cfg.TTL-cfg.drift()).Sub(h.start) > cfg.MaxHold:
		return ErrLimit
	}
	h.extends++
	return nil
}

// prolong moves the deadline, if an extension that a quorum agreed to ended in time. It never
// revives a lease that was declared over meanwhile: its context has ended for good.
func (h *held) prolong(start, end time.Time) error {
	cfg := h.client.cfg
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != nil {
		return h.cause
	}
	if !end.Before(h.until) || Validity(cfg.TTL, end.Sub(start), cfg.drift()) <= 0 {
		return ErrExpired
	}
	if until := start.Add(cfg.TTL - cfg.drift()); until.After(h.until) {
		h.until = until
	}
	return nil
}

// Lease is what a Locker gives: one acquisition, with a token of its own. All of it is fixed
// but the deadline, which extensions move. It may be used by several goroutines at once.
type Lease struct {
	held
	locker  *Locker
	within  context.Context
	grants  *ballot         // nil of Batchers
	answers []driver.Answer // that decided it
	watched watched         // the Locker's watch has it

	// Guarded by held.mu.
	ctx      *leaseContext // nil until somebody asks for it
	repaired []bool        // by node: its key was set again, or may still be; nil: none
}

// begin starts what a lease does by itself.
func (s *Lease) begin() {
	if s.locker.cfg.Renew > 0 {
		s.locker.work.Go(s.renew)
	}
}

// Refusals are the nodes that had not granted it then, and why.
func (s *Lease) Refusals() []NodeError { return s.locker.plain.causes(s.answers) }

// Remaining is the time left until the deadline, and not above zero once it has passed. A lease
// that ends before its deadline, because it was lost or released, does not shorten it: for that
// ask Context.
func (s *Lease) Remaining() time.Duration { return s.Until().Sub(s.locker.cfg.Now()) }

// renew extends the lease again and again, until it ends or may not be extended any more.
// What an extension failed by may be over at the next.
func (s *Lease) renew() {
	ctx := s.Context()
	for {
		select {
		case <-s.locker.cfg.After(s.locker.cfg.Renew):
		case <-ctx.Done():
			return
		}
		if err, ok := s.Extend(ctx).(*Error); ok && err.Kind == ErrLimit {
			return
		}
	}
}

// Extend moves the deadline as Lock.Extend does, and returns as soon as a quorum has answered
// alike. With Config.Repair it waits for all, and once a majority has confirmed that the lock
// is held, sets the key again where a node has lost it. It never takes a lost lock again:
// after ErrLost the lease is over.
func (s *Lease) Extend(ctx context.Context) error {
	l := s.locker
	if err := l.enter(); err != nil {
		return &Error{Op: "extend", Key: s.key, Kind: err}
	}
	defer l.work.Done()
	l.observe(Event{Type: Invoke, Op: "extend", Key: s.key, Token: s.token})
	err := s.extend(ctx)
	e := Event{Type: OK, Op: "extend", Key: s.key, Token: s.token, Until: s.Until()}
	if err != nil {
		e.Type, e.Err = outcome(err.Kind), err
		if err.Kind == ErrLost {
			s.over(ErrLost)
		}
		l.observe(e)
		return err
	}
	l.observe(e)
	return nil
}

func (s *Lease) extend(ctx context.Context) *Error {
	l, quorum := s.locker, Quorum(len(s.locker.all))
	if l.cfg.Repair {
		quorum = all
	}
	answers, err := s.held.extend(ctx, func() []driver.Answer {
		return l.answers(patience{Context: ctx}, l.all, driver.Request{Op: driver.OpExtend, Key: s.key, Token: s.token, Terms: s.client.terms()}, quorum)
	})
	if err == nil && l.cfg.Repair {
		s.repair(ctx, answers)
	}
	return err
}

// repair sets the key again on nodes that said, in a round in which a majority confirmed the
// lock, that they do not have it. Nobody can have got the lock from them meanwhile; where
// another's attempt has left its key it stays.
func (s *Lease) repair(ctx context.Context, answers []driver.Answer) {
	var lost []int
	s.mu.Lock()
	for _, a := range answers {
		if a.No() && !s.released {
			lost = append(lost, a.Node)
		}
	}
	if len(lost) > 0 && s.repaired == nil {
		s.repaired = make([]bool, len(s.locker.all))
	}
	for _, n := range lost {
		s.repaired[n] = true
	}
	s.mu.Unlock()
	if len(lost) == 0 {
		return
	}
	s.locker.observe(Event{Type: Invoke, Op: "repair", Key: s.key, Token: s.token})
	terms := s.client.terms()
	terms.Fence, terms.Quarantine = false, 0 // it is no new grant, and what it sets a majority has confirmed
	again := s.locker.answers(patience{Context: ctx}, lost, driver.Request{Op: driver.OpGrant, Key: s.key, Token: s.token, Terms: terms}, all)
	e := Event{Type: OK, Op: "repair", Key: s.key, Token: s.token}
	if driver.Count(again).Yes < len(lost) {
		e.Type = Info
	}
	s.locker.observe(e)
}

// Release gives the lock back on all nodes, and returns as soon as a quorum has answered
// alike; the others are seen to in the background, a node that does not answer until the key
// has expired. Nil means that a quorum had it and let it go, ErrLost that a quorum did not
// have it, ErrNoQuorum that nobody knows. ctx bounds the waiting, not the work.
func (s *Lease) Release(ctx context.Context) error {
	l := s.locker
	if err := l.enter(); err != nil {
		return &Error{Op: "release", Key: s.key, Kind: err}
	}
	defer l.work.Done()
	l.observe(Event{Type: Invoke, Op: "release", Key: s.key, Token: s.token})
	s.over(ErrReleased)
	d, unsure := s.debt()
	b := l.release(ctx, l.all, d, unsure)
	defer b.leave()
	var few [9]driver.Answer
	answers := b.until(patience{Context: ctx}, Quorum(len(l.all)), few[:0])
	e := Event{Type: OK, Op: "release", Key: s.key, Token: s.token}
	if kind := l.plain.standing(driver.Count(answers)); kind != nil {
		e.Type, e.Err = outcome(kind), l.plain.failure("release", s.key, kind, answers)
		if kind == ErrNoQuorum && ctx.Err() != nil {
			e.Err = cancelled(ctx, *l.plain.failure("release", s.key, kind, answers))
		}
	}
	l.observe(e)
	return e.Err
}

// debt is what each node is to let go of, and of which it is not known whether they have it:
// what was asked last of them may have set the key or moved its expiry.
func (s *Lease) debt() (debt, func(node int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	ttl := s.client.cfg.TTL
	d := debt{key: s.key, token: s.token, ttl: ttl, until: s.until.Add(ttl)}
	if s.grants == nil {
		return d, nil
	}
	s.grants.mu.Lock()
	answers, repaired := s.grants.look(nil), slices.Clone(s.repaired)
	return d, func(n int) bool { return answers[n].Err != nil || repaired != nil && repaired[n] }
}

// Lock is what a client holds after a quorum granted it. It may be used by
// several goroutines at once.
type Lock struct{ held }

// Extend moves the deadline to a TTL, less drift, from its start, if a quorum
// still has the key and moves its expiry, all within the validity that the lock
// has. It never sets a key that is gone. The kinds of its errors are ErrLost,
// ErrNoQuorum, ErrExpired, ErrLimit and ErrCancelled; whichever it is, the lock
// is valid until its old deadline, except after ErrLost.
func (l *Lock) Extend(ctx context.Context) error {
	c := l.client
	_, err := l.extend(ctx, func() []driver.Answer {
		return c.ask(ctx, c.all, driver.Request{Op: driver.OpExtend, Key: l.key, Token: l.token, Terms: driver.Terms{TTL: c.cfg.TTL}})
	})
	if err != nil {
		return err
	}
	return nil
}

// Release gives the lock back on all nodes, also on those that never granted
// it. Nil means that at least a quorum had it and let it go. ErrLost means that
// at least a quorum did not have it; ErrNoQuorum that nobody knows. It does its
// work even if ctx has ended, within the nodes' time-out. No more of the lock
// should be believed once it is called.
func (l *Lock) Release(ctx context.Context) error {
	c := l.client
	answers := c.release(ctx, l.key, l.token)
	if kind := c.standing(driver.Count(answers)); kind != nil {
		return c.failure("release", l.key, kind, answers)
	}
	return nil
}

// standing reads answers about a lock that was held: nil if a quorum had it,
// ErrLost if so many did not have it that no quorum can, else ErrNoQuorum.
func (c *Client) standing(t driver.Tally) error {
	switch quorum := Quorum(len(c.all)); {
	case t.Yes >= quorum:
		return nil
	case t.No >= quorum:
		return ErrLost
	}
	return ErrNoQuorum
}

// Context ends when the lease does, whatever its holder or its nodes are doing: at the deadline
// (its cause is ErrExpired), before it if a majority says that the lock is lost (ErrLost), and
// with Release (ErrReleased) and Locker.Close (ErrClosed). It has the values of the context that
// the lease was acquired with, but does not end with that one.
//
// The clock that Until and Remaining go by decides, not a timer. Once that clock shows the
// deadline, Err returns an error and Done a closed channel, even if Context is called only then,
// or the process was stopped past the deadline and no timer has fired yet. So a holder may ask
// either of them before it acts. A holder that waits for Done to close is woken by a timer, which
// can be late.
//
// A context derived with WithCancel, WithTimeout or WithDeadline can't ask the clock: package
// context tells it only when the lease's context is found to have ended, by the timer or by
// anybody's call of Err or Done. Until then, for example in the first instant after the process
// was stopped past the deadline, its Err is nil. The same holds for functions registered with
// AfterFunc. Before acting on the lock, ask the context that Context returns (or one made of it by
// WithValue, which asks it), or Remaining. A context that is derived after the deadline has ended
// from the start.
//
// Err is context.Canceled whatever the reason; context.Cause tells it. Deadline reports none,
// since extensions move the lease's deadline: WithTimeout and WithDeadline would drop their own
// deadline for one that moves past it. The deadline is Until.
func (s *Lease) Context() context.Context {
	s.mu.Lock()
	if s.ctx == nil {
		c := &leaseContext{lease: s}
		c.Context, c.end = context.WithCancelCause(context.WithoutCancel(s.within))
		s.ctx = c
		if s.cause == nil && !s.locker.watch.add(s, s.until) {
			s.cause = ErrClosed
		}
	}
	ctx := s.ctx
	s.mu.Unlock()
	ctx.update()
	return ctx
}

// leaseContext is a context that ends with its lease. Before it answers, it asks the lease's clock.
type leaseContext struct {
	context.Context // one of package context, so that derived contexts attach to it without a goroutine
	lease           *Lease
	end             context.CancelCauseFunc // ends Context
}

func (c *leaseContext) Done() <-chan struct{} {
	c.update()
	return c.Context.Done()
}

func (c *leaseContext) Err() error {
	c.update()
	return c.Context.Err()
}

// update ends the context if the lease is over.
func (c *leaseContext) update() {
	if c.Context.Err() != nil {
		return
	}
	// The clock is read while no mutex is held: the clock of a simulation may block.
	if cause := c.lease.ended(c.lease.locker.cfg.Now()); cause != nil {
		c.end(cause) // also where another goroutine found out first and has yet to get that far
	}
}

// ended returns why the lease is over, or nil. It is over if its deadline has passed at now.
func (s *Lease) ended(now time.Time) error {
	s.mu.Lock()
	expired := s.cause == nil && !now.Before(s.until)
	if expired {
		s.cause = ErrExpired
	}
	cause := s.cause
	s.mu.Unlock()
	if expired {
		s.finish(cause)
	}
	return cause
}

// over ends the lease, unless it is over already.
func (s *Lease) over(cause error) {
	s.mu.Lock()
	first := s.cause == nil
	if first {
		s.cause = cause
	}
	s.mu.Unlock()
	if first {
		s.finish(cause)
	}
}

// finish reports the end of the lease, unless its holder asked for it, and ends its context.
func (s *Lease) finish(cause error) {
	if cause != ErrReleased {
		s.locker.observe(Event{Type: Info, Op: "lost", Key: s.key, Token: s.token, Err: cause})
	}
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	if ctx != nil {
		s.locker.watch.remove(s)
		ctx.end(cause)
	}
}

// watch closes the Done channels of leases' contexts at their deadlines, by one goroutine for all
// of a Locker. Whoever asks a context need not wait for it: see leaseContext.
type watch struct {
	locker *Locker

	mu     sync.Mutex // nothing else is locked under it, nor is the clock asked
	leases soonest
	awake  bool          // the goroutine runs
	sooner chan struct{} // it is to look again
}

// watched is what the watch notes of a lease.
type watched struct {
	due time.Time // when it is looked at: its deadline, or one before
	at  int       // its place among them, from 1; 0: it is not watched
}

// add watches s, unless the Locker is closed.
func (w *watch) add(s *Lease, due time.Time) bool {
	if w.locker.enter() != nil {
		return false
	}
	defer w.locker.work.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	s.watched.due = due
	heap.Push(&w.leases, s)
	switch {
	case !w.awake:
		w.awake = true
		w.locker.work.Go(w.run)
	case w.leases[0] == s:
		select {
		case w.sooner <- struct{}{}:
		default:
		}
	}
	return true
}

// remove watches s no longer.
func (w *watch) remove(s *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.watched.at > 0 {
		heap.Remove(&w.leases, s.watched.at-1)
	}
}

// run looks whenever a deadline comes, until there are none.
func (w *watch) run() {
	for {
		var closed error
		if w.locker.life.Err() != nil {
			closed = ErrClosed
		}
		wait, more := w.look(closed)
		if !more {
			return
		}
		select {
		case <-w.locker.cfg.After(wait):
		case <-w.sooner:
		case <-w.locker.life.Done():
		}
	}
}

// look ends the leases that are over, all of them if closed says so, and says when it is to be
// called again.
func (w *watch) look(closed error) (wait time.Duration, more bool) {
	for {
		now := w.locker.cfg.Now()
		w.mu.Lock()
		if len(w.leases) == 0 {
			w.awake = false
			w.mu.Unlock()
			return 0, false
		}
		if wait = w.leases[0].watched.due.Sub(now); wait > 0 && closed == nil {
			w.mu.Unlock()
			return wait, true
		}
		s := heap.Pop(&w.leases).(*Lease)
		w.mu.Unlock()
		if closed != nil {
			s.over(closed)
		} else if s.ended(now) == nil {
			s.watchAgain()
		}
	}
}

// watchAgain has s watched until its deadline, which has moved.
func (s *Lease) watchAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return
	}
	w := &s.locker.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	s.watched.due = s.until
	heap.Push(&w.leases, s)
}

// soonest is a heap of leases, by when they are due.
type soonest []*Lease

func (h soonest) Len() int           { return len(h) }
func (h soonest) Less(i, j int) bool { return h[i].watched.due.Before(h[j].watched.due) }
func (h soonest) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].watched.at, h[j].watched.at = i+1, j+1
}

func (h *soonest) Push(s any) {
	*h = append(*h, s.(*Lease))
	s.(*Lease).watched.at = len(*h)
}

func (h *soonest) Pop() any {
	all := *h
	s := all[len(all)-1]
	all[len(all)-1] = nil
	*h = all[:len(all)-1]
	s.watched.at = 0
	return s
}
