package rueidis

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"lockpick/harness/lock"
	"lockpick/redlock/redisnode/redistest"
)

func env(client string, addrs ...string) lock.Env {
	e := lock.Env{
		Client: client, Dial: (&net.Dialer{}).DialContext, After: time.After,
		Random: func(name string) uint64 { h := fnv.New64a(); io.WriteString(h, client+name); return h.Sum64() },
		Settings: lock.Settings{
			Kind: "rueidis", TTL: 2 * time.Second, Timeout: time.Second,
			RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond,
		},
	}
	for _, a := range addrs {
		e.Nodes = append(e.Nodes, lock.Node{Addr: a})
	}
	return e
}

const nodeKey = "rueidislock:0:k"

// waitFor waits until ch is closed, but at most 20 s.
func waitFor(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(20 * time.Second):
		t.Fatalf("timed out waiting for %s", what)
	}
}

// setups are the options that change the library's behavior.
var setups = map[string]map[string]string{"plain": nil, "caching": {"caching": "yes"}, "looping": {"caching": "yes", "no-loop": "no"}}

// In each setup with a real server, a waiting client gets the lock once it is released, the key
// lives as long as the lock is held, and the holder is notified if the key is deleted.
func TestSetupsOnRealServer(t *testing.T) {
	addr := redistest.Start(t, 1)[0]
	for name, options := range setups {
		t.Run(name, func(t *testing.T) {
			e1, e2 := env("c1", addr), env("c2", addr)
			e1.Settings.Options, e2.Settings.Options = options, options
			first, second := redistest.Open(t, New, e1), redistest.Open(t, New, e2)
			server, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			ctx := t.Context()
			h, err := first.Acquire(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			if ttl, err := server.Do(ctx, server.B().Pttl().Key(nodeKey).Build()).AsInt64(); err != nil || ttl < 1000 || ttl > 2000 {
				t.Errorf("%s expires in %d ms: %v", nodeKey, ttl, err)
			}
			if d := h.Deadline(); !d.IsZero() {
				t.Errorf("deadline %v, want none", d)
			}
			shortCtx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			if _, err := second.Acquire(shortCtx, "k"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("second client: %v, want its context's error", err)
			}
			acquired := make(chan struct{})
			var other lock.Handle
			go func() {
				defer close(acquired)
				// With client-side caching, a waiting client may miss the release and then wait
				// forever, so it retries.
				for err = context.DeadlineExceeded; errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil; {
					retryCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
					other, err = second.Acquire(retryCtx, "k")
					cancel()
				}
			}()
			if err := h.Release(ctx); !errors.Is(err, ErrUnknown) {
				t.Errorf("release: %v, want %v", err, ErrUnknown)
			}
			if waitFor(t, "the lock", acquired); err != nil {
				t.Fatal(err)
			}
			lost := other.(interface{ Lost() <-chan struct{} }).Lost()
			select {
			case <-lost:
				t.Error("the lock was lost immediately")
			default:
			}
			if err := server.Do(ctx, server.B().Del().Key(nodeKey).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the loss", lost)
			if err := other.Release(ctx); !errors.Is(err, errLost) {
				t.Errorf("release: %v, want %v", err, errLost)
			}
		})
	}
}

// The lock outlives its acquire's context, and the number of tries is limited.
func TestTriesAreLimited(t *testing.T) {
	e := env("c1", redistest.Start(t, 1)[0])
	e.Settings.Tries = 2
	l := redistest.Open(t, New, e)
	ctx, cancel := context.WithCancel(t.Context())
	h, err := l.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	lib := l.(*library)
	if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, rueidislock.ErrNotLocked) || lib.delayCount != 1 {
		t.Errorf("acquire of a held lock: %v after %d waits, want %v after one", err, lib.delayCount, rueidislock.ErrNotLocked)
	}
	if h.(*handle).lockCtx.Err() != nil {
		t.Error("the lock ended with the context of its acquire")
	}
}

// A client starts without delay if its node is unreachable, keeps dialing the node, and leaves no
// goroutines behind.
func TestUnreachableNodeIsFoundLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := env("c1", "10.0.0.1:6379")
		dials := 0
		e.Dial = func(context.Context, string, string) (net.Conn, error) {
			dials++
			return nil, errors.New("refused")
		}
		l, err := New(e)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if _, err := l.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error: %v, want the context's error", err)
		}
		// The library still tries to undo a possible set, until the key would have expired.
		if took := time.Since(start); took < 3*time.Second || took > 5*time.Second || dials < 5 {
			t.Errorf("gave up after %v and %d dials", took, dials)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
	})
}

// The client's retry delay is drawn by name and has the same length as the library's own.
func TestRetryDelay(t *testing.T) {
	var names []string
	l := &library{env: lock.Env{Random: func(name string) uint64 { names = append(names, name); return 1<<63 + 5 }}}
	for attempts, want := range map[int]time.Duration{0: 1 * time.Microsecond, 3: 13 * time.Microsecond, 30: time.Second} {
		if got := l.retryDelay(attempts, rueidis.Completed{}, nil); got != want {
			t.Errorf("after %d attempts: %v, want %v", attempts, got, want)
		}
	}
	if got := strings.Join(names, " "); got != "request/1 request/2 request/3" {
		t.Errorf("drawn: %s", got)
	}
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
		for _, options := range setups {
			e.Settings.Options = options
			if l, err := New(e); l != nil || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error: %v; want an error containing %q", err, want)
			}
		}
	}
}
