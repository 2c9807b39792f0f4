// Package redlock is Redlock, the distributed lock on N independent Redis masters, twice.
//
// New returns a Locker, the one to use: the algorithm of the specification
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), and beyond it
// what that leaves open. Specification returns a Client, the algorithm as it is written, which
// waits for all nodes and asks each once; tests compare the two.
//
// A Locker acquires a Lease: a token of its own, a deadline by the client's own clock, and a
// context that ends at that deadline, to be extended or released. A Node is one master as the
// algorithm sees it; package redisnode makes one of a go-redis client, package wire one that
// batches what many goroutines ask.
//
//	start   ask all N to set the key    end   quorum and time left?
//	  |---------- elapsed ---------------|----------- validity ----------| drift |
//	                                     no: release on all N, wait at random, again
//
// What it keeps, up to where, and which scenario of lockpick shows each, stands in README.md.
// In short: as long as no clock runs away and no node forgets a key before it expires, at most
// one client believes that it holds a lock. Whoever holds one must stop when the lease's
// context ends, and can't always: a process may be paused between looking and writing.
// Config.Fence gives each lease a number above every earlier holder's, by which the protected
// resource can refuse those who come late.
//
// Deliberately missing: connections and logging; notifications of a release, which could only
// shorten the wait of those who poll, and would cost each of them a subscription to every
// node; and any protection without a clock: an asynchronous system can have none.
package redlock

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"lockpick/redlock/driver"
)

// Client acquires locks. It may be used by several goroutines at once.
type Client struct {
	cfg Config
	all []int // indices of all nodes
	// rounds asks the nodes if they are Batchers, and not one after another.
	rounds *rounds
}

// Specification returns a client of the plain algorithm, or says what is wrong with its
// configuration. New returns the one to use.
func Specification(cfg Config) (*Client, error) {
	if err := cfg.plain(); err != nil {
		return nil, fmt.Errorf("configure redlock: %w", err)
	}
	return newClient(cfg)
}

func newClient(cfg Config) (*Client, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg}
	for i := range cfg.Nodes {
		c.all = append(c.all, i)
	}
	if !cfg.Sequential {
		c.rounds = newRounds(cfg.Nodes)
	}
	return c, nil
}

// Acquire tries to get the lock on key until it has it, has tried Config.Tries
// times, or ctx ends. An error means that the client does not hold it, and that
// it has asked all nodes to forget each failed attempt. That clean-up is done
// even if ctx has ended, so that Acquire can return one node time-out after it
// (N time-outs if it asks one after another). The kinds are ErrTaken,
// ErrNoQuorum, ErrExpired and ErrCancelled, as of Locker.Acquire.
func (c *Client) Acquire(ctx context.Context, key string) (*Lock, error) {
	return tried(patience{Context: ctx}, c, noLimit, key, c.attempt)
}

// noLimit is the wait without WithWait: only Config.Tries and the context end it.
const noLimit = time.Duration(-1)

// tried makes attempts, with random delays between them, until one gets the lock. None begins more
// than wait after the call.
func tried[L any](p patience, c *Client, wait time.Duration, key string, attempt func(patience, string) (*L, *Error, error)) (*L, error) {
	last := Error{Op: "acquire", Key: key}
	var end time.Time
	if wait != noLimit {
		end = c.cfg.Now().Add(wait)
	}
	for {
		if ended := p.ended(); ended != nil {
			return nil, cancelled(ended, last)
		}
		l, failed, err := attempt(p, key)
		if err != nil {
			return nil, err
		}
		if l != nil {
			return l, nil
		}
		failed.Tries = last.Tries + 1
		ended := p.ended()
		if ended != nil && failed.Kind == ErrNoQuorum && last.Taken {
			failed.Taken = true // the attempt was cut short, and the one before found the lock taken
		}
		last = *failed
		if ended != nil {
			return nil, cancelled(ended, last)
		}
		left := noLimit
		if wait != noLimit {
			left = max(0, end.Sub(c.cfg.Now()))
		}
		if last.Tries == c.cfg.Tries || left == 0 {
			return nil, failed
		}
		if err := c.wait(p, left); err != nil {
			return nil, err
		}
	}
}

// attempt is the specification's steps 1 to 5, once: it returns the lock, or
// why it failed, or that it could not be made at all.
func (c *Client) attempt(p patience, key string) (*Lock, *Error, error) {
	// Fresh for every attempt: were it kept, a delayed release of the first attempt
	// would delete the key that a later one set.
	token, err := c.token()
	if err != nil {
		return nil, nil, err
	}
	ctx, start := p.Context, c.cfg.Now()
	answers, fence := c.grant(ctx, key, token)
	elapsed := c.cfg.Now().Sub(start)

	kind := c.judge(driver.Count(answers), elapsed)
	if kind == nil && ctx.Err() == nil {
		return &Lock{c.held(key, token, fence, start, answers)}, nil, nil
	}
	c.release(ctx, key, token)
	return nil, c.refused(key, kind, answers), nil
}

// grant asks all nodes for the key, and gives the fencing token if there is to be one.
func (c *Client) grant(ctx context.Context, key, token string) (answers []driver.Answer, fence int64) {
	op := driver.OpSet
	if c.cfg.Fence {
		op = driver.OpSetFenced
	}
	answers = c.ask(ctx, c.all, driver.Request{Op: op, Key: key, Token: token, Terms: driver.Terms{TTL: c.cfg.TTL}})
	return answers, c.raise(key, token, answers, func(nodes []int, r driver.Request) []driver.Answer { return c.ask(ctx, nodes, r) })
}

// judge says why an attempt with these answers failed, or nil.
func (c *Client) judge(t driver.Tally, elapsed time.Duration) error {
	quorum := Quorum(len(c.all))
	switch {
	case t.All-t.No < quorum:
		return ErrTaken
	case t.Yes < quorum:
		return ErrNoQuorum
	case Validity(c.cfg.TTL, elapsed, c.cfg.drift()) <= 0:
		return ErrExpired
	}
	return nil
}

// release asks all nodes to delete the key if it is token's, also those that
// said no or nothing: a request may have been applied though its answer was
// lost. It outlives ctx, for what was set must not wait for its expiry because
// somebody lost patience.
func (c *Client) release(ctx context.Context, key, token string) []driver.Answer {
	return c.ask(context.WithoutCancel(ctx), c.all, driver.Request{Op: driver.OpRelease, Key: key, Token: token, Terms: driver.Terms{TTL: c.cfg.TTL}})
}

// wait waits a random time, so that contenders who split the vote do not meet
// again, and no longer than most. It ends early with p, and leaves that for the caller to see.
func (c *Client) wait(p patience, most time.Duration) error {
	var b [8]byte
	if err := c.cfg.Random("retry", b[:]); err != nil {
		return fmt.Errorf("draw a retry delay: %w", err)
	}
	span := uint64(c.cfg.RetryMax-c.cfg.RetryMin) + 1
	delay := c.cfg.RetryMin + time.Duration(binary.LittleEndian.Uint64(b[:])%span)
	if most != noLimit {
		delay = min(delay, most)
	}
	select {
	case <-c.cfg.After(delay):
	case <-p.Done():
	case <-p.closed():
	}
	return nil
}

// token is 20 random bytes, in hexadecimal digits.
func (c *Client) token() (string, error) {
	var b [60]byte
	if err := c.cfg.Random("token", b[40:]); err != nil {
		return "", fmt.Errorf("draw a token: %w", err)
	}
	return string(b[:hex.Encode(b[:40], b[40:])]), nil
}

func (c *Client) failure(op, key string, kind error, answers []driver.Answer) *Error {
	return &Error{Op: op, Key: key, Kind: kind, Asked: len(answers), Nodes: c.causes(answers)}
}

// refused is the failure of an attempt to acquire. If somebody holds the lock, each quorum has a node
// that refuses. So without a quorum of grants, the lock was taken if a node refused and so few are
// broken that the others are a quorum. If more are broken, nobody knows whether it was taken.
func (c *Client) refused(key string, kind error, answers []driver.Answer) *Error {
	e := c.failure("acquire", key, kind, answers)
	broken := 0
	for _, a := range answers {
		if a.Err != nil && a.Err != errNotAwaited {
			broken++
		}
	}
	e.Taken = kind == ErrTaken || kind == ErrNoQuorum && driver.Count(answers).No > 0 && len(c.all)-broken >= Quorum(len(c.all))
	return e
}

func (c *Client) terms() driver.Terms {
	return driver.Terms{TTL: c.cfg.TTL, Fence: c.cfg.Fence, Quarantine: c.cfg.Quarantine}
}

func number(yes bool, err error) (int64, error) {
	if yes {
		return 1, err
	}
	return 0, err
}

// Config is how a Locker or a Client locks. Only Nodes and TTL are needed.
type Config struct {
	// Nodes are the N independent masters, best an odd number on as many machines.
	Nodes []Node
	// TTL is a key's time to live: how long a crashed holder blocks the others, and
	// the upper bound of a holder's time to work. Whole milliseconds.
	TTL time.Duration
	// Timeout bounds one request to one node, and must be small against the TTL, at
	// most half of it. 0: 50 ms, or a tenth of the TTL if that is less.
	Timeout time.Duration
	// Drift is the clock drift allowed for, as a share of the TTL. 0: 0.01. For none see NoDrift.
	Drift float64
	// RetryMin and RetryMax bound the random delay between two attempts. It should be
	// long against the time that an attempt takes. Both 0: one to four times Timeout.
	RetryMin, RetryMax time.Duration
	// Tries is the most attempts in one Acquire. 0: until its context ends. See WithWait and TryAcquire.
	Tries int
	// Extends is the most extensions of one lock, counting those that failed. Without a limit a holder
	// that hangs could keep the others out for ever. 0: 10, or no limit if MaxHold sets one.
	Extends int
	// Sequential asks the nodes one after another, rather than all at once.
	Sequential bool
	// Fence makes the nodes count grants, so that a Lock has a fencing token. Every
	// node must be a Fencer.
	Fence bool

	// What follows New heeds, and Specification refuses.

	// Renew makes each lease extend itself at this interval until MaxHold. It must be below half
	// the TTL, so that one extension may fail. It needs MaxHold or Extends: how long a holder that
	// hangs may keep the others out is for the application to say, and a lease that stopped renewing
	// after a default would end in the midst of work. 0: leases do not extend themselves.
	Renew time.Duration
	// MaxHold is the longest that a lease lasts with all its extensions, at least the TTL. An extension
	// that would go beyond it fails with ErrLimit. 0: Extends alone is the limit.
	MaxHold time.Duration
	// Repair has an extension that a majority agreed to set the key again on nodes that lost it.
	Repair bool
	// Quarantine is for how long a node gives no vote after it restarted or lost its data: the
	// longest TTL that anybody uses on it, so that all it may have forgotten has lapsed. Every
	// node must be a Granter. A node that never had a quarantine begins with one. 0: a node that
	// forgets is dangerous, see package redisnode.
	Quarantine time.Duration
	// Observe is told of each step of each lease, by whoever makes it, and must not block.
	Observe func(Event)

	// Now is the clock. It must not step, as time.Now does not within a process. It
	// is read twice in an attempt to acquire, and nowhere else while acquiring: when
	// it starts, and after the last answer; and once for the deadline of each round of
	// Batchers. Nil: time.Now, which stands still while the machine is suspended: see Boottime.
	Now func() time.Time
	// After is the timer. Nil: time.After.
	After func(time.Duration) <-chan time.Time
	// Random fills b for one use: "token" for a key's value, "retry" for a delay.
	// Nil: crypto/rand. Tokens must be unique among all clients and attempts.
	Random func(use string, b []byte) error
}

// NoDrift as Config.Drift allows for no drift but the 2 ms that the specification adds for
// short TTLs.
const NoDrift = math.SmallestNonzeroFloat64

// WithDefaults fills in what was left zero, or says what can't work.
func (c Config) WithDefaults() (Config, error) {
	if c.Timeout == 0 {
		c.Timeout = min(50*time.Millisecond, c.TTL/10)
	}
	if c.Drift == 0 {
		c.Drift = 0.01
	}
	if c.RetryMin == 0 && c.RetryMax == 0 {
		c.RetryMin, c.RetryMax = c.Timeout, 4*c.Timeout
	}
	switch {
	case c.Extends == 0 && c.MaxHold > 0:
		c.Extends = math.MaxInt
	case c.Extends == 0:
		c.Extends = 10
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.Random == nil {
		c.Random = func(_ string, b []byte) error { _, err := rand.Read(b); return err }
	}
	if err := c.validate(); err != nil {
		return Config{}, fmt.Errorf("configure redlock: %w", err)
	}
	return c, nil
}

func (c Config) validate() error {
	switch {
	case len(c.Nodes) == 0:
		return errors.New("no nodes: give at least one, best three or five")
	case c.TTL <= 0:
		return fmt.Errorf("TTL %v: give a positive one, such as 10s", c.TTL)
	case c.TTL%time.Millisecond != 0:
		return fmt.Errorf("TTL %v: Redis counts milliseconds, round it to them", c.TTL)
	case c.Timeout < 0:
		return fmt.Errorf("time-out %v: give a positive one, or 0 for the default", c.Timeout)
	case c.Timeout > c.TTL/2:
		return fmt.Errorf("time-out %v of a TTL of %v: a few slow nodes would use the lock up; give at most half the TTL", c.Timeout, c.TTL)
	case !(c.Drift >= 0 && c.Drift < 1):
		return fmt.Errorf("drift %v: give a share of the TTL from 0 to below 1, such as 0.01, or NoDrift", c.Drift)
	case Validity(c.TTL, 0, c.drift()) <= 0:
		return fmt.Errorf("TTL %v: the drift allowance of %v leaves nothing of it; give a longer TTL or a smaller drift", c.TTL, c.drift())
	case c.RetryMin < 0 || c.RetryMax < c.RetryMin:
		return fmt.Errorf("retry delay from %v to %v: give 0 ≤ RetryMin ≤ RetryMax", c.RetryMin, c.RetryMax)
	case c.Tries < 0:
		return fmt.Errorf("%d tries: give a positive number, or 0 to try until the context ends", c.Tries)
	case c.Extends < 0:
		return fmt.Errorf("%d extensions: give a positive number, or 0 for the default", c.Extends)
	}
	return c.validateNodes()
}

// plain says what the specification does not have.
func (c Config) plain() error {
	if c.Renew != 0 || c.MaxHold != 0 || c.Repair || c.Quarantine != 0 || c.Observe != nil {
		return errors.New("the specification knows none of Renew, MaxHold, Repair, Quarantine and Observe: leave them out, or use New")
	}
	return nil
}

// hardened says what can't work in a Locker besides.
func (c Config) hardened() error {
	switch {
	case c.Sequential:
		return errors.New("a Locker asks all nodes at once: leave Sequential out, or use Specification")
	case c.Renew < 0 || c.Renew > 0 && c.Renew >= c.TTL/2:
		return fmt.Errorf("renewal every %v of a TTL of %v: give less than half the TTL, so that one may fail, or 0 for none", c.Renew, c.TTL)
	case c.Renew > 0 && c.MaxHold == 0 && c.Extends == 0:
		return fmt.Errorf("renewal every %v without an end: give MaxHold, the longest that a holder may keep the others out, such as 1h, or Extends", c.Renew)
	case c.MaxHold < 0 || c.MaxHold > 0 && c.MaxHold < c.TTL:
		return fmt.Errorf("a hold of %v at most with a TTL of %v: give at least the TTL, or 0 for no limit of time", c.MaxHold, c.TTL)
	case c.Quarantine != 0 && c.Quarantine < c.TTL:
		return fmt.Errorf("quarantine of %v with a TTL of %v: give at least the longest TTL in use on these nodes, or 0 for none", c.Quarantine, c.TTL)
	case c.Quarantine%time.Millisecond != 0:
		return fmt.Errorf("quarantine of %v: Redis counts milliseconds, round it to them", c.Quarantine)
	}
	for i, n := range c.Nodes {
		if _, ok := n.(driver.Granter); n != nil && c.Quarantine > 0 && !ok {
			return fmt.Errorf("node %d (%T) can't be quarantined: make it a Granter, or do without", i+1, n)
		}
	}
	return nil
}

func (c Config) validateNodes() error {
	for i, n := range c.Nodes {
		if n == nil {
			return fmt.Errorf("node %d is nil: leave it out", i+1)
		}
		if _, ok := n.(driver.Fencer); c.Fence && !ok {
			return fmt.Errorf("node %d (%T) can't count grants: make it a Fencer, or do without fencing tokens", i+1, n)
		}
	}
	return nil
}

func (c Config) drift() time.Duration { return Drift(c.TTL, c.Drift) }

// Node is one independent Redis master: a redisnode.Node, a wire.Node, or what another driver
// makes. Package driver has the interfaces that drivers implement.
type Node = driver.Node

// What can go wrong, for errors.Is. Every error of Acquire, Extend and Release
// that is about the lock is an *Error of one of these kinds. README.md says what to do about each.
var (
	// ErrTaken: somebody else has the lock, or was about to get it. In the last attempt that was not cut
	// short, nodes refused, and not so many were broken that they explain the failure. An error whose
	// Kind is ErrNoQuorum or ErrCancelled is ErrTaken as well if that was so: ask for ErrTaken first.
	ErrTaken = errors.New("the key is taken")
	// ErrNoQuorum: fewer than a quorum said yes, and fewer than a quorum said no. If it is not ErrTaken,
	// too few nodes answered. After Extend and Release the outcome is unknown.
	ErrNoQuorum = errors.New("no quorum of nodes answered alike")
	// ErrExpired: a quorum said yes, but too late to be of use; or the lock to be
	// extended is past its deadline.
	ErrExpired = errors.New("the validity time was over")
	// ErrLost: a quorum of nodes said that they do not hold the key for this lock, so
	// that it certainly isn't held.
	ErrLost = errors.New("the lock is not held")
	// ErrLimit: the lock was extended as often as Config.Extends allows, or one more extension would
	// go beyond Config.MaxHold. The lock is held until its deadline.
	ErrLimit = errors.New("the limit of extensions is reached")
	// ErrReleased: the lease was given back. It is a cause of its context's end only.
	ErrReleased = errors.New("the lock was given back")
	// ErrSameNode: one Redis stands in Config.Nodes twice, which would give it two votes.
	ErrSameNode = errors.New("a node was given twice")
	// ErrClosed: Locker.Close was called.
	ErrClosed = errors.New("the locker is closed")
	// ErrOwed: Locker.Close could not have a node delete what was given back. It has no effect on
	// locks but that keys there stay until they expire.
	ErrOwed = errors.New("a node is owed releases")
	// ErrCancelled: the context ended first. Its cause and its error are wrapped too, and ErrTaken if it
	// ended while waiting for a lock that was taken.
	ErrCancelled = errors.New("cancelled")
)

// Error says what failed, and what each node answered.
type Error struct {
	Op    string // acquire, extend or release
	Key   string
	Kind  error // one of the kinds above
	Taken bool  // ErrTaken matches: the lock was taken in the last attempt that was not cut short
	Tries int   // attempts that Acquire made
	Asked int   // nodes asked in the last attempt
	Nodes []NodeError
	// Cause and err are of the context, if it ended.
	Cause error
	err   error
}

// NodeError is why one node did not say yes.
type NodeError struct {
	Node string
	Err  error // errNo, errNoAnswer, or what the node's driver said
}

// What a node can answer besides yes and its driver's errors.
var (
	errNo       = errors.New("said no")
	errNoAnswer = errors.New("no answer in time")
)

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q: %v", e.Op, e.Key, e.Kind)
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	if e.Tries > 1 {
		fmt.Fprintf(&b, " (%d attempts)", e.Tries)
	}
	if len(e.Nodes) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "; %d of %d nodes did not agree:", len(e.Nodes), e.Asked)
	for i, n := range e.Nodes {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s %v", n.Node, n.Err)
	}
	return b.String()
}

// Unwrap returns the kind, ErrTaken if Taken says so, and the context's cause and error if it ended.
// It does not return the nodes' errors: a node's own time-out must not pass for the
// caller's.
func (e *Error) Unwrap() []error {
	out := []error{e.Kind}
	if e.Taken && e.Kind != ErrTaken {
		out = append(out, ErrTaken)
	}
	for _, err := range []error{e.Cause, e.err} {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// cancelled is e's attempt, or none, cut short by the end of ctx.
func cancelled(ctx context.Context, e Error) *Error {
	e.Kind, e.Cause, e.err = ErrCancelled, context.Cause(ctx), ctx.Err()
	return &e
}

// raise gives the fencing token, which is the highest count of the nodes that granted; 0: there
// is to be none.
//
// Two quorums share a node, but the next holder's quorum may share only one
// whose count is low. So the token is written back to every node that granted
// and is behind, by a script that looks whether the key is still this
// attempt's, and a node which does not confirm it has no vote: its answer takes
// the place of its grant. Then each node of this quorum counts at least as high
// as the token, and the next grant on any of them is above it.
func (c *Client) raise(key, token string, answers []driver.Answer, ask func(nodes []int, r driver.Request) []driver.Answer) int64 {
	if !c.cfg.Fence || driver.Count(answers).Yes < Quorum(len(c.all)) {
		return 0 // there is no lock to give a token to
	}
	fence, behind := driver.Highest(answers)
	if len(behind) == 0 {
		return fence
	}
	for _, a := range ask(behind, driver.Request{Op: driver.OpRaiseFence, Key: key, Token: token, Count: fence}) {
		answers[a.Node] = a
	}
	return fence
}

// Event is one step of a lease, as a Locker tells Config.Observe of it: for traces, metrics,
// and the histories of tests.
type Event struct {
	Type       Type
	Op         string // acquire, extend, repair, release; lost, of a lease that ended without a release
	Key, Token string // the token once there is a lease
	Fence      int64
	Until      time.Time // the deadline, of an acquire or extension that is OK
	Err        error     // why it isn't OK
}

// Type is what an Event says of its step, in Jepsen's words.
type Type string

// A step begins with Invoke and ends with one of the others: it took effect, it did not and
// won't, or nobody knows.
const (
	Invoke Type = "invoke"
	OK     Type = "ok"
	Fail   Type = "fail"
	Info   Type = "info"
)

func (l *Locker) observe(e Event) {
	if l.cfg.Observe != nil {
		l.cfg.Observe(e)
	}
}

// outcome is what a kind of error says of an extension or a release.
func outcome(kind error) Type {
	switch kind {
	case ErrLost, ErrLimit, ErrReleased, ErrClosed:
		return Fail
	}
	return Info
}
