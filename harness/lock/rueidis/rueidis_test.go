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

const key = "rueidislock:0:k"

// soon waits for a channel for as long as a test may take.
func soon(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(20 * time.Second):
		t.Fatal(what, "has not come")
	}
}

// setups are the options by which the library does something else.
var setups = map[string]map[string]string{"plain": nil, "caching": {"caching": "yes"}, "looping": {"caching": "yes", "no-loop": "no"}}

// On a real server, each set-up: who waits gets the lock when it is given back, the key lives
// for as long as the lock is held, and the holder is told that somebody deleted it.
func TestSetups(t *testing.T) {
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
			if left, err := server.Do(ctx, server.B().Pttl().Key(key).Build()).AsInt64(); err != nil || left < 1000 || left > 2000 {
				t.Errorf("%s expires in %d ms: %v", key, left, err)
			}
			if d := h.Deadline(); !d.IsZero() {
				t.Errorf("deadline %v, want none", d)
			}
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			if _, err := second.Acquire(short, "k"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("second client: %v, want the end of its context", err)
			}
			got := make(chan struct{})
			var other lock.Handle
			go func() {
				defer close(got)
				// With client-side caching who waits may miss the release, and then waits for ever: it asks again.
				for err = context.DeadlineExceeded; errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil; {
					again, cancel := context.WithTimeout(ctx, 2*time.Second)
					other, err = second.Acquire(again, "k")
					cancel()
				}
			}()
			if err := h.Release(ctx); !errors.Is(err, ErrUnknown) {
				t.Errorf("release: %v, want %v", err, ErrUnknown)
			}
			if soon(t, "the lock", got); err != nil {
				t.Fatal(err)
			}
			lost := other.(interface{ Lost() <-chan struct{} }).Lost()
			select {
			case <-lost:
				t.Error("it is lost at once")
			default:
			}
			if err := server.Do(ctx, server.B().Del().Key(key).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			soon(t, "the loss", lost)
			if err := other.Release(ctx); !errors.Is(err, errLost) {
				t.Errorf("release: %v, want %v", err, errLost)
			}
		})
	}
}

// The lock outlives the context that it was acquired with, and so many tries are made.
func TestTries(t *testing.T) {
	e := env("c1", redistest.Start(t, 1)[0])
	e.Settings.Tries = 2
	l := redistest.Open(t, New, e)
	ctx, cancel := context.WithCancel(t.Context())
	h, err := l.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	waits := l.(*library)
	if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, rueidislock.ErrNotLocked) || waits.waits != 1 {
		t.Errorf("a held lock: %v after %d waits, want %v after one", err, waits.waits, rueidislock.ErrNotLocked)
	}
	if h.(*handle).holding.Err() != nil {
		t.Error("the lock ended with the context of its acquire")
	}
}

// A node that can't be reached costs nothing when a client begins, and is found when it can
// be; and nothing is left running.
func TestLateNode(t *testing.T) {
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
			t.Errorf("error: %v, want the end of the context", err)
		}
		// The library still tries to undo what it may have done, until the key would have expired.
		if took := time.Since(start); took < 3*time.Second || took > 5*time.Second || dials < 5 {
			t.Errorf("it gave up after %v and %d dials", took, dials)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
	})
}

// What is random in the client is drawn by name, and is as long as the library's own.
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

func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*lock.Env){
		"has no node: give one":           func(e *lock.Env) { e.Nodes = nil },
		"it has one node to ask":          func(e *lock.Env) { e.Settings.Ask = "sequential" },
		"that is for kind broken":         func(e *lock.Env) { e.Settings.Mistake = "plain-del" },
		"no fencing tokens: leave":        func(e *lock.Env) { e.Settings.Fence = true },
		"no limit of extensions: leave e": func(e *lock.Env) { e.Settings.Extends = 3 },
	} {
		e := env("c1", "127.0.0.1:1")
		change(&e)
		for _, options := range setups {
			e.Settings.Options = options
			if l, err := New(e); l != nil || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error: %v; want one with %q", err, want)
			}
		}
	}
}
