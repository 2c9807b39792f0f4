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
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
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
// ErrNoQuorum, ErrExpired and ErrCancelled.
func (c *Client) Acquire(ctx context.Context, key string) (*Lock, error) {
	return tried(patience{Context: ctx}, c, key, c.attempt)
}

// tried makes attempts, with random delays between them, until one gives a lock.
func tried[L any](p patience, c *Client, key string, attempt func(patience, string) (*L, *Error, error)) (*L, error) {
	last := Error{Op: "acquire", Key: key}
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
		last = *failed
		if ended := p.ended(); ended != nil {
			return nil, cancelled(ended, last)
		}
		if last.Tries == c.cfg.Tries {
			return nil, failed
		}
		if err := c.wait(p); err != nil {
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

	kind := c.judge(Count(answers), elapsed)
	if kind == nil && ctx.Err() == nil {
		return &Lock{
			client: c, key: key, token: token, fence: fence, votes: Count(answers).Yes,
			until: start.Add(c.cfg.TTL - c.cfg.drift()),
		}, nil, nil
	}
	c.release(ctx, key, token)
	return nil, c.failure("acquire", key, kind, answers), nil
}

// grant asks all nodes for the key, and gives the fencing token if there is to be one.
func (c *Client) grant(ctx context.Context, key, token string) (answers []Answer, fence int64) {
	if c.cfg.Fence {
		return c.grantFenced(ctx, key, token)
	}
	return c.ask(ctx, c.all, Request{Op: OpSet, Key: key, Token: token, Terms: Terms{TTL: c.cfg.TTL}}), 0
}

// judge says why an attempt with these answers failed, or nil.
func (c *Client) judge(t Tally, elapsed time.Duration) error {
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
func (c *Client) release(ctx context.Context, key, token string) []Answer {
	return c.ask(context.WithoutCancel(ctx), c.all, Request{Op: OpRelease, Key: key, Token: token, Terms: Terms{TTL: c.cfg.TTL}})
}

// wait waits a random time, so that contenders who split the vote do not meet
// again. It ends early with p, and leaves that for the caller to see.
func (c *Client) wait(p patience) error {
	var b [8]byte
	if err := c.cfg.Random("retry", b[:]); err != nil {
		return fmt.Errorf("draw a retry delay: %w", err)
	}
	span := uint64(c.cfg.RetryMax-c.cfg.RetryMin) + 1
	delay := c.cfg.RetryMin + time.Duration(binary.LittleEndian.Uint64(b[:])%span)
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

func (c *Client) failure(op, key string, kind error, answers []Answer) *Error {
	return &Error{Op: op, Key: key, Kind: kind, Asked: len(answers), Nodes: c.causes(answers)}
}

func number(yes bool, err error) (int64, error) {
	if yes {
		return 1, err
	}
	return 0, err
}
