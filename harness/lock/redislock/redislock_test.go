package redislock

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock/redisnode/redistest"
)

func env(client string, addrs ...string) lock.Env {
	e := lock.Env{
		Client: client, Dial: (&net.Dialer{}).DialContext,
		Random: func(name string) uint64 { h := fnv.New64a(); io.WriteString(h, client+name); return h.Sum64() },
		Settings: lock.Settings{
			Kind: "redislock", TTL: 10 * time.Second, Timeout: 5 * time.Second,
			RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond, Tries: 2,
		},
	}
	for _, a := range addrs {
		e.Nodes = append(e.Nodes, lock.Node{Addr: a})
	}
	return e
}

func TestClientsExcludeEachOther(t *testing.T) {
	addr := redistest.Start(t, 1)[0]
	first, second := redistest.Open(t, New, env("c1", addr)), redistest.Open(t, New, env("c2", addr))
	server := redis.NewClient(&redis.Options{Addr: addr})
	defer server.Close()

	ctx, start := t.Context(), time.Now()
	h, err := first.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	ttl, _ := server.PTTL(ctx, "k").Result()
	if d := h.Deadline().Sub(start); d < 9*time.Second || h.Deadline().After(time.Now().Add(ttl)) {
		t.Errorf("deadline in %v, after the key expires in %v", d, ttl)
	}
	if v, _ := server.Get(ctx, "k").Result(); v != h.(lock.Tokener).Token() || len(v) != 40 {
		t.Errorf("value %q on the node, want the lock's 20-byte token", v)
	}
	if _, err := second.Acquire(ctx, "k"); !errors.Is(err, redislock.ErrNotObtained) {
		t.Errorf("second client: %v, want %v", err, redislock.ErrNotObtained)
	}
	deadline := h.Deadline()
	if err := h.(lock.Extender).Extend(ctx); err != nil || !h.Deadline().After(deadline) {
		t.Errorf("extend: %v, deadline moved %v", err, h.Deadline().Sub(deadline))
	}
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
	deadline = h.Deadline()
	for op, f := range map[string]func(context.Context) error{"release": h.Release, "extend": h.(lock.Extender).Extend} {
		if err := f(ctx); !errors.Is(err, lock.ErrNotHeld) || h.Deadline() != deadline {
			t.Errorf("%s of a missing key: %v, want %v", op, err, lock.ErrNotHeld)
		}
	}
	if _, err := second.Acquire(ctx, "k"); err != nil {
		t.Error(err)
	}
	if err := h.Release(ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("release of another client's lock: %v, want %v", err, lock.ErrNotHeld)
	}
}

// scriptedNode returns a dial function for a node that answers each EVALSHA with the next reply,
// after the given virtual time.
func scriptedNode(delay time.Duration, replies ...string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, node := net.Pipe()
		go func() {
			buf := make([]byte, 4096)
			for {
				n, err := node.Read(buf)
				if err != nil {
					return
				}
				if request := strings.ToLower(string(buf[:n])); !strings.Contains(request, "evalsha") {
					io.WriteString(node, strings.Repeat("-ERR unknown command\r\n", strings.Count(request, "*")))
					continue
				}
				if len(replies) == 0 {
					continue // no more answers
				}
				time.Sleep(delay)
				reply := replies[0]
				replies = replies[1:]
				io.WriteString(node, reply)
			}
		}()
		return client, nil
	}
}

// The deadline counts from the earliest possible start of the successful try. Each draw has its own
// name, and a failed request ends a try.
func TestDeadlineAndDrawNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := env("c1", "10.0.0.1:6379")
		var names []string
		e.Random = func(name string) uint64 { names = append(names, name); return 0 }
		e.Settings.Timeout, e.Settings.Tries, e.Settings.Drift = 50*time.Millisecond, 0, 0.01
		e.Settings.RetryMin, e.Settings.RetryMax = 20*time.Millisecond, 20*time.Millisecond
		e.Dial = scriptedNode(10*time.Millisecond, "$-1\r\n", "$-1\r\n", "+OK\r\n")
		l := redistest.Open(t, New, e)
		start := time.Now()
		h, err := l.Acquire(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := h.Deadline().Sub(start), 2*(10+20)*time.Millisecond+10*time.Second-100*time.Millisecond-2*time.Millisecond; got != want {
			t.Errorf("deadline %v after the start, want %v", got, want)
		}
		if want := strings.Fields("token/1/0 token/1/1 token/1/2 retry/1 retry/2"); !slices.Equal(names, want) {
			t.Errorf("drawn: %v\nwant:  %v", names, want)
		}
		start = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 180*time.Millisecond)
		defer cancel()
		if _, err := l.Acquire(ctx, "k"); err == nil || time.Since(start) != 180*time.Millisecond {
			t.Errorf("unresponsive node: %v after %v, want an error when the context has ended", err, time.Since(start))
		}
		// Either its own timeout or the context may end the last try.
		if want := strings.Fields("token/2/0 token/2/1 token/2/2 retry/3 token/3/0 token/3/1 token/3/2 retry/4"); len(names) < 13 || !slices.Equal(names[5:13], want) {
			t.Errorf("drawn: %v\nwant:  %v", names[5:], want)
		}
		time.Sleep(10 * time.Second)
	})
}

func TestRejectsInvalidSettings(t *testing.T) {
	for want, change := range map[string]func(*lock.Env){
		"has no node: specify one":         func(e *lock.Env) { e.Nodes = nil },
		"it has only one node":             func(e *lock.Env) { e.Settings.Ask = "sequential" },
		`use kind "broken"`:                func(e *lock.Env) { e.Settings.Mistake = "plain-del" },
		"no fencing tokens: remove":        func(e *lock.Env) { e.Settings.Fence = true },
		"can't limit extensions: remove e": func(e *lock.Env) { e.Settings.Extends = 3 },
	} {
		e := env("c1", "127.0.0.1:1")
		change(&e)
		if l, err := New(e); l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error: %v; want an error containing %q", err, want)
		}
	}
}
