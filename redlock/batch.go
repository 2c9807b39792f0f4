package redlock

import (
	"context"
	"fmt"
	"time"
)

// Batcher is a Node that can also be asked without waiting for it: what many
// callers submit is sent together, and a request costs no goroutine. A client whose
// nodes all are Batchers asks them by Submit and Flush alone.
//
//	Submit  Submit  Submit  Flush  ────►  one write  ────►  answers, in order
type Batcher interface {
	Node
	// Submit takes r over until it is answered, and never blocks. r is answered exactly
	// once, by r.Deadline at the latest, perhaps before Submit returns. The node carries
	// requests out in the order in which they were submitted, with one exception: a
	// release may overtake requests with other tokens. A request that is submitted after
	// another must not have an earlier deadline.
	//
	// A release that was answered by an error is not given up: the node gets it before
	// anything that is submitted later, also on another connection, unless the key that
	// it is to delete has expired before (its TTL).
	Submit(r *Request)
	// Flush sends what was submitted, and never blocks. What is not flushed may stay
	// where it is until its deadline.
	Flush()
}

// Op is a step of Node, Fencer, Granter or Identifier, or of who sets nodes up.
type Op uint8

// The steps. What they are on a Redis node is in package script.
const (
	OpSet Op = iota
	OpExtend
	OpRelease
	OpSetFenced
	OpRaiseFence
	OpGrant
	OpAbandon
	OpIdentify
	OpReady // ends a quarantine
)

// Request is one step on one node. It belongs to the node from Submit until it is
// answered, and may be used again then.
type Request struct {
	Op         Op
	Key, Token string
	// Terms.TTL is what the key is to live from now; of a release, how long it can still
	// live. The other terms are of OpGrant.
	Terms
	Count    int64     // of OpRaiseFence
	Deadline time.Time // by the node's clock, which is its client's
	Node     int       // for the Collector: which node was asked
	To       Collector // where the answer goes
}

// Collector takes the answers to Requests.
type Collector interface {
	// Answered says what became of r: a value above 0 is yes, 0 is no (of OpSetFenced it
	// is the count), and an error leaves open whether the step took effect. It is called
	// where answers are read, and must not block.
	Answered(r *Request, value int64, err error)
}

// on is r's step on a Node that is asked by its methods. One that is no Granter does the
// plain step.
func (r *Request) on(ctx context.Context, n Node) (int64, error) {
	switch r.Op {
	case OpSet:
		return number(n.Set(ctx, r.Key, r.Token, r.TTL))
	case OpExtend:
		return number(n.Extend(ctx, r.Key, r.Token, r.TTL))
	case OpRelease:
		return number(n.Release(ctx, r.Key, r.Token))
	case OpSetFenced:
		return n.(Fencer).SetFenced(ctx, r.Key, r.Token, r.TTL)
	case OpRaiseFence:
		return number(n.(Fencer).RaiseFence(ctx, r.Key, r.Token, r.Count))
	case OpGrant:
		if g, ok := n.(Granter); ok {
			return g.Grant(ctx, r.Key, r.Token, r.Terms)
		}
		plain := *r
		plain.Op = r.Op.to(false, r.Terms)
		return plain.on(ctx, n)
	case OpAbandon:
		if g, ok := n.(Granter); ok {
			return number(g.Abandon(ctx, r.Key, r.Token, r.TTL))
		}
		return number(n.Release(ctx, r.Key, r.Token))
	}
	panic(fmt.Sprintf("redlock: a request has step %d, which does not exist", r.Op))
}
