// Package redlock implements Redlock, a distributed lock that uses N independent Redis masters.
//
// Applications should use New, which returns a Locker. A Locker follows the specification
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/) and handles the cases
// that the specification leaves open. Specification returns a Client, which does only what the text
// of the specification says: it waits for all nodes and sends each request once. It exists for
// comparison.
//
// Locker.Acquire returns a Lease, which has its own token, a deadline on the client's clock, and a
// context that ends at that deadline. A lease can be extended and released. A Node is one Redis
// master. Package redisnode implements nodes on top of go-redis. Package wire implements nodes that
// batch the requests of many goroutines.
//
//	start   set the key on all N        end   quorum, and time left?
//	  |---------- elapsed ---------------|----------- validity ----------| drift |
//	                                     no: release on all N, random delay, retry
//
// README.md lists the guarantees and assumptions, with a lockpick scenario for each. In short: if
// clocks run at about the same rate and no node forgets a key before it expires, at most one client
// believes that it holds a lock. A holder must stop when its lease's context ends. It can't always
// do so, because its process may be paused between checking the context and writing to the
// resource. With Config.Fence, each lease therefore gets a higher number than all earlier leases on
// the same key, so that the protected resource can reject late writes.
//
// Connections are left to the drivers, and nothing is logged. Waiting clients are not notified of
// releases: notifications would only shorten the polling delay, and each waiting client would need
// a subscription to every node. No guarantee works without clocks, because that is impossible in an
// asynchronous system.
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

// Client acquires locks exactly as the specification describes. It is safe for concurrent use.
type Client struct {
	cfg      Config
	allNodes []int // node indices
	// batcher sends requests in batches. It is nil unless all nodes are Batchers.
	batcher *batchSender
}

// Specification returns a Client, which implements only the specification, or an error if the
// configuration is invalid. Applications should use New instead.
func Specification(cfg Config) (*Client, error) {
	if err := cfg.validateSpecification(); err != nil {
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
		c.allNodes = append(c.allNodes, i)
	}
	if !cfg.Sequential {
		c.batcher = newBatchSender(cfg.Nodes)
	}
	return c, nil
}

// Acquire acquires the lock on key. It makes attempts until one succeeds, Config.Tries attempts
// have failed, or ctx ends. If it returns an error, the client does not hold the lock, and Acquire
// has asked all nodes to delete the keys of each failed attempt. It does so even after ctx has
// ended, so it can return up to one node timeout after ctx ends (N timeouts with
// Config.Sequential). The kinds of error are ErrTaken, ErrNoQuorum, ErrExpired and ErrCanceled, as
// for Locker.Acquire.
func (c *Client) Acquire(ctx context.Context, key string) (*Lock, error) {
	return acquireWithRetries(waitContext{Context: ctx}, c, noLimit, key, c.attempt)
}

// noLimit is the wait for calls without WithWait. Only Config.Tries and the context limit those.
const noLimit = time.Duration(-1)

// acquireWithRetries makes attempts, with random delays in between, until one succeeds. It starts
// no attempt more than wait after the call.
func acquireWithRetries[L any](p waitContext, c *Client, wait time.Duration, key string, attempt func(waitContext, string) (*L, *Error, error)) (*L, error) {
	last := Error{Op: "acquire", Key: key}
	var end time.Time
	if wait != noLimit {
		end = c.cfg.Now().Add(wait)
	}
	for {
		if ended := p.endedContext(); ended != nil {
			return nil, canceledError(ended, last)
		}
		l, failed, err := attempt(p, key)
		if err != nil {
			return nil, err
		}
		if l != nil {
			return l, nil
		}
		failed.Tries = last.Tries + 1
		ended := p.endedContext()
		if ended != nil && failed.Kind == ErrNoQuorum && last.Taken {
			failed.Taken = true // the attempt was cut short, and the previous one found the lock taken
		}
		last = *failed
		if ended != nil {
			return nil, canceledError(ended, last)
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

// attempt makes one attempt (steps 1 to 5 of the specification). It returns the lock, the reason
// for the failure, or an error if no attempt could be made.
func (c *Client) attempt(p waitContext, key string) (*Lock, *Error, error) {
	// Each attempt needs its own token. Otherwise, a delayed release from the first attempt could
	// delete the key set by a later attempt.
	token, err := c.token()
	if err != nil {
		return nil, nil, err
	}
	ctx, start := p.Context, c.cfg.Now()
	answers, fence := c.grant(ctx, key, token)
	elapsed := c.cfg.Now().Sub(start)

	kind := c.failureKind(driver.Count(answers), elapsed)
	if kind == nil && ctx.Err() == nil {
		return &Lock{c.newAcquisition(key, token, fence, start, answers)}, nil, nil
	}
	c.release(ctx, key, token)
	return nil, c.acquireError(key, kind, answers), nil
}

// grant asks all nodes to set the key. It returns their answers and, with Config.Fence, the fencing
// token.
func (c *Client) grant(ctx context.Context, key, token string) (answers []driver.Answer, fence int64) {
	op := driver.OpSet
	if c.cfg.Fence {
		op = driver.OpSetFenced
	}
	answers = c.send(ctx, c.allNodes, driver.Request{Op: op, Key: key, Token: token, Terms: driver.Terms{TTL: c.cfg.TTL}})
	return answers, c.raiseFence(key, token, answers, func(nodes []int, r driver.Request) []driver.Answer { return c.send(ctx, nodes, r) })
}

// failureKind returns the error kind for an attempt, or nil if the attempt succeeded.
func (c *Client) failureKind(t driver.Tally, elapsed time.Duration) error {
	quorum := Quorum(len(c.allNodes))
	switch {
	case t.Total-t.No < quorum:
		return ErrTaken
	case t.Yes < quorum:
		return ErrNoQuorum
	case Validity(c.cfg.TTL, elapsed, c.cfg.drift()) <= 0:
		return ErrExpired
	}
	return nil
}

// release asks all nodes to delete the key if its value is token. It asks even the nodes that
// refused or did not answer, because a node may have executed a request whose answer was lost. The
// requests continue after ctx ends: if the caller gives up, its keys must not stay until they
// expire.
func (c *Client) release(ctx context.Context, key, token string) []driver.Answer {
	return c.send(context.WithoutCancel(ctx), c.allNodes, driver.Request{Op: driver.OpRelease, Key: key, Token: token, Terms: driver.Terms{TTL: c.cfg.TTL}})
}

// wait waits for a random time, at most limit, so that contenders that split the vote don't collide
// again. It returns early if p ends; the caller checks p.
func (c *Client) wait(p waitContext, limit time.Duration) error {
	var b [8]byte
	if err := c.cfg.Random("retry", b[:]); err != nil {
		return fmt.Errorf("choose a retry delay: %w", err)
	}
	spread := uint64(c.cfg.RetryMax-c.cfg.RetryMin) + 1
	delay := c.cfg.RetryMin + time.Duration(binary.LittleEndian.Uint64(b[:])%spread)
	if limit != noLimit {
		delay = min(delay, limit)
	}
	select {
	case <-c.cfg.After(delay):
	case <-p.Done():
	case <-p.lifetimeDone():
	}
	return nil
}

// token returns 20 random bytes in hexadecimal.
func (c *Client) token() (string, error) {
	var b [60]byte
	if err := c.cfg.Random("token", b[40:]); err != nil {
		return "", fmt.Errorf("generate a token: %w", err)
	}
	return string(b[:hex.Encode(b[:40], b[40:])]), nil
}

func (c *Client) failure(op, key string, kind error, answers []driver.Answer) *Error {
	return &Error{Op: op, Key: key, Kind: kind, NodesAsked: len(answers), Nodes: c.nodeErrors(answers)}
}

// acquireError returns the error for a failed attempt. If another client holds the lock, every
// quorum contains a node that refuses. So if no quorum granted the lock, it was taken if at least
// one node refused and the nodes without errors form a quorum. With fewer working nodes, nobody
// knows whether it was taken.
func (c *Client) acquireError(key string, kind error, answers []driver.Answer) *Error {
	e := c.failure("acquire", key, kind, answers)
	numBroken := 0
	for _, a := range answers {
		if a.Err != nil && a.Err != errNotAwaited {
			numBroken++
		}
	}
	e.Taken = kind == ErrTaken || kind == ErrNoQuorum && driver.Count(answers).No > 0 && len(c.allNodes)-numBroken >= Quorum(len(c.allNodes))
	return e
}

func (c *Client) terms() driver.Terms {
	return driver.Terms{TTL: c.cfg.TTL, Fence: c.cfg.Fence, Quarantine: c.cfg.Quarantine}
}

func boolValue(yes bool, err error) (int64, error) {
	if yes {
		return 1, err
	}
	return 0, err
}

// Config configures a Locker or a Client. Only Nodes and TTL are required.
type Config struct {
	// Nodes are the N independent masters, preferably an odd number on separate machines.
	Nodes []Node
	// TTL is the time to live of a key, in whole milliseconds. It bounds how long a crashed holder
	// blocks other clients, and how long a holder may work without extending its lock.
	TTL time.Duration
	// Timeout bounds one request to one node. It should be much shorter than the TTL, and must be at
	// most half of it. Default: 50 ms, or a tenth of the TTL if that is less.
	Timeout time.Duration
	// Drift is the allowance for clock drift, as a fraction of the TTL. Default: 0.01. See NoDrift.
	Drift float64
	// RetryMin and RetryMax bound the random delay between two attempts. The delay should be much
	// longer than an attempt. Default, if both are 0: one to four times Timeout.
	RetryMin, RetryMax time.Duration
	// Tries limits the number of attempts per call of Acquire. 0 means that only the context limits
	// it. See WithWait and TryAcquire.
	Tries int
	// Extends limits the number of extensions per lock, including failed ones. Without a limit, a
	// hung holder could block other clients forever. Default: 10, or no limit if MaxHold is set.
	Extends int
	// Sequential sends requests to one node at a time instead of to all nodes at once.
	Sequential bool
	// Fence makes the nodes count grants, so that each lock has a fencing token. Every node must be
	// a Fencer.
	Fence bool

	// The fields from Renew to Observe are only for New. Specification rejects them.

	// Renew is the interval at which each lease extends itself, until MaxHold. It must be less than
	// half the TTL, so that one extension may fail. It requires MaxHold or Extends: only the
	// application knows how long a hung holder may block other clients, and a default limit would
	// end a lease in the middle of its work. 0 means that leases do not extend themselves.
	Renew time.Duration
	// MaxHold limits the lifetime of a lease, including extensions. It must be at least the TTL. An
	// extension beyond it fails with ErrLimit. 0 means that only Extends limits the lifetime.
	MaxHold time.Duration
	// Repair makes each successful extension set the key again on nodes that lost it.
	Repair bool
	// Quarantine is how long a node refuses to vote after it has restarted or lost its data. It
	// should be the longest TTL that any client uses on the node, so that any keys the node forgot
	// have expired by then. Every node must be a Granter. A new node starts in quarantine. 0 means
	// no quarantine, which is dangerous if a node can forget keys (see README.md).
	Quarantine time.Duration
	// Observe is called synchronously at each step of each lease. It must not block.
	Observe func(Event)

	// Now is the clock. It must not jump; within a process, time.Now does not. An attempt reads it
	// at its start and after the last answer. With Batchers, it is read once more per round, for
	// the deadline. Default: time.Now, which stops while the machine is suspended; see Boottime.
	Now func() time.Time
	// After is the timer. Default: time.After.
	After func(time.Duration) <-chan time.Time
	// Random fills b with random bytes for a use: "token" for a key's value, "retry" for a delay.
	// Tokens must be unique across all clients and attempts. Default: crypto/rand.
	Random func(use string, b []byte) error
}

// NoDrift is the value of Config.Drift that allows for no drift except the 2 ms that the
// specification adds for short TTLs.
const NoDrift = math.SmallestNonzeroFloat64

// WithDefaults returns c with zero values replaced by defaults, or an error if the result is
// invalid.
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
		return errors.New("no nodes: need at least one, preferably three or five")
	case c.TTL <= 0:
		return fmt.Errorf("TTL %v: must be positive, such as 10s", c.TTL)
	case c.TTL%time.Millisecond != 0:
		return fmt.Errorf("TTL %v: must be a whole number of milliseconds", c.TTL)
	case c.Timeout < 0:
		return fmt.Errorf("timeout %v: must be positive, or 0 for the default", c.Timeout)
	case c.Timeout > c.TTL/2:
		return fmt.Errorf("timeout %v with a TTL of %v: must be at most half the TTL, or a few slow nodes could use up the lock's time", c.Timeout, c.TTL)
	case !(c.Drift >= 0 && c.Drift < 1):
		return fmt.Errorf("drift %v: must be a fraction of the TTL, at least 0 and below 1, such as 0.01; for none, use NoDrift", c.Drift)
	case Validity(c.TTL, 0, c.drift()) <= 0:
		return fmt.Errorf("TTL %v: the drift allowance of %v leaves no time; use a longer TTL or a smaller drift", c.TTL, c.drift())
	case c.RetryMin < 0 || c.RetryMax < c.RetryMin:
		return fmt.Errorf("retry delay from %v to %v: must satisfy 0 ≤ RetryMin ≤ RetryMax", c.RetryMin, c.RetryMax)
	case c.Tries < 0:
		return fmt.Errorf("%d tries: must be positive, or 0 to retry until the context ends", c.Tries)
	case c.Extends < 0:
		return fmt.Errorf("%d extensions: must be positive, or 0 for the default", c.Extends)
	}
	return c.validateNodes()
}

// validateSpecification returns an error if an option is set that the specification does not have.
func (c Config) validateSpecification() error {
	if c.Renew != 0 || c.MaxHold != 0 || c.Repair || c.Quarantine != 0 || c.Observe != nil {
		return errors.New("the specification does not have Renew, MaxHold, Repair, Quarantine or Observe: leave them out, or use New")
	}
	return nil
}

// validateLocker checks the options of a Locker that validate does not check.
func (c Config) validateLocker() error {
	switch {
	case c.Sequential:
		return errors.New("a Locker sends requests to all nodes at once: leave out Sequential, or use Specification")
	case c.Renew < 0 || c.Renew > 0 && c.Renew >= c.TTL/2:
		return fmt.Errorf("renewal every %v with a TTL of %v: must be less than half the TTL, so that one renewal may fail, or 0 for none", c.Renew, c.TTL)
	case c.Renew > 0 && c.MaxHold == 0 && c.Extends == 0:
		return fmt.Errorf("renewal every %v without a limit: set MaxHold (the longest time that a holder may block other clients, such as 1h) or Extends", c.Renew)
	case c.MaxHold < 0 || c.MaxHold > 0 && c.MaxHold < c.TTL:
		return fmt.Errorf("MaxHold %v with a TTL of %v: must be at least the TTL, or 0 for no time limit", c.MaxHold, c.TTL)
	case c.Quarantine != 0 && c.Quarantine < c.TTL:
		return fmt.Errorf("quarantine of %v with a TTL of %v: must be at least the longest TTL in use on these nodes, or 0 for none", c.Quarantine, c.TTL)
	case c.Quarantine%time.Millisecond != 0:
		return fmt.Errorf("quarantine of %v: must be a whole number of milliseconds", c.Quarantine)
	}
	for i, n := range c.Nodes {
		if _, ok := n.(driver.Granter); n != nil && c.Quarantine > 0 && !ok {
			return fmt.Errorf("node %d (%T) does not support quarantine: it must be a Granter", i+1, n)
		}
	}
	return nil
}

func (c Config) validateNodes() error {
	for i, n := range c.Nodes {
		if n == nil {
			return fmt.Errorf("node %d is nil", i+1)
		}
		if _, ok := n.(driver.Fencer); c.Fence && !ok {
			return fmt.Errorf("node %d (%T) does not support fencing tokens: it must be a Fencer", i+1, n)
		}
	}
	return nil
}

func (c Config) drift() time.Duration { return Drift(c.TTL, c.Drift) }

// Node is one independent Redis master: a redisnode.Node, a wire.Node, or another driver's node.
// Package driver defines the interfaces that drivers implement.
type Node = driver.Node

// Error kinds, for errors.Is. If Acquire, Extend or Release fails because of the lock, it returns
// an *Error of one of these kinds. README.md explains how to handle each kind.
var (
	// ErrTaken means that another client holds the lock or was about to get it: in the last
	// complete attempt, nodes refused, and broken nodes alone do not explain the failure. An error
	// whose Kind is ErrNoQuorum or ErrCanceled can match ErrTaken too, so check for ErrTaken first.
	ErrTaken = errors.New("the lock is taken")
	// ErrNoQuorum means that there was a quorum neither for yes nor for no. Unless the error also
	// matches ErrTaken, too few nodes answered. After Extend and Release, the outcome is unknown.
	ErrNoQuorum = errors.New("no quorum of nodes agreed")
	// ErrExpired means that a quorum granted the lock too late to be useful, or that the lock was
	// already past its deadline when it was to be extended.
	ErrExpired = errors.New("the validity time has passed")
	// ErrLost means that a quorum of nodes does not have the key with this lock's token, so the
	// lock is certainly not held.
	ErrLost = errors.New("the lock is not held")
	// ErrLimit means that the lock has already been extended Config.Extends times, or that another
	// extension would exceed Config.MaxHold. The lock is held until its deadline.
	ErrLimit = errors.New("the limit of extensions was reached")
	// ErrReleased means that the lease was released.
	ErrReleased = errors.New("the lock was released")
	// ErrSameNode means that Config.Nodes contains a Redis server twice, which would give it two
	// votes.
	ErrSameNode = errors.New("a node is listed twice")
	// ErrClosed means that Locker.Close was called.
	ErrClosed = errors.New("the locker is closed")
	// ErrReleasesPending means that Locker.Close could not confirm all releases. Other locks are
	// not affected, but the keys to release may stay until they expire.
	ErrReleasesPending = errors.New("releases are pending")
	// ErrCanceled means that the context ended first. The error also matches the context's cause
	// and error, and ErrTaken if the context ended while Acquire was waiting for a taken lock.
	ErrCanceled = errors.New("canceled")
)

// Error describes a failed operation and why nodes did not agree to it.
type Error struct {
	Op         string // acquire, extend or release
	Key        string
	Kind       error // one of the error kinds above
	Taken      bool  // the lock was taken in the last complete attempt, so the error matches ErrTaken
	Tries      int   // number of attempts made by Acquire
	NodesAsked int   // in the last attempt
	Nodes      []NodeError
	// Cause and err are the context's cause and error, if it ended.
	Cause error
	err   error
}

// NodeError says why a node did not agree.
type NodeError struct {
	Node string
	Err  error // errRefused, errNoAnswer, or the driver's error
}

// Node errors that don't come from a driver.
var (
	errRefused  = errors.New("refused")
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
	fmt.Fprintf(&b, "; %d of %d nodes did not agree:", len(e.Nodes), e.NodesAsked)
	for i, n := range e.Nodes {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s %v", n.Node, n.Err)
	}
	return b.String()
}

// Unwrap returns the kind, ErrTaken if Taken is set, and the context's cause and error if the
// context ended. It omits the nodes' errors, because a node's own timeout must not look like the
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

// canceledError turns e into an ErrCanceled error with the cause and error of ctx, which has ended.
func canceledError(ctx context.Context, e Error) *Error {
	e.Kind, e.Cause, e.err = ErrCanceled, context.Cause(ctx), ctx.Err()
	return &e
}

// raiseFence returns the fencing token, which is the highest count among the nodes that granted the
// lock, or 0 without fencing.
//
// Any two quorums share a node, but the next holder's quorum may share only a node with a low
// count. So the token is written back to every node that granted with a lower count, by a script
// that checks that the key still belongs to this attempt. A node that does not confirm the token
// has no vote: its answer to the write replaces its grant. As a result, every node in this quorum
// has a count of at least the token, so the next grant on any of them gets a higher count.
func (c *Client) raiseFence(key, token string, answers []driver.Answer, ask func(nodes []int, r driver.Request) []driver.Answer) int64 {
	if !c.cfg.Fence || driver.Count(answers).Yes < Quorum(len(c.allNodes)) {
		return 0 // no lock, so no token
	}
	fence, lowNodes := driver.HighestCount(answers)
	if len(lowNodes) == 0 {
		return fence
	}
	for _, a := range ask(lowNodes, driver.Request{Op: driver.OpRaiseFence, Key: key, Token: token, Count: fence}) {
		answers[a.Node] = a
	}
	return fence
}

// Event is one step of a lease, as passed to Config.Observe for traces, metrics and test histories.
type Event struct {
	Type       Type
	Op         string // acquire, extend, repair, release; or lost, if a lease ends without a release
	Key, Token string // the token is empty until there is a lease
	Fence      int64
	Until      time.Time // the deadline, for an acquire or extend of type OK
	Err        error     // the reason, for type Fail or Info
}

// Type is the phase or outcome of a step, in Jepsen's terms.
type Type string

// A step begins with Invoke. It ends with OK if it took effect, with Fail if it did not and never
// will, or with Info if the outcome is unknown.
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

// outcome returns the event type for a failed extension or release.
func outcome(kind error) Type {
	switch kind {
	case ErrLost, ErrLimit, ErrReleased, ErrClosed:
		return Fail
	}
	return Info
}
