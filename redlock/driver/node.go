package driver

import (
	"context"
	"time"
)

// Node is one independent Redis master, or any other store with the same three atomic operations.
// If the result is yes, the operation took effect; if it is no, it did not and never will. After an
// error the outcome is unknown, unless the error wraps ErrNotSent. Each ctx has a deadline. A Node
// that ignores the deadline keeps a goroutine busy until it returns, but delays nothing else. Nodes
// must be safe for concurrent use. If a Node is a fmt.Stringer, errors identify it by its String
// method.
type Node interface {
	// Set sets key to token with an expiry of ttl if the key does not exist.
	Set(ctx context.Context, key, token string, ttl time.Duration) (yes bool, err error)
	// Extend sets the expiry of key to ttl from now if its value is token.
	Extend(ctx context.Context, key, token string, ttl time.Duration) (yes bool, err error)
	// Release deletes key if its value is token.
	Release(ctx context.Context, key, token string) (yes bool, err error)
}

// Fencer is a Node that counts the grants of each key, for fencing tokens. It must never forget a
// count.
type Fencer interface {
	// SetFenced does the same as Set and counts the grant, in one atomic operation. It returns the
	// new count, which is at least 1, or 0 if the key exists.
	SetFenced(ctx context.Context, key, token string, ttl time.Duration) (count int64, err error)
	// RaiseFence raises the count for key to fence if it is lower. The result is no if the value of
	// key is not token.
	RaiseFence(ctx context.Context, key, token string, fence int64) (yes bool, err error)
}

// Granter is a Node with two operations that prevent late requests from leaving keys behind. On
// other nodes, a Locker uses Set and Release instead.
type Granter interface {
	Node
	// Grant does the same as Set or, if t.Fence is set, as SetFenced. The result is no if the token
	// was abandoned, and yes if the key already has this token. For no, the count is 0; for yes
	// without t.Fence, it is 1.
	Grant(ctx context.Context, key, token string, t Terms) (count int64, err error)
	// Abandon releases a token whose grant may still be in flight. If the key does not have the
	// token, the node refuses to grant the key to that token for the duration refuse.
	Abandon(ctx context.Context, key, token string, refuse time.Duration) (yes bool, err error)
}

// Terms are the conditions of a grant.
type Terms struct {
	TTL   time.Duration
	Fence bool // count the grant; a node without a count starts at its clock, in milliseconds
	// Quarantine is how long a node refuses all grants with an error after it has restarted or lost
	// its data. 0 means no quarantine.
	Quarantine time.Duration
}

// Identifier is a Node that returns its server's identity, so that a Locker can detect a server
// that is listed twice. The identity may change when the server restarts.
type Identifier interface {
	Identity(ctx context.Context) (string, error)
}

// Batcher is a Node that accepts requests without blocking. It sends the requests of many callers
// together, without a goroutine per request. If all nodes of a lock are Batchers, the lock uses
// only Submit and Flush.
//
//	Submit  Submit  Submit  Flush  ────►  one write  ────►  answers, in order
type Batcher interface {
	Node
	// Submit never blocks. It owns r until it has answered r, which it does exactly once, no later
	// than r.Deadline, and possibly before Submit returns. The node executes requests in the order
	// of submission, except that a release may overtake requests with other tokens. Deadlines must
	// not decrease from one request to the next.
	//
	// A release that was answered with an error remains pending. Unless its key has expired (after
	// Terms.TTL), the node receives the release before any request submitted later, even if the
	// later request uses another connection.
	Submit(r *Request)
	// Flush sends the submitted requests. It never blocks. A request that is not flushed may wait
	// until its deadline.
	Flush()
}

// Settler is a Batcher that keeps track of releases that the node has not answered. Settle waits
// until none are left. If ctx ends first, Settle returns an error with the number of pending
// releases.
type Settler interface {
	Batcher
	Settle(ctx context.Context) error
}

// Op is the operation of a Request. Each Op corresponds to a method of Node, Fencer, Granter or
// Identifier, except OpReady.
type Op uint8

// The operations. The Lua scripts that implement them are variables of this package.
const (
	OpSet Op = iota
	OpExtend
	OpRelease
	OpSetFenced
	OpRaiseFence
	OpGrant
	OpAbandon
	OpIdentify
	OpReady // ends a quarantine; for administrators
)

// Request is one operation on one node. It belongs to the node from Submit until it is answered,
// and may be reused afterward.
type Request struct {
	Op         Op
	Key, Token string
	// Terms.TTL is the key's new expiry, counted from now. For a release, it is how long the key
	// can still live. The other terms are for OpGrant.
	Terms
	Count     int64     // for OpRaiseFence
	Deadline  time.Time // on this process's clock
	Node      int       // index of the node, for the Collector
	Collector Collector // receives the answer
}

// Collector receives the answers to Requests.
type Collector interface {
	// Answered receives the answer to r. A value above 0 means yes (for OpSetFenced, the value is
	// the count), and 0 means no. After an error, it is unknown whether r took effect. Answered
	// must not block, because the goroutine that reads answers calls it.
	Answered(r *Request, value int64, err error)
}

// Answer is one node's answer to a request.
type Answer struct {
	Node  int // index of the node
	Value int64
	Err   error
}

// Yes reports whether the request took effect, No whether it did not. Both are false if the node
// gave no answer.
func (a Answer) Yes() bool { return a.Err == nil && a.Value > 0 }
func (a Answer) No() bool  { return a.Err == nil && a.Value <= 0 }

// Tally counts answers. Total includes the nodes that gave no answer.
type Tally struct{ Yes, No, Total int }

func Count(answers []Answer) Tally {
	t := Tally{Total: len(answers)}
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

// HighestCount returns the highest fencing count, and the nodes that granted with a lower count.
func HighestCount(answers []Answer) (fence int64, lowNodes []int) {
	for _, a := range answers {
		if a.Yes() {
			fence = max(fence, a.Value)
		}
	}
	for _, a := range answers {
		if a.Yes() && a.Value < fence {
			lowNodes = append(lowNodes, a.Node)
		}
	}
	return fence, lowNodes
}
