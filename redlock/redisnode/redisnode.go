// Package redisnode implements redlock.Node with a go-redis client.
//
// A Node is one independent Redis master. Each operation is one message: SET with NX and PX, or
// EVAL with the full text of a script. EVALSHA would save a few hundred bytes, but a restarted node
// does not know the script, so it would reject a release, which would then have no effect. Options
// returns suitable client options.
//
// Redis Cluster and replicas are deliberately not supported. A Redlock node is a standalone master.
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

// Client contains the methods of a go-redis client that a Node needs. *redis.Client and
// redis.UniversalClient implement it.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Node is one Redis master. It stores how often a key was granted under that key with the suffix
// ":fence", which never expires.
type Node struct {
	client Client
	queue  queue
}

var (
	_ driver.Node       = (*Node)(nil)
	_ driver.Fencer     = (*Node)(nil)
	_ driver.Granter    = (*Node)(nil)
	_ driver.Identifier = (*Node)(nil)
	_ redis.Error       = replyError("")
)

// New returns a node that uses client. The caller must close the client. The client should be
// created with Options: by default, go-redis resends failed commands, and contexts don't limit
// reads.
func New(client Client) *Node { return &Node{client: client} }

// Options returns the recommended options for a client of the node at addr. They may be changed
// before the client is created; comments in the source give the reason for each option.
//
// Change the returned value, not a copy, because the dialer reads TLSConfig and DialTimeout from
// it. If you replace Dialer, wrap yours in Guard.
func Options(addr string) *redis.Options {
	o := &redis.Options{
		Addr: addr,
		// End reads at the context's deadline, which go-redis does not do by default.
		ContextTimeoutEnabled: true,
		// The lock decides when to retry, and a retry needs a new token.
		MaxRetries: -1, MinRetryBackoff: -1, MaxRetryBackoff: -1, DialerRetries: 1,
		// A connection that takes longer than a second is useless to a lock, and hanging dials must
		// not exhaust the pool.
		DialTimeout: time.Second, PoolSize: 64,
		// No message of a lock is longer. With the default sizes, a full pool would use 4 MB per
		// node.
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		// Send nothing that a lock does not need.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	o.Dialer = Guard(redis.NewDialer(o))
	return o
}

// String returns the client's name for the node.
func (n *Node) String() string {
	if s, ok := n.client.(fmt.Stringer); ok {
		return s.String()
	}
	return "a Redis node"
}

func (n *Node) do(ctx context.Context, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	if err := n.process(ctx, cmd); err != nil {
		cmd = redis.NewCmd(ctx) // the old one may still be in use
		cmd.SetErr(err)
	}
	return cmd
}

// replyError is a node's error reply. It implements redis.Error.
type replyError string

func (r replyError) Error() string { return string(r) }
func (replyError) RedisError()     {}

// Set implements driver.Node. It parses the reply itself: go-redis treats the reply for a taken key
// as an error and inspects it about twenty times by reflection, which took a tenth of the CPU time
// of clients waiting for a lock.
func (n *Node) Set(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	cmd := redis.NewRawCmd(ctx, "SET", key, token, "NX", "PX", ttl.Milliseconds())
	if err := n.process(ctx, cmd); err != nil {
		return false, err
	}
	switch reply := bytes.TrimSuffix(cmd.Val(), []byte("\r\n")); {
	case string(reply) == "+OK":
		return true, nil
	case string(reply) == "$-1", string(reply) == "_": // null in RESP2 and RESP3
		return false, nil
	case bytes.HasPrefix(reply, []byte("-")):
		return false, driver.Advise(replyError(reply[1:]))
	default:
		return false, fmt.Errorf("the reply to SET with NX was %.100q, not OK, null or an error: is this a Redis server?", reply)
	}
}

// Extend implements driver.Node.
func (n *Node) Extend(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	return boolResult(n.do(ctx, "EVAL", driver.Extend.Text, 1, key, token, ttl.Milliseconds()).Int64())
}

// Release implements driver.Node.
func (n *Node) Release(ctx context.Context, key, token string) (bool, error) {
	return boolResult(n.do(ctx, "EVAL", driver.Release.Text, 1, key, token).Int64())
}

// SetFenced implements driver.Fencer.
func (n *Node) SetFenced(ctx context.Context, key, token string, ttl time.Duration) (int64, error) {
	return n.do(ctx, "EVAL", driver.SetFenced.Text, 2, key, driver.CountKey(key), token, ttl.Milliseconds()).Int64()
}

// RaiseFence implements driver.Fencer.
func (n *Node) RaiseFence(ctx context.Context, key, token string, fence int64) (bool, error) {
	return boolResult(n.do(ctx, "EVAL", driver.RaiseFence.Text, 2, key, driver.CountKey(key), token, fence).Int64())
}

// Grant implements driver.Granter. With a quarantine, the script calls INFO, so an ACL must allow
// INFO.
func (n *Node) Grant(ctx context.Context, key, token string, t driver.Terms) (int64, error) {
	counted := 0
	if t.Fence {
		counted = 1
	}
	return n.do(ctx, "EVAL", driver.Grant.Text, 5, key, driver.CountKey(key), driver.TombstoneKey(key, token), driver.RunIDKey, driver.QuarantineKey,
		token, t.TTL.Milliseconds(), counted, t.Quarantine.Milliseconds()).Int64()
}

// Abandon implements driver.Granter.
func (n *Node) Abandon(ctx context.Context, key, token string, refuse time.Duration) (bool, error) {
	return boolResult(n.do(ctx, "EVAL", driver.Abandon.Text, 2, key, driver.TombstoneKey(key, token), token, refuse.Milliseconds()).Int64())
}

// Ready ends the node's quarantine, or prevents a new node from starting in quarantine. It is for
// administrators who know that the node has forgotten nothing, because it is new or was restarted
// with all its data. The equivalent shell command is:
//
//	redis-cli EVAL "$(cat driver/ready.lua)" 2 redlock:run_id redlock:quarantine
func (n *Node) Ready(ctx context.Context) error {
	return n.do(ctx, "EVAL", driver.Ready.Text, 2, driver.RunIDKey, driver.QuarantineKey).Err()
}

var runID = regexp.MustCompile(`run_id:([0-9a-f]+)`)

// Identity implements driver.Identifier. It returns the server's run_id.
func (n *Node) Identity(ctx context.Context) (string, error) {
	info, err := n.do(ctx, "INFO", "server").Text()
	if err != nil {
		return "", err
	}
	m := runID.FindStringSubmatch(info)
	if m == nil {
		return "", errors.New("INFO contains no run_id")
	}
	return m[1], nil
}

func boolResult(n int64, err error) (bool, error) { return n > 0, err }
