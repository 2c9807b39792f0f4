package single

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock/redisnode/redistest"
)

func env(addr, client string) lock.Env {
	return lock.Env{
		Client: client, Nodes: []lock.Node{{Name: "n1", Addr: addr}},
		Now: time.Now, After: time.After, Dial: (&net.Dialer{}).DialContext,
		Random: func(name string) uint64 { h := fnv.New64a(); io.WriteString(h, client+name); return h.Sum64() },
		Settings: lock.Settings{
			Kind: "single", TTL: 10 * time.Second, Timeout: 5 * time.Second,
			RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond, Tries: 1,
		},
	}
}

func TestClientsExcludeEachOther(t *testing.T) {
	addr := redistest.Start(t, 1)[0]
	first, second := redistest.Open(t, New, env(addr, "c1")), redistest.Open(t, New, env(addr, "c2"))
	server := redis.NewClient(&redis.Options{Addr: addr})
	defer server.Close()

	ctx, start := t.Context(), time.Now()
	h, err := first.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if d := h.Deadline().Sub(start); d < 9898*time.Millisecond || d > 12*time.Second {
		t.Errorf("deadline in %v, want 9.898s from the start", d)
	}
	token := h.(lock.Tokener).Token()
	if v, _ := server.Get(ctx, "k").Result(); v != token || len(v) != 40 {
		t.Errorf("value %q on the server, want the 20-byte token %q", v, token)
	}
	if ttl, _ := server.PTTL(ctx, "k").Result(); ttl < 5*time.Second || ttl > 10*time.Second {
		t.Errorf("the key's time to live is %v, want 10s", ttl)
	}
	if _, err := second.Acquire(ctx, "k"); !errors.Is(err, errTaken) {
		t.Errorf("second client: %v, want %v", err, errTaken)
	}
	deadline := h.Deadline()
	if err := h.(lock.Extender).Extend(ctx); err != nil || !h.Deadline().After(deadline) {
		t.Errorf("extend: %v, deadline moved %v", err, h.Deadline().Sub(deadline))
	}
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
	reacquired, err := second.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	for op, f := range map[string]func(context.Context) error{"release": h.Release, "extend": h.(lock.Extender).Extend} {
		if err := f(ctx); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("%s of another client's lock: %v, want %v", op, err, lock.ErrNotHeld)
		}
	}
	if v, _ := server.Get(ctx, "k").Result(); v != reacquired.(lock.Tokener).Token() || v == token {
		t.Errorf("value %q on the server after a late release, want the second client's token", v)
	}
}

func TestExtendLimit(t *testing.T) {
	e := env(redistest.Start(t, 1)[0], "c1")
	e.Settings.Extends = 1
	now := time.Now()
	e.Now = func() time.Time { return now }
	h, err := redistest.Open(t, New, e).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	extend := h.(lock.Extender).Extend
	if err := extend(t.Context()); err != nil {
		t.Error(err)
	}
	if err := extend(t.Context()); !errors.Is(err, errExtensionLimit) {
		t.Errorf("extension beyond the limit: %v", err)
	}
	now = h.Deadline()
	if err := extend(t.Context()); !errors.Is(err, errExpired) {
		t.Errorf("extension at the deadline: %v", err)
	}
}

// An attempt that takes longer than the lease fails and is undone.
func TestSlowAttemptIsUndone(t *testing.T) {
	addr := redistest.Start(t, 1)[0]
	e := env(addr, "c1")
	readings, start := 0, time.Now()
	e.Now = func() time.Time { readings++; return start.Add(time.Duration(readings) * 12 * time.Second) }
	if h, err := redistest.Open(t, New, e).Acquire(t.Context(), "k"); h != nil || !errors.Is(err, errExpired) {
		t.Errorf("acquire that took 12s: %v, %v", h, err)
	}
	server := redis.NewClient(&redis.Options{Addr: addr})
	defer server.Close()
	if n, err := server.Exists(t.Context(), "k").Result(); n != 0 || err != nil {
		t.Errorf("the failed attempt left %d keys, %v", n, err)
	}
}

// An unresponsive node costs one timeout for setting the key and one for undoing that, in virtual
// time.
func TestUnresponsiveNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := env("10.0.0.1:6379", "c1")
		e.Settings.Timeout, e.Settings.Tries = 50*time.Millisecond, 3
		e.Settings.RetryMin, e.Settings.RetryMax = 20*time.Millisecond, 20*time.Millisecond
		e.Dial = redistest.DialUnresponsive
		l, err := New(e)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := l.Acquire(context.Background(), "k"); !strings.Contains(fmt.Sprint(err), "no answer in time") {
			t.Errorf("error: %v, want a timeout", err)
		}
		if got, want := time.Since(start), (3*2*50+2*20)*time.Millisecond; got != want {
			t.Errorf("three attempts took %v, want %v", got, want)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		if _, err := l.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error: %v, want %v", err, context.DeadlineExceeded)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
	})
}

func TestRejectsInvalidSettings(t *testing.T) {
	for want, change := range map[string]func(*lock.Env){
		"set topology.nodes: 1": func(e *lock.Env) { e.Nodes = append(e.Nodes, e.Nodes...) },
		`use kind "broken"`:     func(e *lock.Env) { e.Settings.Mistake = "plain-del" },
		"remove fence":          func(e *lock.Env) { e.Settings.Fence = true },
		"only one node":         func(e *lock.Env) { e.Settings.Ask = "sequential" },
		"at most half the TTL":  func(e *lock.Env) { e.Settings.Timeout = 9 * time.Second },
	} {
		e := env("127.0.0.1:1", "c1")
		e.Settings.Kind = "failover"
		change(&e)
		l, err := New(e)
		if l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error: %v; want an error containing %q", err, want)
		}
		if err != nil && !strings.Contains(fmt.Sprint(err), "failover") && want != "at most half the TTL" {
			t.Errorf("the error does not mention the kind: %v", err)
		}
	}
}
