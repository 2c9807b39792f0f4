package driver

import (
	"context"
	"time"
)

// Node is one independent Redis master, or anything that offers the same three
// atomic steps. Yes means that the step took effect, no that it did not and will
// not. After an error nobody knows, unless the error wraps ErrNotSent. Each ctx has a
// deadline. A Node that ignores it costs a goroutine until it returns, but delays nobody.
// Several goroutines use a Node at once. If it is a fmt.Stringer, errors call it by that name.
type Node interface {
	// Set sets key to token, with an expiry of ttl, if the key does not exist.
	Set(ctx context.Context, key, token string, ttl time.Duration) (yes bool, err error)
	// Extend sets the expiry of key to ttl from now, if its value is token.
	Extend(ctx context.Context, key, token string, ttl time.Duration) (yes bool, err error)
	// Release deletes key, if its value is token.
	Release(ctx context.Context, key, token string) (yes bool, err error)
}

// Fencer is a Node that counts the grants of each key, for fencing tokens, and never forgets the count.
type Fencer interface {
	// SetFenced is Set that also counts the grant, in one atomic step. It returns the
	// count, from 1; 0 is the answer no.
	SetFenced(ctx context.Context, key, token string, ttl time.Duration) (count int64, err error)
	// RaiseFence raises the key's count to fence if it is lower. The answer is no if the key's
	// value is not token.
	RaiseFence(ctx context.Context, key, token string, fence int64) (yes bool, err error)
}

// Granter is a Node with the two steps by which a Locker keeps late requests from leaving keys
// behind. Without them a Locker uses Set and Release.
type Granter interface {
	Node
	// Grant is Set, or SetFenced, on terms. The answer is no if the token was abandoned, and
	// yes if the key has this token already. The count is 0 for no, and 1 for yes without Terms.Fence.
	Grant(ctx context.Context, key, token string, t Terms) (count int64, err error)
	// Abandon is Release of a token whose grant may still be under way. If there is nothing to
	// delete, the node refuses that grant, should it come, for the time that refuse says.
	Abandon(ctx context.Context, key, token string, refuse time.Duration) (yes bool, err error)
}

// Terms are the conditions of a grant.
type Terms struct {
	TTL   time.Duration
	Fence bool // count the grant; a node without a count starts at its clock, in milliseconds
	// Quarantine is how long a node refuses all grants, with an error, after it was restarted or
	// lost its data. 0: it does not.
	Quarantine time.Duration
}

// Identifier is a Node that says which server it is, so that a Locker notices a server that was
// given twice. A server may have a new identity after a restart.
type Identifier interface {
	Identity(ctx context.Context) (string, error)
}

// Batcher is a Node that takes requests without blocking: it sends together what many
// callers submit, and a request costs no goroutine. A lock whose nodes all are Batchers
// uses Submit and Flush only.
//
//	Submit  Submit  Submit  Flush  ────►  one write  ────►  answers, in order
type Batcher interface {
	Node
	// Submit never blocks. It owns r until r is answered: exactly once, by r.Deadline at the
	// latest, perhaps before Submit returns. The node executes requests in the order of their
	// submission, except that a release may overtake requests with other tokens. Deadlines must not
	// decrease from one request to the next.
	//
	// A release that was answered with an error is still pending: the node gets it before
	// anything that is submitted later, also on another connection, unless the key has expired by
	// then (its TTL).
	Submit(r *Request)
	// Flush sends what was submitted, and never blocks. What is not flushed may wait until
	// its deadline.
	Flush()
}

// Debtor is a Batcher that remembers the releases that its node has not answered. Settle waits until
// there are none. If ctx ends first, its error says how many are left.
type Debtor interface {
	Batcher
	Settle(ctx context.Context) error
}

// Op is a method of Node, Fencer, Granter or Identifier, as a Request names it.
type Op uint8

// The operations. Their scripts are the variables of this package.
const (
	OpSet Op = iota
	OpExtend
	OpRelease
	OpSetFenced
	OpRaiseFence
	OpGrant
	OpAbandon
	OpIdentify
	OpReady // end a quarantine; for administrators
)

// Request is one operation on one node. It belongs to the node from Submit until it is
// answered, and may be reused then.
type Request struct {
	Op         Op
	Key, Token string
	// Terms.TTL is the new expiry of the key, from now. For a release it is how long the key can
	// still live. The other terms are for OpGrant.
	Terms
	Count    int64     // for OpRaiseFence
	Deadline time.Time // by this process's clock
	Node     int       // the index of the node, for the Collector
	To       Collector // receives the answer
}

// Collector receives the answers to Requests.
type Collector interface {
	// Answered reports the answer to r. A value above 0 is yes (for OpSetFenced, the count), 0 is no.
	// After an error nobody knows whether r took effect. The goroutine that reads answers calls it, so it
	// must not block.
	Answered(r *Request, value int64, err error)
}

// Answer is one node's answer to a request.
type Answer struct {
	Node  int // its index
	Value int64
	Err   error
}

// Yes reports whether the request took effect, No whether it did not. If the node gave no
// answer, both are false.
func (a Answer) Yes() bool { return a.Err == nil && a.Value > 0 }
func (a Answer) No() bool  { return a.Err == nil && a.Value <= 0 }

// Tally is a count of answers. A node that gave none counts in All only.
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
