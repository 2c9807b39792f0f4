package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
)

var errIdle = errors.New("it met nothing")

// pair is a caller and its server, joined by pipes.
func pair(t *testing.T, s *Server, notice func(string, json.RawMessage)) (c *Caller, end func()) {
	t.Helper()
	in, ask := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(in, out)
		out.Close()
	}()
	end = func() { ask.Close() }
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return NewCaller(ask, answers, s.Errors, notice), end
}

func TestCalls(t *testing.T) {
	release := make(chan struct{})
	var noticed []string
	s := &Server{Errors: Errors{"idle": errIdle}}
	s.Handlers = map[string]Handler{
		"twice": Handle(func(n int) (int, error) { return 2 * n, nil }),
		"wait":  Handle(func(struct{}) (any, error) { <-release; return nil, nil }),
		"go":    Handle(func(struct{}) (any, error) { s.Notify("gone", "on"); close(release); return nil, nil }),
		"idle":  Handle(func(struct{}) (string, error) { return "all well", fmt.Errorf("unshape c1-n1: %w", errIdle) }),
	}
	c, end := pair(t, s, func(n string, v json.RawMessage) { noticed = append(noticed, n+string(v)) })
	ctx := t.Context()

	var four int
	if err := c.Call(ctx, "twice", 2, &four); err != nil || four != 4 {
		t.Errorf("twice 2 is %d, %v", four, err)
	}
	waited := make(chan error, 1)
	go func() { waited <- c.Call(ctx, "wait", struct{}{}, nil) }()
	if err := c.Call(ctx, "go", struct{}{}, nil); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil { // it did not keep the other waiting
		t.Error(err)
	}
	if fmt.Sprint(noticed) != `[gone"on"]` {
		t.Errorf("noticed %v", noticed)
	}

	var back string
	err := c.Call(ctx, "idle", struct{}{}, &back)
	if back != "all well" || !errors.Is(err, errIdle) || err.Error() != "unshape c1-n1: it met nothing" {
		t.Errorf("idle is %q, %v", back, err)
	}
	if err := c.Call(ctx, "twice", "x", nil); err == nil || errors.Is(err, errIdle) {
		t.Errorf("arguments of another type: %v", err)
	}
	if err := c.Call(ctx, "none", nil, nil); err == nil || err.Error() != `there is no call "none"` {
		t.Errorf("unknown call: %v", err)
	}

	end()
	<-c.Ended()
	if err := c.Call(ctx, "twice", 2, &four); !errors.Is(err, ErrGone) {
		t.Errorf("after its end: %v", err)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	s := &Server{Handlers: map[string]Handler{"wait": Handle(func(struct{}) (any, error) { <-release; return nil, nil })}}
	c, _ := pair(t, s, func(string, json.RawMessage) {})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := c.Call(ctx, "wait", struct{}{}, nil); !errors.Is(err, why) {
		t.Error(err)
	}
	close(release)
}
