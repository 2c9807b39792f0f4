// Package redisnode makes a redlock.Node of a go-redis client.
//
// Its noun is Node, one independent Redis master. Each step is one message: SET
// with NX and PX, or EVAL with the script's whole text. EVALSHA would save a few
// hundred bytes, but a node that was restarted does not know the script, and a
// release which it refuses for that reason did nothing. Options are those under
// which a client suits a lock.
//
// Deliberately missing: Redis Cluster and replicas. A node of Redlock is one
// master, on its own.
package redisnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockpick/redlock/driver"
)

// Client is what a Node needs of go-redis. *redis.Client and
// redis.UniversalClient have it.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Node is one Redis master. The count of a key's grants is under the key with
// ":fence" behind it, and never expires.
type Node struct {
	client Client
	queue  queue
}

var (
	_ driver.Node       = (*Node)(nil)
	_ driver.Fencer     = (*Node)(nil)
	_ driver.Granter    = (*Node)(nil)
	_ driver.Identifier = (*Node)(nil)
	_ redis.Error       = refusal("")
)

// New returns the node that client talks to. Whoever made the client closes it.
// It should have been made with Options: with go-redis's defaults a command that
// failed is sent again, and contexts do not bound reads.
func New(client Client) *Node { return &Node{client: client} }

// Options are the recommended options for a client of the node at addr. All may
// be changed before the client is made; the reasons stand beside them.
//
// Change what it returns, not a copy: the dialer looks up TLSConfig and DialTimeout there. Who sets another
// Dialer should wrap it in Guard.
func Options(addr string) *redis.Options {
	o := &redis.Options{
		Addr: addr,
		// A context's deadline ends a read. By default it does not.
		ContextTimeoutEnabled: true,
		// A lock's own algorithm decides when to ask again, with a value that must be new.
		MaxRetries: -1, MinRetryBackoff: -1, MaxRetryBackoff: -1, DialerRetries: 1,
		// A connection that can't be made in a second is of no use to a lock, and dials
		// that hang must not use up the pool.
		DialTimeout: time.Second, PoolSize: 64,
		// No message of a lock is longer, and a full pool would hold 4 MB for each node.
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		// Nothing is sent that the lock does not need.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	o.Dialer = Guard(redis.NewDialer(o))
	return o
}

// String is the client's name for the node.
func (n *Node) String() string {
	if s, ok := n.client.(fmt.Stringer); ok {
		return s.String()
	}
	return "a Redis node"
}

// do has the node carry out a command.
func (n *Node) do(ctx context.Context, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	if err := n.process(ctx, cmd); err != nil {
		cmd = redis.NewCmd(ctx) // that one may still be under way
		cmd.SetErr(err)
	}
	return cmd
}

// refusal is an error that a node sent in its answer. It implements redis.Error.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// Set implements driver.Node. It reads the answer itself: to go-redis it is an error that the key is
// taken, one that it looks at some twenty times by reflection, which took a tenth of the
// processor's time of clients that wait for a lock.
func (n *Node) Set(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	cmd := redis.NewRawCmd(ctx, "SET", key, token, "NX", "PX", ttl.Milliseconds())
	if err := n.process(ctx, cmd); err != nil {
		return false, err
	}
	switch said := bytes.TrimSuffix(cmd.Val(), []byte("\r\n")); {
	case string(said) == "+OK":
		return true, nil
	case string(said) == "$-1", string(said) == "_": // null, in versions 2 and 3 of the protocol
		return false, nil
	case bytes.HasPrefix(said, []byte("-")):
		return false, driver.Advise(refusal(said[1:]))
	default:
		return false, fmt.Errorf("SET with NX was answered by %.100q, which is neither OK nor null nor an error: is this a Redis server?", said)
	}
}

// Extend implements driver.Node.
func (n *Node) Extend(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	return yes(n.do(ctx, "EVAL", driver.Extend.Text, 1, key, token, ttl.Milliseconds()).Int64())
}

// Release implements driver.Node.
func (n *Node) Release(ctx context.Context, key, token string) (bool, error) {
	return yes(n.do(ctx, "EVAL", driver.Release.Text, 1, key, token).Int64())
}

// SetFenced implements driver.Fencer.
func (n *Node) SetFenced(ctx context.Context, key, token string, ttl time.Duration) (int64, error) {
	return n.do(ctx, "EVAL", driver.SetFenced.Text, 2, key, driver.CountKey(key), token, ttl.Milliseconds()).Int64()
}

// RaiseFence implements driver.Fencer.
func (n *Node) RaiseFence(ctx context.Context, key, token string, fence int64) (bool, error) {
	return yes(n.do(ctx, "EVAL", driver.RaiseFence.Text, 2, key, driver.CountKey(key), token, fence).Int64())
}

// Grant implements driver.Granter. Where there is a quarantine the script reads INFO, so an ACL
// must allow that.
func (n *Node) Grant(ctx context.Context, key, token string, t driver.Terms) (int64, error) {
	counted := 0
	if t.Fence {
		counted = 1
	}
	return n.do(ctx, "EVAL", driver.Grant.Text, 5, key, driver.CountKey(key), driver.Tombstone(key, token), driver.KnownAs, driver.Quarantine,
		token, t.TTL.Milliseconds(), counted, t.Quarantine.Milliseconds()).Int64()
}

// Abandon implements driver.Granter.
func (n *Node) Abandon(ctx context.Context, key, token string, refuse time.Duration) (bool, error) {
	return yes(n.do(ctx, "EVAL", driver.Abandon.Text, 2, key, driver.Tombstone(key, token), token, refuse.Milliseconds()).Int64())
}

// Ready ends the node's quarantine, or keeps a new node from beginning with one. It is for an
// administrator who knows that the node has forgotten nothing: it is new, or it was restarted
// with all its data. In a shell:
//
//	redis-cli EVAL "$(cat script/ready.lua)" 2 redlock:run_id redlock:quarantine
func (n *Node) Ready(ctx context.Context) error {
	return n.do(ctx, "EVAL", driver.Ready.Text, 2, driver.KnownAs, driver.Quarantine).Err()
}

var runID = regexp.MustCompile(`run_id:([0-9a-f]+)`)

// Identity implements driver.Identifier by the server's run_id.
func (n *Node) Identity(ctx context.Context) (string, error) {
	info, err := n.do(ctx, "INFO", "server").Text()
	if err != nil {
		return "", err
	}
	m := runID.FindStringSubmatch(info)
	if m == nil {
		return "", errors.New("INFO names no run_id")
	}
	return m[1], nil
}

func yes(n int64, err error) (bool, error) { return n > 0, err }
