package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// What can go wrong, for errors.Is. Every error of Acquire, Extend and Release
// that is about the lock is an *Error of one of these kinds.
var (
	// ErrTaken: so many nodes said no to Acquire that the others could not have made a quorum.
	ErrTaken = errors.New("the key is taken")
	// ErrNoQuorum: fewer than a quorum said yes, and fewer than a quorum said no. After
	// Extend and Release the outcome is unknown.
	ErrNoQuorum = errors.New("no quorum of nodes answered alike")
	// ErrExpired: a quorum said yes, but too late to be of use; or the lock to be
	// extended is past its deadline.
	ErrExpired = errors.New("the validity time was over")
	// ErrLost: a quorum of nodes said that they do not hold the key for this lock, so
	// that it certainly isn't held.
	ErrLost = errors.New("the lock is not held")
	// ErrLimit: the lock was extended as often as Config.Extends allows.
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
	// ErrCancelled: the context ended first. Its cause and its error are wrapped too.
	ErrCancelled = errors.New("cancelled")
)

// Error says what failed, and what each node answered.
type Error struct {
	Op    string // acquire, extend or release
	Key   string
	Kind  error // one of the kinds above
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

// Unwrap gives the kind and, if the context ended, its cause and error. It does
// not give the nodes' errors: a node's own time-out must not pass for the
// caller's.
func (e *Error) Unwrap() []error {
	out := []error{e.Kind}
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
