package wire_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock"
	"lockpick/redlock/driver"
	"lockpick/redlock/redisnode"
	"lockpick/redlock/redisnode/redistest"
	"lockpick/redlock/wire"
)

type fencer interface {
	redlock.Node
	driver.Fencer
}

// open returns a wire.Node and a go-redis client for the same server.
func open(t testing.TB, addr string) (*wire.Node, *redis.Client) {
	n := wire.New(wire.Options{Addr: addr, Timeout: 10 * time.Second})
	client := redis.NewClient(redisnode.Options(addr))
	t.Cleanup(func() { n.Close(); client.Close() })
	return n, client
}

// Random operations have the same results on a wire.Node and on a redisnode.Node.
func TestSameResultsAsRedisnode(t *testing.T) {
	addrs := redistest.Start(t, 2)
	n, _ := open(t, addrs[0])
	_, client := open(t, addrs[1])
	ctx, ttl := context.Background(), time.Minute
	both := []fencer{n, redisnode.New(client)}
	for i := range 500 {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		key, token := fmt.Sprint("k", rng.IntN(3)), fmt.Sprint("t", rng.IntN(2))
		step, fence := rng.IntN(5), rng.Int64N(1000)
		var results [2]string
		for j, n := range both {
			var yes bool
			var err error
			switch step {
			case 0:
				yes, err = n.Set(ctx, key, token, ttl)
			case 1:
				yes, err = n.Extend(ctx, key, token, ttl)
			case 2:
				yes, err = n.Release(ctx, key, token)
			case 3:
				yes, err = n.RaiseFence(ctx, key, token, fence)
			case 4:
				var count int64
				count, err = n.SetFenced(ctx, key, token, ttl)
				results[j] = fmt.Sprint(count)
			}
			results[j] += fmt.Sprint(yes, err)
		}
		if results[0] != results[1] {
			t.Fatalf("step %d, operation %d on %s with %s: wire %s, go-redis %s", i, step, key, token, results[0], results[1])
		}
	}
}

// A node is in quarantine until it is declared ready, and again after it loses its data or its
// server process changes.
func TestQuarantine(t *testing.T) {
	addrs, ctx := redistest.Start(t, 1), context.Background()
	n, client := open(t, addrs[0])
	terms := driver.Terms{TTL: time.Minute, Quarantine: time.Minute, Fence: true}
	wantGrant := func(token, want string) {
		t.Helper()
		count, err := n.Grant(ctx, "k", token, terms)
		if got := fmt.Sprint(count > 0, err); !strings.HasPrefix(got, want) {
			t.Errorf("grant: %s, want %s", got, want)
		}
	}
	const refused = "false QUARANTINE this node restarted or lost its data"
	wantGrant("1", refused)
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	wantGrant("1", "true <nil>")
	wantGrant("2", "false <nil>")
	if yes, err := n.Abandon(ctx, "k", "1", time.Minute); !yes || err != nil {
		t.Errorf("abandon: %v, %v", yes, err)
	}
	wantGrant("2", "true <nil>")
	before, _ := n.Grant(ctx, "l", "1", terms)
	client.Del(ctx, "l", driver.CountKey("l"))
	if after, err := n.Grant(ctx, "l", "2", terms); after < before || err != nil { // both grants may be in the same millisecond
		t.Errorf("the count was %d, but %d after it was lost; error: %v", before, after, err)
	}
	client.Set(ctx, driver.RunIDKey, "another process", 0)
	wantGrant("3", refused)
	n.Ready(ctx)
	client.FlushAll(ctx)
	wantGrant("3", refused)
	if yes, err := redisnode.New(client).Set(ctx, "k", "4", time.Minute); !yes || err != nil {
		t.Errorf("set without a quarantine: %v, %v", yes, err)
	}
}

func lock(t testing.TB, addrs []string, change func(*redlock.Config)) (*redlock.Client, []*wire.Node) {
	cfg := redlock.Config{TTL: time.Minute, Timeout: 10 * time.Second, Tries: 1}
	var nodes []*wire.Node
	for _, addr := range addrs {
		n, _ := open(t, addr)
		nodes = append(nodes, n)
		cfg.Nodes = append(cfg.Nodes, n)
	}
	if change != nil {
		change(&cfg)
	}
	c, err := redlock.Specification(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c, nodes
}

// With many goroutines, each lock has one holder at a time, tokens increase, and no keys are left.
func TestLock(t *testing.T) {
	addrs := redistest.Start(t, 5)
	c, _ := lock(t, addrs, func(cfg *redlock.Config) { cfg.Fence = true })
	ctx := context.Background()
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range int64(5) {
				l, err := c.Acquire(ctx, fmt.Sprint("k", i))
				if err != nil {
					t.Error(err)
					return
				}
				if l.Votes() != 5 || l.Fence() != j+1 {
					t.Errorf("%d votes, fence %d; want 5 and %d", l.Votes(), l.Fence(), j+1)
				}
				if other, err := c.Acquire(ctx, l.Key()); err == nil {
					t.Errorf("a second client acquired the lock with token %v while it was held", other.Token())
				}
				if err := l.Extend(ctx); err != nil {
					t.Error(err)
				}
				if err := l.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, addr := range addrs {
		_, client := open(t, addr)
		if n, err := client.DBSize(ctx).Result(); err != nil || n != 64 {
			t.Errorf("%d keys, %v; want only the 64 counts", n, err)
		}
	}
}
