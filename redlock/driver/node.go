package driver

import (
	"context"
	"time"
)

// Node is one independent Redis master, or anything that offers the same three
// atomic steps. The answer yes means that the step took effect, no that it did
// not and won't; an error leaves it open. Every ctx carries a deadline. A node
// that does not heed it costs a goroutine until it returns, but delays nobody.
// A node is used by several goroutines at once. If it is a fmt.Stringer, errors
// call it by its name.
type Node interface {
	// Set sets key to token, to vanish after ttl, if there is no such key.
	Set(ctx context.Context, key, token string, ttl time.Duration) (yes bool, err error)
	// Extend makes key vanish after ttl from now, if its value is token.
	Extend(ctx context.Context, key, token string, ttl time.Duration) (yes bool, err error)
	// Release deletes key, if its value is token.
	Release(ctx context.Context, key, token string) (yes bool, err error)
}

// Fencer is a Node that counts the grants of each key and never forgets the
// count, as fencing tokens need it.
type Fencer interface {
	// SetFenced is Set that also counts the grant, in one atomic step. It returns the
	// count, from 1; 0 is the answer no.
	SetFenced(ctx context.Context, key, token string, ttl time.Duration) (count int64, err error)
	// RaiseFence raises the key's count to fence if it is lower, and if the key's
	// value is token; if it isn't, the answer is no.
	RaiseFence(ctx context.Context, key, token string, fence int64) (yes bool, err error)
}

// Granter is a Node with the two steps that a Locker needs so that no request which comes
// late can leave a key behind. Without them it makes do with Set and Release.
type Granter interface {
	Node
	// Grant is Set, or SetFenced, on terms. It is refused where the token was abandoned, and
	// answers yes again where the key has this token already. 0 is the answer no, without
	// Terms.Fence 1 is yes.
	Grant(ctx context.Context, key, token string, t Terms) (count int64, err error)
	// Abandon is Release of a token whose grant may still be under way: where there is nothing to
	// delete, the node refuses that grant for so long.
	Abandon(ctx context.Context, key, token string, refuse time.Duration) (yes bool, err error)
}

// Terms are on what a Granter grants.
type Terms struct {
	TTL   time.Duration
	Fence bool // count the grant, from the node's clock in milliseconds where it knows no count
	// Quarantine is for how long a node that was restarted, or whose data is gone, refuses
	// all grants, by an error. 0: not at all.
	Quarantine time.Duration
}

// Identifier is a Node that can tell which server it is, so that one which was given twice
// is found out. A server that restarts may be another.
type Identifier interface {
	Identity(ctx context.Context) (string, error)
}

// Batcher is a Node that can also be asked without waiting for it: what many
// callers submit is sent together, and a request costs no goroutine. A lock whose
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

// Debtor is a Batcher that can be waited for: Settle returns once it owes its node no release any
// more, or when ctx ends, with an error that says what it still owes.
type Debtor interface {
	Batcher
	Settle(ctx context.Context) error
}

// Op is a step of Node, Fencer, Granter or Identifier, or of who sets nodes up.
type Op uint8

// The steps. Their scripts are the variables of this package.
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

// Answer is what became of a request to one node.
type Answer struct {
	Node  int // its index
	Value int64
	Err   error
}

// Yes reports whether the request took effect, No whether it did not. If the node gave no
// answer, both are false.
func (a Answer) Yes() bool { return a.Err == nil && a.Value > 0 }
func (a Answer) No() bool  { return a.Err == nil && a.Value <= 0 }

// Tally counts answers; a node that gave none is in All only.
type Tally struct{ Yes, No, All int }

// Count counts answers.
func Count(answers []Answer) Tally {
	t := Tally{All: len(answers)}
	for _, a := range answers {
		switch {
		case a.Yes():
			t.Yes++
		case a.No():
			t.No++
		}
	}
	return t
}

// Highest returns the highest fencing count, and the nodes that granted with a lower one.
func Highest(answers []Answer) (fence int64, behind []int) {
	for _, a := range answers {
		if a.Yes() {
			fence = max(fence, a.Value)
		}
	}
	for _, a := range answers {
		if a.Yes() && a.Value < fence {
			behind = append(behind, a.Node)
		}
	}
	return fence, behind
}
