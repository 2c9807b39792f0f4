package redlock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Lease is what a Locker gives: one acquisition, with a token of its own. All of it is fixed
// but the deadline, which extensions move. It may be used by several goroutines at once.
type Lease struct {
	locker     *Locker
	key, token string
	fence      int64
	start      time.Time // of the attempt
	within     context.Context
	grants     *ballot  // nil of Batchers
	answers    []Answer // that decided it
	watched    watched  // the Locker's watch has it

	mu       sync.Mutex // never held while nodes are asked
	until    time.Time
	extends  int // tried so far
	released bool
	cause    error         // why it has ended
	ctx      *leaseContext // nil until somebody asks for it
	repaired []bool        // by node: its key was set again, or may still be; nil: none
}

func (l *Locker) lease(ctx context.Context, key, token string, fence int64, start time.Time, answers []Answer) *Lease {
	return &Lease{locker: l, key: key, token: token, fence: fence, start: start, within: ctx, answers: answers,
		until: start.Add(l.cfg.TTL - l.cfg.drift())}
}

// begin starts what a lease does by itself.
func (s *Lease) begin() {
	if s.locker.cfg.Renew > 0 {
		s.locker.work.Go(s.renew)
	}
}

// Key is the name of what is locked.
func (s *Lease) Key() string { return s.key }

// Token is the random value that the key has on the nodes.
func (s *Lease) Token() string { return s.token }

// Fence is the fencing token, above that of every earlier holder of the key; 0 without
// Config.Fence.
func (s *Lease) Fence() int64 { return s.fence }

// Votes is the number of nodes that had granted it when it was acquired.
func (s *Lease) Votes() int { return Count(s.answers).Yes }

// Refusals are the nodes that had not granted it then, and why.
func (s *Lease) Refusals() []NodeError { return s.locker.plain.causes(s.answers) }

// Until is the deadline, by the clock of Config.Now, at which the holder must have stopped.
func (s *Lease) Until() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}

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
	l := s.locker
	fail := Error{Op: "extend", Key: s.key}
	if ctx.Err() != nil {
		return cancelled(ctx, fail)
	}
	start := l.cfg.Now()
	if fail.Kind = s.admit(start); fail.Kind != nil {
		return &fail
	}
	quorum := Quorum(len(l.all))
	if l.cfg.Repair {
		quorum = all
	}
	b := l.ask(ctx, l.all, Request{Op: OpExtend, Key: s.key, Token: s.token, Terms: l.terms()})
	defer b.leave()
	answers := b.until(patience{Context: ctx}, quorum, nil)
	end := l.cfg.Now()
	kind := l.plain.standing(Count(answers))
	if kind == nil {
		kind = s.prolong(start, end)
	}
	if kind == nil {
		if l.cfg.Repair {
			s.repair(ctx, answers)
		}
		return nil
	}
	failed := l.plain.failure(fail.Op, s.key, kind, answers)
	if kind == ErrNoQuorum && ctx.Err() != nil {
		return cancelled(ctx, *failed)
	}
	return failed
}

// admit says whether an extension may be tried, and counts it.
func (s *Lease) admit(start time.Time) error {
	cfg := s.locker.cfg
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.released:
		return ErrReleased
	case !start.Before(s.until):
		return ErrExpired
	case s.extends >= cfg.Extends, cfg.MaxHold > 0 && start.Add(cfg.TTL-cfg.drift()).Sub(s.start) > cfg.MaxHold:
		return ErrLimit
	}
	s.extends++
	return nil
}

// prolong moves the deadline, if an extension that a quorum agreed to ended in time. It never
// revives a lease that was declared over meanwhile: its context has ended for good.
func (s *Lease) prolong(start, end time.Time) error {
	cfg := s.locker.cfg
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return s.cause
	}
	if !end.Before(s.until) || Validity(cfg.TTL, end.Sub(start), cfg.drift()) <= 0 {
		return ErrExpired
	}
	if until := start.Add(cfg.TTL - cfg.drift()); until.After(s.until) {
		s.until = until
	}
	return nil
}

// repair sets the key again on nodes that said, in a round in which a majority confirmed the
// lock, that they do not have it. Nobody can have got the lock from them meanwhile; where
// another's attempt has left its key it stays.
func (s *Lease) repair(ctx context.Context, answers []Answer) {
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
	terms := s.locker.terms()
	terms.Fence, terms.Quarantine = false, 0 // it is no new grant, and what it sets a majority has confirmed
	b := s.locker.ask(ctx, lost, Request{Op: OpGrant, Key: s.key, Token: s.token, Terms: terms})
	defer b.leave()
	e := Event{Type: OK, Op: "repair", Key: s.key, Token: s.token}
	if Count(b.until(patience{Context: ctx}, all, nil)).Yes < len(lost) {
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
	var few [9]Answer
	answers := b.until(patience{Context: ctx}, Quorum(len(l.all)), few[:0])
	e := Event{Type: OK, Op: "release", Key: s.key, Token: s.token}
	if kind := l.plain.standing(Count(answers)); kind != nil {
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
	d := debt{key: s.key, token: s.token, until: s.until.Add(s.locker.cfg.TTL)}
	if s.grants == nil {
		return d, nil
	}
	s.grants.mu.Lock()
	answers, repaired := s.grants.look(nil), slices.Clone(s.repaired)
	return d, func(n int) bool { return answers[n].Err != nil || repaired != nil && repaired[n] }
}
