package redlock

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"lockpick/redlock/driver"
)

// acquisition contains what Lock and Lease have in common.
type acquisition struct {
	client     *Client // with the configuration that applies
	key, token string
	fence      int64
	votes      int
	start      time.Time // when the attempt started

	mu       sync.Mutex // never held during requests to nodes
	deadline time.Time
	extends  int   // number of extensions attempted
	released bool  // Lease only
	cause    error // why the lease ended; Lease only
}

func (c *Client) newAcquisition(key, token string, fence int64, start time.Time, answers []driver.Answer) acquisition {
	return acquisition{client: c, key: key, token: token, fence: fence, votes: driver.Count(answers).Yes, start: start,
		deadline: start.Add(c.cfg.TTL - c.cfg.drift())}
}

// Key returns the name of the lock.
func (h *acquisition) Key() string { return h.key }

// Token returns the lock's token, a random value that is stored under its key on the nodes.
func (h *acquisition) Token() string { return h.token }

// Fence returns the fencing token, which is higher than those of all earlier holders of the key, or
// 0 without Config.Fence.
func (h *acquisition) Fence() int64 { return h.fence }

// Votes returns the number of nodes that had granted the lock by the time it was acquired.
func (h *acquisition) Votes() int { return h.votes }

// Until returns the deadline, measured by Config.Now. The holder must stop before it. A failed
// Extend does not change it.
func (h *acquisition) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deadline
}

// extend calls ask, and moves the deadline if a quorum agrees in time. It returns the answers.
func (h *acquisition) extend(ctx context.Context, ask func() []driver.Answer) (answers []driver.Answer, err *Error) {
	c := h.client
	fail := Error{Op: "extend", Key: h.key}
	if ctx.Err() != nil {
		return nil, canceledError(ctx, fail)
	}
	start := c.cfg.Now()
	if fail.Kind = h.startExtension(start); fail.Kind != nil {
		return nil, &fail
	}
	answers = ask()
	end := c.cfg.Now()
	kind := c.quorumError(driver.Count(answers))
	if kind == nil {
		kind = h.moveDeadline(start, end)
	}
	if kind == nil {
		return answers, nil
	}
	failed := c.failure(fail.Op, h.key, kind, answers)
	if kind == ErrNoQuorum && ctx.Err() != nil {
		failed = canceledError(ctx, *failed)
	}
	return answers, failed
}

// startExtension checks that another extension is allowed, and counts it.
func (h *acquisition) startExtension(start time.Time) error {
	cfg := h.client.cfg
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.released:
		return ErrReleased
	case !start.Before(h.deadline):
		return ErrExpired
	case h.extends >= cfg.Extends, cfg.MaxHold > 0 && start.Add(cfg.TTL-cfg.drift()).Sub(h.start) > cfg.MaxHold:
		return ErrLimit
	}
	h.extends++
	return nil
}

// moveDeadline moves the deadline if a successful extension finished in time. It never revives a
// lease that ended in the meantime, because a context can't be revived.
func (h *acquisition) moveDeadline(start, end time.Time) error {
	cfg := h.client.cfg
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != nil {
		return h.cause
	}
	if !end.Before(h.deadline) || Validity(cfg.TTL, end.Sub(start), cfg.drift()) <= 0 {
		return ErrExpired
	}
	if until := start.Add(cfg.TTL - cfg.drift()); until.After(h.deadline) {
		h.deadline = until
	}
	return nil
}

// Lease is one acquisition of a lock, with its own token. Only its deadline can change, by
// extensions. It is safe for concurrent use.
type Lease struct {
	acquisition
	locker     *Locker
	acquireCtx context.Context
	grants     *ballot         // nil with Batchers
	answers    []driver.Answer // those that decided the acquisition
	watchEntry watchEntry      // position in the Locker's deadlineWatcher

	// Guarded by acquisition.mu.
	ctx      *leaseContext // nil until Context is called
	repaired []bool        // by node: a repair may have set its key; nil: no repairs
}

func (s *Lease) startRenewal() {
	if s.locker.cfg.Renew > 0 {
		s.locker.work.Go(s.renew)
	}
}

// Refusals returns the nodes that had not granted the lock when it was acquired, with the reasons.
func (s *Lease) Refusals() []NodeError { return s.locker.client.nodeErrors(s.answers) }

// Remaining returns the time until the deadline, which is 0 or negative once the deadline has
// passed. It does not notice that the lease has been lost or released; use Context for that.
func (s *Lease) Remaining() time.Duration { return s.Until().Sub(s.locker.cfg.Now()) }

// renew extends the lease periodically until the lease ends or reaches its limit. It continues
// after a failed extension, because the next one may succeed.
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

// Extend moves the deadline like Lock.Extend, but returns as soon as a quorum of nodes agrees. With
// Config.Repair it waits for all nodes and, once a majority has confirmed the lock, sets the key
// again on nodes that lost it. It never reacquires a lost lock: after ErrLost, the lease is over.
func (s *Lease) Extend(ctx context.Context) error {
	l := s.locker
	if err := l.startWork(); err != nil {
		return &Error{Op: "extend", Key: s.key, Kind: err}
	}
	defer l.work.Done()
	l.observe(Event{Type: Invoke, Op: "extend", Key: s.key, Token: s.token})
	err := s.extend(ctx)
	e := Event{Type: OK, Op: "extend", Key: s.key, Token: s.token, Until: s.Until()}
	if err != nil {
		e.Type, e.Err = outcome(err.Kind), err
		if err.Kind == ErrLost {
			s.end(ErrLost)
		}
		l.observe(e)
		return err
	}
	l.observe(e)
	return nil
}

func (s *Lease) extend(ctx context.Context) *Error {
	l, quorum := s.locker, Quorum(len(s.locker.allNodes))
	if l.cfg.Repair {
		quorum = waitForAll
	}
	answers, err := s.acquisition.extend(ctx, func() []driver.Answer {
		return l.ask(waitContext{Context: ctx}, l.allNodes, driver.Request{Op: driver.OpExtend, Key: s.key, Token: s.token, Terms: s.client.terms()}, quorum)
	})
	if err == nil && l.cfg.Repair {
		s.repair(ctx, answers)
	}
	return err
}

// repair sets the key again on the nodes that reported it missing while a majority confirmed the
// lock. No other client can have acquired the lock from these nodes in the meantime. If another
// client's attempt left its key on a node, that key is not overwritten.
func (s *Lease) repair(ctx context.Context, answers []driver.Answer) {
	var lost []int
	s.mu.Lock()
	for _, a := range answers {
		if a.No() && !s.released {
			lost = append(lost, a.Node)
		}
	}
	if len(lost) > 0 && s.repaired == nil {
		s.repaired = make([]bool, len(s.locker.allNodes))
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
	terms.Fence, terms.Quarantine = false, 0 // a repair is not a new grant, and a majority has confirmed the lock
	answered := s.locker.ask(waitContext{Context: ctx}, lost, driver.Request{Op: driver.OpGrant, Key: s.key, Token: s.token, Terms: terms}, waitForAll)
	e := Event{Type: OK, Op: "repair", Key: s.key, Token: s.token}
	if driver.Count(answered).Yes < len(lost) {
		e.Type = Info
	}
	s.locker.observe(e)
}

// Release releases the lock on all nodes, and returns as soon as a quorum of them agrees. The rest
// continues in the background, and nodes that don't answer are asked again until the key has
// expired. It returns nil if a quorum had the key and deleted it, ErrLost if a quorum did not have
// it, and ErrNoQuorum if the outcome is unknown. ctx limits how long Release waits, but not the
// background work.
func (s *Lease) Release(ctx context.Context) error {
	l := s.locker
	if err := l.startWork(); err != nil {
		return &Error{Op: "release", Key: s.key, Kind: err}
	}
	defer l.work.Done()
	l.observe(Event{Type: Invoke, Op: "release", Key: s.key, Token: s.token})
	s.end(ErrReleased)
	d, unsure := s.pendingRelease()
	b := l.release(ctx, l.allNodes, d, unsure)
	defer b.unref()
	var buf [9]driver.Answer
	answers := b.wait(waitContext{Context: ctx}, Quorum(len(l.allNodes)), buf[:0])
	e := Event{Type: OK, Op: "release", Key: s.key, Token: s.token}
	if kind := l.client.quorumError(driver.Count(answers)); kind != nil {
		e.Type, e.Err = outcome(kind), l.client.failure("release", s.key, kind, answers)
		if kind == ErrNoQuorum && ctx.Err() != nil {
			e.Err = canceledError(ctx, *l.client.failure("release", s.key, kind, answers))
		}
	}
	l.observe(e)
	return e.Err
}

// pendingRelease returns the release to send to all nodes, and a function that reports whether the
// last request to a node may still be in flight, and so could set the key or its expiry later.
func (s *Lease) pendingRelease() (pendingRelease, func(node int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	ttl := s.client.cfg.TTL
	d := pendingRelease{key: s.key, token: s.token, ttl: ttl, until: s.deadline.Add(ttl)}
	if s.grants == nil {
		return d, nil
	}
	s.grants.mu.Lock()
	answers, repaired := s.grants.appendAndUnlock(nil), slices.Clone(s.repaired)
	return d, func(n int) bool { return answers[n].Err != nil || repaired != nil && repaired[n] }
}

// Lock is a lock acquired by a Client. It is safe for concurrent use.
type Lock struct{ acquisition }

// Extend moves the deadline to one TTL after the start of the call, minus drift, if a quorum still
// has the key and extends its expiry before the lock's deadline. It never sets a missing key. The
// kinds of error are ErrLost, ErrNoQuorum, ErrExpired, ErrLimit and ErrCanceled. Except after
// ErrLost, the lock stays valid until its old deadline.
func (l *Lock) Extend(ctx context.Context) error {
	c := l.client
	_, err := l.extend(ctx, func() []driver.Answer {
		return c.send(ctx, c.allNodes, driver.Request{Op: driver.OpExtend, Key: l.key, Token: l.token, Terms: driver.Terms{TTL: c.cfg.TTL}})
	})
	if err != nil {
		return err
	}
	return nil
}

// Release releases the lock on all nodes, including those that never granted it. It returns nil if
// a quorum had the key and deleted it, ErrLost if a quorum did not have it, and ErrNoQuorum if the
// outcome is unknown. Even if ctx is done, it sends its requests and waits for the answers, up to
// the nodes' timeout. Once Release is called, the caller must treat the lock as lost.
func (l *Lock) Release(ctx context.Context) error {
	c := l.client
	answers := c.release(ctx, l.key, l.token)
	if kind := c.quorumError(driver.Count(answers)); kind != nil {
		return c.failure("release", l.key, kind, answers)
	}
	return nil
}

// quorumError returns the error kind for an extension or release: nil if a quorum had the lock,
// ErrLost if a quorum did not have it, ErrNoQuorum otherwise.
func (c *Client) quorumError(t driver.Tally) error {
	switch quorum := Quorum(len(c.allNodes)); {
	case t.Yes >= quorum:
		return nil
	case t.No >= quorum:
		return ErrLost
	}
	return ErrNoQuorum
}

// Context returns a context that is canceled when the lease ends, regardless of pending requests: at the
// deadline (with cause ErrExpired), earlier if a majority reports that the lock is lost (ErrLost),
// and on Release (ErrReleased) and Locker.Close (ErrClosed). It has the values of the context
// passed to Acquire, but is not canceled with that context.
//
// The clock used by Until and Remaining decides when the context is done; timers don't. Once that
// clock reaches the deadline, Err returns an error and Done returns a closed channel, even if
// Context is first called after the deadline, or if the process was stopped past the deadline and
// no timer has fired yet. A holder can therefore check either before it acts. A timer wakes a
// holder that waits on Done, and can be late.
//
// A context derived with WithCancel, WithTimeout or WithDeadline does not check the clock. It is
// canceled only once something notices that the lease is over: the timer, or a call of Err or Done
// on the lease's context. Until then, for example in the first instant after a stopped process
// resumes, its Err is nil. The same applies to functions registered with AfterFunc. Before acting
// on the lock, check the context that Context returns, a context derived from it with WithValue, or
// Remaining. A context derived after the deadline is already done.
//
// Err returns no error other than context.Canceled; context.Cause returns the reason. Deadline
// reports no deadline, because extensions move it: WithTimeout and WithDeadline would drop their
// own deadline in favor of an earlier one, which could then move past theirs. Until returns the
// deadline.
func (s *Lease) Context() context.Context {
	s.mu.Lock()
	if s.ctx == nil {
		c := &leaseContext{lease: s}
		c.Context, c.cancel = context.WithCancelCause(context.WithoutCancel(s.acquireCtx))
		s.ctx = c
		if s.cause == nil && !s.locker.watcher.add(s, s.deadline) {
			s.cause = ErrClosed
		}
	}
	ctx := s.ctx
	s.mu.Unlock()
	ctx.update()
	return ctx
}

// leaseContext is a context that is canceled when its lease ends. Its methods check the clock first.
type leaseContext struct {
	context.Context // from package context, so that derived contexts need no goroutine to follow it
	lease           *Lease
	cancel          context.CancelCauseFunc // cancels Context
}

func (c *leaseContext) Done() <-chan struct{} {
	c.update()
	return c.Context.Done()
}

func (c *leaseContext) Err() error {
	c.update()
	return c.Context.Err()
}

// update cancels the context if the lease is over.
func (c *leaseContext) update() {
	if c.Context.Err() != nil {
		return
	}
	// No mutex is held while the clock is read, because a simulated clock may block.
	if cause := c.lease.endCause(c.lease.locker.cfg.Now()); cause != nil {
		c.cancel(cause) // even if another goroutine noticed first, because it may not have canceled the context yet
	}
}

// endCause returns the reason why the lease is over, or nil. It ends the lease first if its
// deadline has passed.
func (s *Lease) endCause(now time.Time) error {
	s.mu.Lock()
	expired := s.cause == nil && !now.Before(s.deadline)
	if expired {
		s.cause = ErrExpired
	}
	cause := s.cause
	s.mu.Unlock()
	if expired {
		s.notifyEnd(cause)
	}
	return cause
}

// end ends the lease unless it is already over.
func (s *Lease) end(cause error) {
	s.mu.Lock()
	first := s.cause == nil
	if first {
		s.cause = cause
	}
	s.mu.Unlock()
	if first {
		s.notifyEnd(cause)
	}
}

// notifyEnd reports the end of the lease to Config.Observe, unless it was released, and ends the
// lease's context.
func (s *Lease) notifyEnd(cause error) {
	if cause != ErrReleased {
		s.locker.observe(Event{Type: Info, Op: "lost", Key: s.key, Token: s.token, Err: cause})
	}
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	if ctx != nil {
		s.locker.watcher.remove(s)
		ctx.cancel(cause)
	}
}

// deadlineWatcher closes the Done channels of leases' contexts at their deadlines, with one
// goroutine per Locker. Callers that check a context do not depend on the watcher; see
// leaseContext.
type deadlineWatcher struct {
	locker *Locker

	mu      sync.Mutex // innermost lock; not held while the clock is read
	leases  leaseHeap
	running bool          // the goroutine is running
	wake    chan struct{} // wakes the goroutine for an earlier deadline
}

// watchEntry is a deadlineWatcher's state for one lease.
type watchEntry struct {
	due   time.Time // when to check the lease: at its deadline or earlier
	index int       // position in the heap, counted from 1; 0 if not watched
}

// add starts watching s. It fails if the Locker is closed.
func (w *deadlineWatcher) add(s *Lease, due time.Time) bool {
	if w.locker.startWork() != nil {
		return false
	}
	defer w.locker.work.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	s.watchEntry.due = due
	heap.Push(&w.leases, s)
	switch {
	case !w.running:
		w.running = true
		w.locker.work.Go(w.run)
	case w.leases[0] == s:
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// remove stops watching s.
func (w *deadlineWatcher) remove(s *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.watchEntry.index > 0 {
		heap.Remove(&w.leases, s.watchEntry.index-1)
	}
}

// run ends leases at their deadlines until no leases are left.
func (w *deadlineWatcher) run() {
	for {
		var closeErr error
		if w.locker.lifetime.Err() != nil {
			closeErr = ErrClosed
		}
		wait, more := w.endExpired(closeErr)
		if !more {
			return
		}
		select {
		case <-w.locker.cfg.After(wait):
		case <-w.wake:
		case <-w.locker.lifetime.Done():
		}
	}
}

// endExpired ends the leases that are over, or all leases if closed is not nil. It returns the time
// until the next deadline.
func (w *deadlineWatcher) endExpired(closeErr error) (wait time.Duration, more bool) {
	for {
		now := w.locker.cfg.Now()
		w.mu.Lock()
		if len(w.leases) == 0 {
			w.running = false
			w.mu.Unlock()
			return 0, false
		}
		if wait = w.leases[0].watchEntry.due.Sub(now); wait > 0 && closeErr == nil {
			w.mu.Unlock()
			return wait, true
		}
		s := heap.Pop(&w.leases).(*Lease)
		w.mu.Unlock()
		if closeErr != nil {
			s.end(closeErr)
		} else if s.endCause(now) == nil {
			s.resumeWatch()
		}
	}
}

// resumeWatch puts s back in the watcher after its deadline has moved.
func (s *Lease) resumeWatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return
	}
	w := &s.locker.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	s.watchEntry.due = s.deadline
	heap.Push(&w.leases, s)
}

// leaseHeap orders leases by due time.
type leaseHeap []*Lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].watchEntry.due.Before(h[j].watchEntry.due) }
func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].watchEntry.index, h[j].watchEntry.index = i+1, j+1
}

func (h *leaseHeap) Push(s any) {
	*h = append(*h, s.(*Lease))
	s.(*Lease).watchEntry.index = len(*h)
}

func (h *leaseHeap) Pop() any {
	all := *h
	s := all[len(all)-1]
	all[len(all)-1] = nil
	*h = all[:len(all)-1]
	s.watchEntry.index = 0
	return s
}
