package redisnode_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock"
	"lockpick/redlock/redisnode"
	"lockpick/redlock/redisnode/redistest"
)

// open returns a node on a real server, and its client.
func open(t *testing.T) (*redisnode.Node, *redis.Client) {
	t.Helper()
	client := redis.NewClient(redisnode.Options(redistest.Start(t, 1)[0]))
	t.Cleanup(func() { client.Close() })
	return redisnode.New(client), client
}

// check compares the result of a step with the expected one.
func check[T comparable](t *testing.T, step string, want T) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", step, got, err, want)
		}
	}
}

func TestOperations(t *testing.T) {
	n, client := open(t)
	ctx, ttl := context.Background(), 10*time.Second
	value := func(want string) {
		t.Helper()
		check(t, "value", want)(client.Get(ctx, "k").Result())
	}
	wantTTL := func(atMost time.Duration) {
		t.Helper()
		remaining, err := client.PTTL(ctx, "k").Result()
		if err != nil || remaining <= atMost-5*time.Second || remaining > atMost {
			t.Errorf("time to live: %v, %v; want just below %v", remaining, err, atMost)
		}
	}
	check(t, "extend a missing key", false)(n.Extend(ctx, "k", "a", ttl))
	check(t, "release a missing key", false)(n.Release(ctx, "k", "a"))
	check(t, "set", true)(n.Set(ctx, "k", "a", ttl))
	wantTTL(ttl)
	check(t, "set a taken key", false)(n.Set(ctx, "k", "b", 2*ttl))
	check(t, "repeat set with the same token", false)(n.Set(ctx, "k", "a", 2*ttl))
	value("a")
	wantTTL(ttl)
	check(t, "extend with another token", false)(n.Extend(ctx, "k", "b", 3*ttl))
	wantTTL(ttl)
	check(t, "extend", true)(n.Extend(ctx, "k", "a", 3*ttl))
	wantTTL(3 * ttl)
	check(t, "release with another token", false)(n.Release(ctx, "k", "b"))
	value("a")
	check(t, "release", true)(n.Release(ctx, "k", "a"))
	check(t, "keys left", int64(0))(client.DBSize(ctx).Result())
}

func TestFence(t *testing.T) {
	n, client := open(t)
	ctx, ttl := context.Background(), 10*time.Second
	fence := func(want string) {
		t.Helper()
		check(t, "count", want)(client.Get(ctx, "k:fence").Result())
	}
	check(t, "first grant", int64(1))(n.SetFenced(ctx, "k", "a", ttl))
	check(t, "set a taken key", int64(0))(n.SetFenced(ctx, "k", "b", ttl))
	fence("1")
	check(t, "raise with another token", false)(n.RaiseFence(ctx, "k", "b", 9))
	fence("1")
	check(t, "raise", true)(n.RaiseFence(ctx, "k", "a", 7))
	fence("7")
	check(t, "raise to a lower count", true)(n.RaiseFence(ctx, "k", "a", 3))
	fence("7")
	check(t, "release", true)(n.Release(ctx, "k", "a"))
	check(t, "next grant", int64(8))(n.SetFenced(ctx, "k", "b", ttl))
	check(t, "count's expiry", -1*time.Nanosecond)(client.PTTL(ctx, "k:fence").Result())
	check(t, "key's expiry", true)(func() (bool, error) {
		remaining, err := client.PTTL(ctx, "k").Result()
		return remaining > 0 && remaining <= ttl, err
	}())
	check(t, "raise for a missing key", false)(n.RaiseFence(ctx, "gone", "a", 7))
	check(t, "count keys created by the raise", int64(0))(client.Exists(ctx, "gone:fence").Result())
}

// Failures are reported as errors, never as a definite no.
func TestFailuresAreErrors(t *testing.T) {
	n, client := open(t)
	ctx := context.Background()
	if err := client.LPush(ctx, "list", "x").Err(); err != nil {
		t.Fatal(err)
	}
	if yes, err := n.Release(ctx, "list", "a"); err == nil || yes {
		t.Errorf("release a list: %v, %v; want an error", yes, err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for name, step := range map[string]func() (bool, error){
		"set":     func() (bool, error) { return n.Set(ctx, "k", "a", time.Second) },
		"extend":  func() (bool, error) { return n.Extend(ctx, "k", "a", time.Second) },
		"release": func() (bool, error) { return n.Release(ctx, "k", "a") },
		"raise":   func() (bool, error) { return n.RaiseFence(ctx, "k", "a", 1) },
		"set fenced": func() (bool, error) {
			count, err := n.SetFenced(ctx, "k", "a", time.Second)
			return count > 0, err
		},
	} {
		if yes, err := step(); err == nil || yes {
			t.Errorf("%s on a closed client: %v, %v; want an error", name, yes, err)
		}
	}
}

// Set recognizes all replies to SET in both versions of the protocol.
func TestRepliesToSet(t *testing.T) {
	addr := redistest.Start(t, 1)[0]
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			o := redisnode.Options(addr)
			o.Protocol = protocol
			client := redis.NewClient(o)
			t.Cleanup(func() { client.Close() })
			n, ctx := redisnode.New(client), t.Context()
			for _, c := range []struct {
				maxmemory string
				yes       bool
				err       string // prefix
			}{{"0", true, ""}, {"0", false, ""}, {"1", false, "OOM "}, {"0", false, ""}} {
				if err := client.ConfigSet(ctx, "maxmemory", c.maxmemory).Err(); err != nil {
					t.Fatal(err)
				}
				yes, err := n.Set(ctx, t.Name(), "a", time.Minute)
				if yes != c.yes || (err == nil) != (c.err == "") || err != nil && !redis.HasErrorPrefix(err, c.err) {
					t.Errorf("set with maxmemory %s: %v, %v; want %v, %q", c.maxmemory, yes, err, c.yes, c.err)
				}
			}
			if _, err := n.Set(ctx, t.Name()+"2", "a", 0); err == nil || !strings.Contains(err.Error(), "invalid expire") {
				t.Errorf("set with expiry 0: %v; want the node's error", err)
			}
		})
	}
}

// Any other reply to SET is an error.
func TestInvalidRepliesToSet(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answers := []string{":1\r\n", "+QUEUED\r\n", "$2\r\nOK\r\n", "*-1\r\n", "$-1\r\n"}
	go func() {
		for _, a := range answers {
			conn, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			defer conn.Close()
			io.WriteString(conn, "-ERR unknown command 'HELLO'\r\n") // the client sends HELLO first
			b := make([]byte, 4096)
			for n := 0; err == nil && !strings.Contains(string(b[:n]), "$3\r\nSET"); {
				n, err = conn.Read(b)
			}
			io.WriteString(conn, a)
		}
	}()
	for _, a := range answers {
		client := redis.NewClient(redisnode.Options(l.Addr().String()))
		defer client.Close()
		yes, err := redisnode.New(client).Set(t.Context(), "k", "a", time.Minute)
		no := a == "$-1\r\n"
		if yes || (err == nil) != no || !no && !strings.Contains(err.Error(), "the reply to SET") {
			t.Errorf("reply %q to SET: %v, %v", a, yes, err)
		}
	}
}

func TestRedlockOnRealNodes(t *testing.T) {
	var nodes []redlock.Node
	for _, addr := range redistest.Start(t, 3) {
		client := redis.NewClient(redisnode.Options(addr))
		t.Cleanup(func() { client.Close() })
		nodes = append(nodes, redisnode.New(client))
	}
	for _, sequential := range []bool{false, true} {
		t.Run(fmt.Sprintf("sequential=%v", sequential), func(t *testing.T) {
			c, err := redlock.Specification(redlock.Config{
				Nodes: nodes, TTL: time.Minute, Timeout: 10 * time.Second, Tries: 1, Fence: true, Sequential: sequential,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, key := context.Background(), t.Name()
			for want := int64(1); want <= 3; want++ {
				l, err := c.Acquire(ctx, key)
				if err != nil {
					t.Fatal(err)
				}
				if l.Fence() != want || l.Votes() != 3 {
					t.Errorf("lock %d: fence %d, %d votes; want %d and 3", want, l.Fence(), l.Votes(), want)
				}
				if other, err := c.Acquire(ctx, key); err == nil {
					t.Fatalf("a second client acquired the lock with token %v while it was held", other.Token())
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
}
