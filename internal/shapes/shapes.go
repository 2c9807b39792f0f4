// Package shapes is locks as strangers build them: each of another shape, correct, and
// beside it the same with the one mistake that its shape invites. They are fixtures of tests:
// what the harness says of a correct one that it violates is a false alarm, and what it
// doesn't see of a wrong one is a gap.
//
// Its nouns are the design, which is what one shape does in place of the common course
// (course.go), the vote, what one node is asked (votes.go), and the Shape, a line of All
// (table.go) with both designs.
//
// Deliberately missing: a place in the table of kinds, for nobody should use one, and any
// mistake that the reference can make, too: those are in package broken.
package shapes

import (
	"cmp"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock"
	"lockpick/redlock/redisnode"
)

// Shape is a lock that is correct, and one that is not.
type Shape struct {
	lock.Kind
	Slip  string       // what the other one does wrong
	Wrong lock.Factory // the other one
	// Fenced: it hands out fencing tokens.
	Fenced bool
}

// design is one lock: where its course differs from the common one.
type design struct {
	set, del vote
	extend   vote          // nil: it can't be extended
	renew    time.Duration // share of the TTL after which it extends by itself, in percent; 0: never
	quorum   func(answers []redlock.Answer) bool
	order    func(nodes []int) // in which nodes are asked in turn; nil: all at once
	hasty    bool              // it returns as soon as enough have said yes
	giveUp   bool              // it asks nobody else once one has said no, and undoes nothing
	chosen   bool              // a release goes to those only that are known to have granted
	sends    int               // how often an attempt asks a node that doesn't answer; 0: once
	leaves   bool              // an attempt whose outcome nobody knows is not undone
	even     bool              // the delay between two attempts is always the same
	endless  bool              // a hold has no deadline
	token    func(token string) string
}

// factory makes the lock of a design.
func factory(d design) lock.Factory {
	return func(env lock.Env) (lock.Lock, error) {
		s := env.Settings
		l := &locker{env: env, design: d}
		cfg := redlock.Config{TTL: s.TTL, Timeout: s.Timeout, Drift: cmp.Or(s.Drift, redlock.NoDrift), RetryMin: s.RetryMin, RetryMax: s.RetryMax, Now: env.Now, After: env.After, Sequential: d.order != nil}
		for i, n := range env.Nodes {
			o := redisnode.Options(n.Addr)
			o.Dialer = env.Dial
			l.Clients = append(l.Clients, redis.NewClient(o))
			cfg.Nodes = append(cfg.Nodes, redisnode.New(l.Clients[i]))
			l.all = append(l.all, i)
		}
		if d.order != nil {
			d.order(l.all)
		}
		var err error
		if l.cfg, err = cfg.WithDefaults(); err != nil {
			l.Close()
			return nil, fmt.Errorf("make a lock of the shapes: %w", err)
		}
		return l, nil
	}
}
