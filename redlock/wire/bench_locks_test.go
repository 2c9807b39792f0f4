//go:build bench && linux

package wire_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"lockpick/redlock"
	"lockpick/redlock/redisnode"
	"lockpick/redlock/wire"
)

// pair acquires the lock on a key and releases it.
type pair func(key string) error

// contestant is a lock that is measured.
type contestant struct {
	name, description string
	nodes             int // number of nodes used
	newPair           func(t *testing.T, addrs []string, timeout time.Duration) pair
}

const benchTTL = 10 * time.Second

var contestants = []contestant{
	{"wire", "redlock.New on package wire", 5, func(t *testing.T, addrs []string, timeout time.Duration) pair {
		return newLockerPair(t, config(t, addrs, timeout, newWireNode))
	}},
	{"wire-fence", "the same with fencing tokens", 5, func(t *testing.T, addrs []string, timeout time.Duration) pair {
		cfg := config(t, addrs, timeout, newWireNode)
		cfg.Fence = true
		return newLockerPair(t, cfg)
	}},
	{"wire-quarantine", "the same with a quarantine, on nodes declared ready", 5, func(t *testing.T, addrs []string, timeout time.Duration) pair {
		cfg := config(t, addrs, timeout, newWireNode)
		cfg.Quarantine = benchTTL
		for _, addr := range addrs {
			if err := redisnode.New(client(t, redisnode.Options(addr))).Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return newLockerPair(t, cfg)
	}},
	{"wire-spec", "redlock.Specification on package wire, which waits for all nodes", 5, func(t *testing.T, addrs []string, timeout time.Duration) pair {
		return newSpecificationPair(t, config(t, addrs, timeout, newWireNode))
	}},
	{"go-redis", "redlock.New on redisnode (go-redis)", 5, func(t *testing.T, addrs []string, timeout time.Duration) pair {
		return newLockerPair(t, config(t, addrs, timeout, newGoRedisNode))
	}},
	{"specification", "redlock.Specification on redisnode", 5, func(t *testing.T, addrs []string, timeout time.Duration) pair {
		return newSpecificationPair(t, config(t, addrs, timeout, newGoRedisNode))
	}},
	{"redsync", "redsync v4 configured as in its README, with the default settings of go-redis", 5, func(t *testing.T, addrs []string, _ time.Duration) pair {
		return newRedsyncPair(t, addrs, 0)
	}},
	{"redsync-64", "redsync v4 with pools of 64 connections", 5, func(t *testing.T, addrs []string, _ time.Duration) pair {
		return newRedsyncPair(t, addrs, 64)
	}},
	{"redislock", "bsm/redislock, which uses one node", 1, newRedislockPair},
	{"rueidislock", "rueidislock in its intended topology: a majority of three keys on one server", 1, newRueidislockPair},
}

type nodeMaker func(t *testing.T, addr string, timeout time.Duration) redlock.Node

func newWireNode(t *testing.T, addr string, timeout time.Duration) redlock.Node {
	n := wire.New(wire.Options{Addr: addr, Timeout: timeout})
	t.Cleanup(func() { n.Close() })
	return n
}

func newGoRedisNode(t *testing.T, addr string, _ time.Duration) redlock.Node {
	return redisnode.New(client(t, redisnode.Options(addr)))
}

func client(t *testing.T, o *redis.Options) *redis.Client {
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

func config(t *testing.T, addrs []string, timeout time.Duration, node nodeMaker) redlock.Config {
	cfg := redlock.Config{TTL: benchTTL, Timeout: timeout, RetryMin: 50 * time.Millisecond, RetryMax: 250 * time.Millisecond} // redsync's delays
	for _, addr := range addrs {
		cfg.Nodes = append(cfg.Nodes, node(t, addr, timeout))
	}
	return cfg
}

func newLockerPair(t *testing.T, cfg redlock.Config) pair {
	l, err := redlock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	ctx := context.Background()
	return func(key string) error {
		lease, err := l.Acquire(ctx, key)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
}

func newSpecificationPair(t *testing.T, cfg redlock.Config) pair {
	c, err := redlock.Specification(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	return func(key string) error {
		l, err := c.Acquire(ctx, key)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}

func newRedsyncPair(t *testing.T, addrs []string, size int) pair {
	var pools []redsyncredis.Pool
	for _, addr := range addrs {
		pools = append(pools, redsyncpool.NewPool(client(t, &redis.Options{Addr: addr, PoolSize: size})))
	}
	rs := redsync.New(pools...)
	return func(key string) error {
		m := rs.NewMutex(key)
		if err := m.Lock(); err != nil {
			return err
		}
		_, err := m.Unlock()
		return err
	}
}

func newRedislockPair(t *testing.T, addrs []string, _ time.Duration) pair {
	l := redislock.New(client(t, &redis.Options{Addr: addrs[0]}))
	ctx, patient := context.Background(), &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	return func(key string) error {
		got, err := l.Obtain(ctx, key, benchTTL, patient)
		if err != nil {
			return err
		}
		return got.Release(ctx)
	}
}

func newRueidislockPair(t *testing.T, addrs []string, _ time.Duration) pair {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: addrs[:1]}, KeyMajority: 2, KeyValidity: benchTTL,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return func(key string) error {
		_, release, err := l.WithContext(context.Background(), key)
		if err != nil {
			return err
		}
		release()
		return nil
	}
}

// selectContestants returns the contestants in a comma-separated list, or all of them if the list
// is empty.
func selectContestants(names string) (out []contestant) {
	for _, c := range contestants {
		if names == "" || strings.Contains(","+names+",", ","+c.name+",") {
			out = append(out, c)
		}
	}
	return out
}
