package redlock

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/resp"
	"lockpick/redlock/redisnode/redistest"
)

// recordingConn is a connection that parses the bytes sent on it, as the simulation's links do.
type recordingConn struct {
	net.Conn
	stream   *resp.Stream
	recorder *recorder
}

// recorder collects the lock commands sent on all connections.
type recorder struct {
	mu       sync.Mutex
	scripts  resp.Scripts
	commands []*resp.Command
}

func (w *recorder) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &recordingConn{conn, resp.NewStream(&w.scripts), w}, nil
}

func (t *recordingConn) Write(b []byte) (int, error) {
	t.recorder.mu.Lock()
	t.stream.Request(b, 1)
	t.recorder.mu.Unlock()
	return t.Conn.Write(b)
}

func (t *recordingConn) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	for _, c := range t.stream.Reply(b[:n], 2) {
		if c.Op != "" {
			t.recorder.commands = append(t.recorder.commands, c)
		}
	}
	return n, err
}

// events returns the events of all commands recorded since the last call.
func (w *recorder) events() []history.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []history.Event
	for _, c := range w.commands {
		for _, e := range c.Events(nil, "", "") {
			out = append(out, history.Event{Op: e.Op, Type: e.Type, Key: e.Key, Token: e.Token, TTL: e.TTL, Fence: e.Fence})
		}
	}
	w.commands = nil
	return out
}

// In each step, the lock sends one message to each node, and the history parses it correctly.
func TestOneMessagePerNodeAndStep(t *testing.T) {
	for _, fence := range []bool{false, true} {
		addrs := redistest.Start(t, 1)
		w := &recorder{}
		e := env(addrs, &drawRecorder{})
		e.Dial, e.Settings.Fence = w.dial, fence
		l := redistest.Open(t, New, e)
		checkEvents := func(step string, events ...history.Event) {
			t.Helper()
			if got := w.events(); !slices.Equal(got, events) {
				t.Errorf("fence %v, %s:\ngot  %+v\nwant %+v", fence, step, got, events)
			}
		}
		ctx, ttl, count := context.Background(), int64(10*time.Second), int64(0)
		if fence {
			count = 1
		}
		h, err := l.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		token := h.(lock.Tokener).Token()
		checkEvents("acquire", history.Event{Op: history.OpSet, Type: history.OK, Key: "k", Token: token, TTL: ttl, Fence: count})

		if _, err := l.Acquire(ctx, "k"); err == nil {
			t.Error("the lock was acquired twice")
		}
		w.mu.Lock()
		other := w.commands[0].Token
		w.mu.Unlock()
		checkEvents("acquire of a taken lock", history.Event{Op: history.OpSet, Type: history.Fail, Key: "k", Token: other, TTL: ttl},
			history.Event{Op: history.OpRelease, Type: history.Fail, Key: "k", Token: other})

		if err := h.(lock.Extender).Extend(ctx); err != nil {
			t.Error(err)
		}
		checkEvents("extend", history.Event{Op: history.OpExtend, Type: history.OK, Key: "k", Token: token, TTL: ttl})

		if err := h.Release(ctx); err != nil {
			t.Error(err)
		}
		checkEvents("release", history.Event{Op: history.OpRelease, Type: history.OK, Key: "k", Token: token})
	}
}

// A node whose count is behind receives the fencing token.
func TestTokenIsWrittenBack(t *testing.T) {
	addrs, ctx := redistest.Start(t, 2), context.Background()
	aheadNode := redis.NewClient(&redis.Options{Addr: addrs[0]})
	defer aheadNode.Close()
	if err := aheadNode.Set(ctx, "k:fence", 6, 0).Err(); err != nil {
		t.Fatal(err)
	}
	w := &recorder{}
	e := env(addrs, &drawRecorder{})
	e.Dial, e.Settings.Fence, e.Settings.Ask = w.dial, true, "sequential"
	h, err := redistest.Open(t, New, e).Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	token, ttl := h.(lock.Tokener).Token(), int64(10*time.Second)
	want := []history.Event{
		{Op: history.OpSet, Type: history.OK, Key: "k", Token: token, TTL: ttl, Fence: 7},
		{Op: history.OpSet, Type: history.OK, Key: "k", Token: token, TTL: ttl, Fence: 1},
		{Op: history.OpFence, Type: history.OK, Key: "k", Token: token, Fence: 7},
	}
	if got := w.events(); !slices.Equal(got, want) || h.(lock.Fencer).Fence() != 7 {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
