package redlock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"
)

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
	// Tries is the most attempts in one Acquire. 0: until its context ends.
	Tries int
	// Extends is the most extensions of one lock, tried or done: without a limit a
	// holder could keep the others out for ever. 0: 10.
	Extends int
	// Sequential asks the nodes one after another, rather than all at once.
	Sequential bool
	// Fence makes the nodes count grants, so that a Lock has a fencing token. Every
	// node must be a Fencer.
	Fence bool

	// What follows New heeds, and Specification refuses.

	// Renew has leases extend themselves so often, Extends times at most. It must be below half
	// the TTL, so that one extension may fail. 0: they do not.
	Renew time.Duration
	// MaxHold bounds how long a lease lasts with all its extensions. 0: Extends alone does.
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
	if c.Extends == 0 {
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
	case c.MaxHold < 0 || c.MaxHold > 0 && c.MaxHold < c.TTL:
		return fmt.Errorf("a hold of %v at most with a TTL of %v: give at least the TTL, or 0 for no limit of time", c.MaxHold, c.TTL)
	case c.Quarantine != 0 && c.Quarantine < c.TTL:
		return fmt.Errorf("quarantine of %v with a TTL of %v: give at least the longest TTL in use on these nodes, or 0 for none", c.Quarantine, c.TTL)
	case c.Quarantine%time.Millisecond != 0:
		return fmt.Errorf("quarantine of %v: Redis counts milliseconds, round it to them", c.Quarantine)
	}
	for i, n := range c.Nodes {
		if _, ok := n.(Granter); n != nil && c.Quarantine > 0 && !ok {
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
		if _, ok := n.(Fencer); c.Fence && !ok {
			return fmt.Errorf("node %d (%T) can't count grants: make it a Fencer, or do without fencing tokens", i+1, n)
		}
	}
	return nil
}

func (c Config) drift() time.Duration { return Drift(c.TTL, c.Drift) }
