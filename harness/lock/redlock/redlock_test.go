package redlock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/lock"
	"lockpick/redlock"
	"lockpick/redlock/redisnode/redistest"
)

// drawRecorder records the names of all draws.
type drawRecorder struct {
	mu    sync.Mutex
	names []string
}

func (d *drawRecorder) random(name string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = append(d.names, name)
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// env returns an environment with real nodes. Its timeouts are long because no test waits for a
// timeout to pass.
func env(addrs []string, d *drawRecorder) lock.Env {
	e := lock.Env{
		Client: "c1", Now: time.Now, After: time.After, Random: d.random,
		Dial: (&net.Dialer{}).DialContext,
		Settings: lock.Settings{
			Kind: "redlock", TTL: 10 * time.Second, Timeout: 5 * time.Second,
			RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond, Tries: 1,
		},
	}
	for i, a := range addrs {
		e.Nodes = append(e.Nodes, lock.Node{Name: fmt.Sprintf("n%d", i+1), Addr: a})
	}
	return e
}

func TestClientsExcludeEachOther(t *testing.T) {
	addrs := redistest.Start(t, 3)
	firstDraws, secondDraws := &drawRecorder{}, &drawRecorder{}
	first := redistest.Open(t, New, env(addrs, firstDraws))
	e := env(addrs, secondDraws)
	e.Random = func(name string) uint64 { return secondDraws.random("c2/" + name) }
	second := redistest.Open(t, New, e)

	ctx, start := context.Background(), time.Now()
	h, err := first.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if d := h.Deadline().Sub(start); d < 9898*time.Millisecond || d > 12*time.Second {
		t.Errorf("deadline in %v, want 9.898s from the start", d)
	}
	if _, err := second.Acquire(ctx, "k"); !errors.Is(err, redlock.ErrTaken) || !strings.Contains(err.Error(), "n2 refused") {
		t.Errorf("second client: %v; want ErrTaken and the nodes that refused", err)
	}
	if err := h.(lock.Extender).Extend(ctx); err != nil {
		t.Error(err)
	}
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := h.Release(ctx); !errors.Is(err, lock.ErrNotHeld) || !errors.Is(err, redlock.ErrLost) {
		t.Errorf("second release: %v, want %v", err, lock.ErrNotHeld)
	}
	if err := h.(lock.Extender).Extend(ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("extension after release: %v, want %v", err, lock.ErrNotHeld)
	}
	if h, err = second.Acquire(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if fence := h.(lock.Fencer).Fence(); fence != 0 {
		t.Errorf("fencing token %d, want none", fence)
	}
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
}

func TestFencingTokensIncrease(t *testing.T) {
	e := env(redistest.Start(t, 3), &drawRecorder{})
	e.Settings.Fence = true
	l := redistest.Open(t, New, e)
	for want := int64(1); want <= 3; want++ {
		h, err := l.Acquire(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if got := h.(lock.Fencer).Fence(); got != want {
			t.Errorf("fencing token %d, want %d", got, want)
		}
		if err := h.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// Every draw has its own name, so that a run can be repeated.
func TestDrawsHaveDistinctNames(t *testing.T) {
	addrs := redistest.Start(t, 1)
	var tokens []string
	for range 2 {
		d := &drawRecorder{}
		e := env(addrs, d)
		e.Settings.Tries = 2
		l := redistest.Open(t, New, e)
		h, err := l.Acquire(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(context.Background(), "k"); !errors.Is(err, redlock.ErrTaken) {
			t.Errorf("error: %v, want %v", err, redlock.ErrTaken)
		}
		if err := h.Release(context.Background()); err != nil {
			t.Error(err)
		}
		want := strings.Fields("token/1/0 token/1/1 token/1/2 token/2/0 token/2/1 token/2/2 retry/1/0 token/3/0 token/3/1 token/3/2")
		if !slices.Equal(d.names, want) {
			t.Errorf("drawn: %v\nwant:  %v", d.names, want)
		}
		tokens = append(tokens, h.(lock.Tokener).Token())
	}
	if tokens[0] != tokens[1] || len(tokens[0]) != 40 {
		t.Errorf("tokens in two runs: %v; want equal 20-byte tokens", tokens)
	}
}

func TestCanceledAcquireFails(t *testing.T) {
	l := redistest.Open(t, New, env(redistest.Start(t, 1), &drawRecorder{}))
	for _, c := range []struct {
		end  func() (context.Context, context.CancelFunc)
		want error
	}{
		{func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return ctx, cancel
		}, context.Canceled},
		{func() (context.Context, context.CancelFunc) {
			return context.WithDeadline(context.Background(), time.Now())
		}, context.DeadlineExceeded},
	} {
		ctx, cancel := c.end()
		if _, err := l.Acquire(ctx, "k"); !errors.Is(err, c.want) {
			t.Errorf("error: %v, want %v", err, c.want)
		}
		cancel()
	}
}

func TestRejectsInvalidSettings(t *testing.T) {
	for want, change := range map[string]func(*lock.Env){
		"no nodes: need at least one": func(e *lock.Env) { e.Nodes = nil },
		`use "multiplexed" or "sequential"`: func(e *lock.Env) {
			e.Settings.Ask = "politely"
		},
		`use kind "broken"`:    func(e *lock.Env) { e.Settings.Mistake = "plain-del" },
		"at most half the TTL": func(e *lock.Env) { e.Settings.Timeout = 9 * time.Second },
	} {
		e := env([]string{"127.0.0.1:1"}, &drawRecorder{})
		change(&e)
		if l, err := New(e); l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error: %v; want an error containing %q", err, want)
		}
	}
}

// A client that relies on the lease's context either watches it from the start or doesn't request
// it until it needs to check it.
func TestContextOption(t *testing.T) {
	addrs := redistest.Start(t, 1)
	for option, want := range map[string]struct{ hasNotifier, hasContext bool }{
		"": {true, false}, "no": {true, false}, "taken": {true, true}, "late": {false, true},
	} {
		e := env(addrs, &drawRecorder{})
		e.Settings.Options = map[string]string{"context": option}
		l, err := Hardened(e)
		if err != nil {
			t.Fatal(err)
		}
		h, err := l.Acquire(t.Context(), "k"+option)
		if err != nil {
			t.Fatal(err)
		}
		_, isNotifier := h.(lock.LossNotifier)
		c, hasContext := h.(lock.ContextHandle)
		if isNotifier != want.hasNotifier || hasContext != want.hasContext || hasContext && c.Context().Err() != nil {
			t.Errorf("option %q: loss notifier %v, context handle %v, want %+v and a context that has not ended", option, isNotifier, hasContext, want)
		}
		if err := errors.Join(h.Release(t.Context()), l.Close()); err != nil {
			t.Error(err)
		}
		if hasContext && c.Context().Err() == nil {
			t.Errorf("option %q: the context is not canceled after the release", option)
		}
	}
}

// The option late-timers delays the lock's timers by half a TTL.
func TestOptionDelaysTimers(t *testing.T) {
	e := env(redistest.Start(t, 1), &drawRecorder{})
	e.Settings.Options = map[string]string{"late-timers": "yes", "context": "taken"}
	timers := make(chan time.Duration, 100)
	e.After = func(d time.Duration) <-chan time.Time { timers <- d; return nil }
	l, err := Hardened(e)
	if err != nil {
		t.Fatal(err)
	}
	h, err := l.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	h.(lock.ContextHandle).Context()
	for d := range timers { // the last timer is the context's
		if d < e.Settings.TTL/2 {
			t.Errorf("unexpected timer of %v", d)
		}
		if d > e.Settings.TTL {
			break
		}
	}
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
