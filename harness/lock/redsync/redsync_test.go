package redsync

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock/redisnode/redistest"
)

func env(client string, addrs ...string) lock.Env {
	e := lock.Env{
		Client: client, Dial: (&net.Dialer{}).DialContext,
		Random: func(name string) uint64 { h := fnv.New64a(); io.WriteString(h, client+name); return h.Sum64() },
		Settings: lock.Settings{
			Kind: "redsync", TTL: 10 * time.Second, Timeout: 5 * time.Second,
			RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond, Tries: 1,
		},
	}
	for _, a := range addrs {
		e.Nodes = append(e.Nodes, lock.Node{Addr: a})
	}
	return e
}

func TestClientsExcludeEachOther(t *testing.T) {
	addrs := redistest.Start(t, 3)
	first, second := redistest.Open(t, New, env("c1", addrs...)), redistest.Open(t, New, env("c2", addrs...))
	server := redis.NewClient(&redis.Options{Addr: addrs[0]})
	defer server.Close()

	ctx, start := t.Context(), time.Now()
	h, err := first.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if d := h.Deadline().Sub(start); d < 9900*time.Millisecond || d > 12*time.Second {
		t.Errorf("deadline in %v, want 9.9s from the start", d)
	}
	if v, _ := server.Get(ctx, "k").Result(); v != h.(lock.Tokener).Token() || len(v) != 40 {
		t.Errorf("value %q on a node, want the lock's 20-byte token", v)
	}
	var taken *redsync.ErrTaken
	if _, err := second.Acquire(ctx, "k"); !errors.As(err, &taken) {
		t.Errorf("second client: %v, want an error that the lock is taken", err)
	}
	deadline := h.Deadline()
	if err := h.(lock.Extender).Extend(ctx); err != nil || !h.Deadline().After(deadline) {
		t.Errorf("extend: %v, deadline moved %v", err, h.Deadline().Sub(deadline))
	}
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
	for op, f := range map[string]func(context.Context) error{"release": h.Release, "extend": h.(lock.Extender).Extend} {
		if err := f(ctx); !errors.Is(err, lock.ErrNotHeld) {
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

// A node counts as a refusal if it answered no, but not if its answer is missing.
func TestMissingAnswersAreNotRefusals(t *testing.T) {
	noAnswer := &redsync.RedisError{Node: 1, Err: context.DeadlineExceeded}
	for want, err := range map[int]error{
		0: errors.Join(noAnswer, noAnswer),
		1: errors.Join(errors.Join(nil, redsync.ErrLockAlreadyExpired), noAnswer),
		2: errors.Join(errors.Join(&redsync.ErrNodeTaken{}, noAnswer), redsync.ErrLockAlreadyExpired),
		3: &redsync.ErrTaken{Nodes: []int{0, 2, 4}},
	} {
		if got := countRefusals(err); got != want {
			t.Errorf("%v: %d refusals, want %d", err, got, want)
		}
	}
}

// Errors must not depend on which node answered first.
func TestErrorsAreSorted(t *testing.T) {
	a, b := &redsync.RedisError{Node: 1, Err: io.EOF}, &redsync.RedisError{Node: 4, Err: os.ErrDeadlineExceeded}
	first, second := sortErrors(errors.Join(errors.Join(nil, b), a)), sortErrors(errors.Join(errors.Join(nil, a), b))
	if first.Error() != second.Error() || !errors.Is(first, io.EOF) || !errors.Is(first, os.ErrDeadlineExceeded) {
		t.Errorf("the same errors in another order: %q and %q", first, second)
	}
	if sortErrors(nil) != nil {
		t.Error("sortErrors(nil) is not nil")
	}
}

// Unresponsive nodes cost one timeout for setting the key and one for undoing that, in virtual
// time, and no goroutines are left behind. Every draw has its own name.
func TestUnresponsiveNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := env("c1", "10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379")
		var names []string
		e.Random = func(name string) uint64 { names = append(names, name); return 0 }
		e.Settings.Timeout, e.Settings.Tries = 50*time.Millisecond, 3
		e.Settings.RetryMin, e.Settings.RetryMax = 20*time.Millisecond, 20*time.Millisecond
		e.Dial = redistest.DialUnresponsive
		l, err := New(e)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := l.Acquire(context.Background(), "k"); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error: %v, want %v", err, os.ErrDeadlineExceeded)
		}
		if got, want := time.Since(start), (3*2*50+2*20)*time.Millisecond; got != want {
			t.Errorf("three attempts took %v, want %v", got, want)
		}
		if want := strings.Fields("token/1/0 token/1/1 token/1/2 retry/1 retry/2"); !slices.Equal(names, want) {
			t.Errorf("drawn: %v\nwant:  %v", names, want)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 120*time.Millisecond)
		defer cancel()
		if _, err := l.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error: %v, want the context's", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
	})
}

// With an unresponsive node, the driver determines how long an acquire takes. With the driver's
// defaults, the library's timeout has no effect.
func TestDriverOptionsLimitAcquire(t *testing.T) {
	for name, c := range map[string]struct {
		options map[string]string
		want    time.Duration
	}{
		"New":            {nil, 100 * time.Millisecond},
		"Defaults":       {map[string]string{"driver": "defaults"}, 3 * time.Second},
		"ContextTimeout": {map[string]string{"driver": "context-timeout"}, 100 * time.Millisecond},
		"FailFast":       {map[string]string{"fail-fast": "yes"}, 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := env("c1", "10.0.0.1:6379")
			e.Settings.Timeout, e.Settings.Options = 50*time.Millisecond, c.options
			e.Dial = redistest.DialUnresponsive
			l, err := New(e)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if _, err := l.Acquire(context.Background(), "k"); err == nil {
				t.Error("acquired a lock from an unresponsive node")
			}
			elapsed := time.Since(start)
			if name == "Defaults" && elapsed < c.want || name != "Defaults" && elapsed != c.want {
				t.Errorf("%s: took %v, want %v", name, elapsed, c.want)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		})
	}
}

// FailFast doesn't wait for an unresponsive node, and SetNXOnExtend restores a missing key.
func TestOptionsChangeBehavior(t *testing.T) {
	addrs := redistest.Start(t, 2)
	e := env("c1", addrs...)
	e.Settings.Timeout = time.Second
	e.Nodes = append(e.Nodes, lock.Node{Addr: "10.0.0.9:6379"})
	dial := e.Dial
	e.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != "10.0.0.9:6379" {
			return dial(ctx, network, addr)
		}
		return redistest.DialUnresponsive(ctx, network, addr)
	}
	for name, option := range map[string]string{"FailFast": "fail-fast", "SetNXOnExtend": "set-nx-on-extend"} {
		if name == "SetNXOnExtend" {
			e = env("c1", addrs...)
		}
		e.Settings.Options = map[string]string{option: "yes"}
		l, err := New(e)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		h, err := l.Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took >= e.Settings.Timeout {
			t.Errorf("%s: took %v, as long as a request's timeout", name, took)
		}
		server := redis.NewClient(&redis.Options{Addr: addrs[0]})
		defer server.Close()
		if err := server.Del(t.Context(), name).Err(); err != nil {
			t.Fatal(err)
		}
		err = h.(lock.Extender).Extend(t.Context())
		if n := server.Exists(t.Context(), name).Val(); (n == 1) != (name == "SetNXOnExtend") || (err == nil) != (name == "SetNXOnExtend") {
			t.Errorf("%s: extending with one of two keys missing: %v, then %d missing keys exist", name, err, n)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRejectsInvalidSettings(t *testing.T) {
	for want, change := range map[string]func(*lock.Env){
		"no nodes: specify at least one":   func(e *lock.Env) { e.Nodes = nil },
		`use "multiplexed"`:                func(e *lock.Env) { e.Settings.Ask = "sequential" },
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
