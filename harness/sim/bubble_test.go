package sim

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
)

func TestRunErrors(t *testing.T) {
	bodyErr := errors.New("oops")
	for name, tt := range map[string]struct {
		body harness.Body
		want string
	}{
		"error":    {func(context.Context, harness.Cluster) error { return bodyErr }, "oops"},
		"panic":    {func(context.Context, harness.Cluster) error { panic("ouch") }, "panic: ouch"},
		"goexit":   {func(context.Context, harness.Cluster) error { runtime.Goexit(); return nil }, "Goexit"},
		"deadlock": {func(context.Context, harness.Cluster) error { <-make(chan int); return nil }, "deadlock"},
		"left behind": {func(context.Context, harness.Cluster) error {
			go func() { <-make(chan int) }()
			return bodyErr
		}, "deadlock"},
		"client panics": {func(_ context.Context, c harness.Cluster) error {
			return c.(*cluster).runOneClient(func(context.Context, client.Env) error { panic("ouch") })
		}, "client c1: panic: ouch"},
		"unknown client": {func(_ context.Context, c harness.Cluster) error {
			return c.(*cluster).run(context.Background(), "c9", nil, nil)
		}, "no such client"},
		"unknown lock": {func(_ context.Context, c harness.Cluster) error {
			return c.RunClient(context.Background(), client.Spec{Name: "c1", Lock: lock.Settings{Kind: "x"}}, nil)
		}, `no lock of kind "x"`},
	} {
		err := New(nil).Run(context.Background(), testScenario(1, 1), 1, history.NewRecorder(io.Discard), tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "left behind" && !errors.Is(err, bodyErr) {
			t.Errorf("%s: the body's error was lost: %v", name, err)
		}
	}
}

func TestRunRejectsUnsupported(t *testing.T) {
	s := testScenario(1, 1)
	s.Topology.Persistence = "everyday"
	err := New(nil).Run(context.Background(), s, 1, history.NewRecorder(io.Discard), nil)
	if err == nil || !strings.Contains(err.Error(), `persistence "everyday"`) {
		t.Errorf("persistence: %v", err)
	}
	s = testScenario(1, 1)
	s.Topology.Replicas = 2
	err = New(nil).Run(context.Background(), s, 1, history.NewRecorder(io.Discard), nil)
	if err == nil || !strings.Contains(err.Error(), "2 replicas") {
		t.Errorf("replicas: %v", err)
	}
	err = New(nil).Run(context.Background(), testScenario(100, 100), 1, history.NewRecorder(io.Discard), nil)
	if err == nil || !strings.Contains(err.Error(), "use at most 10 clients") {
		t.Errorf("too many links: %v", err)
	}
}

// A run must wait for the timeline's goroutine before it ends: virtual time stops when the bubble's
// main function returns, and a goroutine waiting for a later time would never wake up.
func TestRunWaitsForTimeline(t *testing.T) {
	for range 300 {
		simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
			c.At(time.Hour, func() {})
			return nil
		})
	}
}

func TestVirtualTimeIsExact(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		if c.Now() != 0 {
			t.Errorf("the run starts at %v, want 0", c.Now())
		}
		var mu sync.Mutex
		var times []time.Duration
		done := make(chan struct{})
		for range 3 {
			c.At(time.Hour, func() {
				mu.Lock()
				defer mu.Unlock()
				times = append(times, c.Now())
				if len(times) == 3 {
					close(done)
				}
			})
		}
		<-done
		for i, got := range times {
			if d := got - time.Hour; d < 0 || d > 4*quantum || i > 0 && got <= times[i-1] {
				t.Errorf("called at %v", times)
			}
		}
		return nil
	})
}
