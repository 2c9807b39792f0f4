package wire_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/wire"
)

// Close waits for pending releases, and reports the nodes on which they stay pending. The synctest
// bubble detects leftover goroutines.
func TestCloseWaitsForPendingReleases(t *testing.T) {
	for name, c := range map[string]struct {
		back    time.Duration // time from the call of Close until the nodes read again
		took    time.Duration
		pending string
	}{
		"nodes that come back":      {2 * timeout, 2*timeout + timeout/8, ""},
		"nodes that stay away":      {time.Hour, 5 * timeout, "n1:1: 1 pending"},
		"nodes that answer in time": {0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(t *testing.T) {
				l, all, nodes := newLockerOnFakes(t)
				s, err := l.Acquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				hold := make(chan struct{})
				for _, f := range all {
					f.update(func() { f.resume = hold })
				}
				if c.back == 0 {
					close(hold)
				}
				s.Release(context.Background()) // no node answers before the timeout
				synctest.Wait()
				start := time.Now()
				if c.back > 0 {
					time.AfterFunc(c.back, func() {
						for _, f := range all {
							f.update(func() { f.resume = nil })
						}
						close(hold)
					})
				}
				err = l.Close()
				if elapsed := time.Since(start); elapsed < c.took-timeout/8 || elapsed > c.took+timeout {
					t.Errorf("took %v, want about %v", elapsed, c.took)
				}
				if c.pending != "" {
					if !errors.Is(err, redlock.ErrReleasesPending) || !strings.Contains(err.Error(), ": 1 pending") {
						t.Errorf("error: %v", err)
					}
				} else if err != nil {
					t.Errorf("error: %v", err)
				}
				for i, f := range all {
					f.update(func() {
						if c.pending == "" && len(f.keys) > 0 {
							t.Errorf("node %d still has %v", i+1, f.keys)
						}
					})
				}
				for _, n := range nodes {
					n.Close()
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// newLockerOnFakes returns a Locker on three nodes in memory.
func newLockerOnFakes(t *testing.T) (l *redlock.Locker, all []*fakeNode, nodes []*wire.Node) {
	cfg := redlock.Config{TTL: time.Minute, Timeout: timeout, Tries: 1}
	for i := range 3 {
		f := newFake(t)
		f.index = i
		n := f.node(nil)
		all, nodes, cfg.Nodes = append(all, f), append(nodes, n), append(cfg.Nodes, n)
	}
	l, err := redlock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l, all, nodes
}

// The dial timeout doubles after each failure, up to DialTimeout. When the node responds, it is
// reset to its initial value.
func TestDialTimeoutDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var elapsed []time.Duration
		n := wire.New(wire.Options{Addr: "n1", Timeout: 10 * time.Millisecond, DialTimeout: time.Second, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			start := time.Now()
			if len(elapsed) == 6 {
				elapsed = append(elapsed, 0)
				return nil, errors.New("refused")
			}
			<-ctx.Done()
			elapsed = append(elapsed, time.Since(start))
			return nil, ctx.Err()
		}})
		for range 1000 {
			if _, err := n.Set(t.Context(), "k", "v", time.Second); err == nil {
				t.Fatal("set succeeded without a connection")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		ms := time.Millisecond
		if want := []time.Duration{80 * ms, 160 * ms, 320 * ms, 640 * ms, time.Second, time.Second, 0, 80 * ms, 160 * ms}; len(elapsed) < len(want) || !slices.Equal(elapsed[:len(want)], want) {
			t.Errorf("took %v, want %v", elapsed, want)
		}
	})
}
