package redlock

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
