package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"lockpick/nemesis"
)

// newPair returns a caller that is connected to the server by pipes.
func newPair(t *testing.T, s *CallServer, noticeTarget any) (c *Caller, end func()) {
	t.Helper()
	in, calls := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(in, out)
		out.Close()
	}()
	end = func() { calls.Close() }
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return NewCaller(calls, answers, noticeTarget), end
}

// testMethods has the methods that the tests call.
type testMethods struct {
	s       *CallServer
	release chan struct{}
}

func (*testMethods) Twice(n int) int { return 2 * n }
func (m *testMethods) Wait()         { <-m.release }
func (m *testMethods) Go()           { m.s.notify("Gone", "on"); close(m.release) }
func (*testMethods) Idle() (string, int, error) {
	return "all well", 7, fmt.Errorf("remove shape from c1-n1: %w", nemesis.ErrIdle)
}

// noticeRecorder has the method that notices call.
type noticeRecorder struct{ notices []string }

func (h *noticeRecorder) Gone(how string) { h.notices = append(h.notices, "gone "+how) }

func TestCalls(t *testing.T) {
	recorder := &noticeRecorder{}
	s := &CallServer{}
	m := &testMethods{s, make(chan struct{})}
	s.Targets = func() []any { return []any{recorder, m} } // m gets the calls for which heard has no method
	c, end := newPair(t, s, recorder)
	ctx := t.Context()

	var four int
	if err := c.Call(ctx, "Twice", CallArgs{2}, &four); err != nil || four != 4 {
		t.Errorf("twice 2 is %d, %v", four, err)
	}
	waited := make(chan error, 1)
	go func() { waited <- c.Call(ctx, "Wait", nil) }()
	if err := c.Call(ctx, "Go", nil); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil { // Wait must not block Go
		t.Error(err)
	}
	if fmt.Sprint(recorder.notices) != "[gone on]" {
		t.Errorf("notices: %v", recorder.notices)
	}

	var back string
	var seven int
	err := c.Call(ctx, "Idle", nil, &back, &seven)
	if back != "all well" || seven != 7 || !errors.Is(err, nemesis.ErrIdle) || err.Error() != "remove shape from c1-n1: "+nemesis.ErrIdle.Error() {
		t.Errorf("Idle returned %q, %v", back, err)
	}
	if err := c.Call(ctx, "Twice", CallArgs{"x"}); err == nil || errors.Is(err, nemesis.ErrIdle) {
		t.Errorf("argument of a wrong type: %v", err)
	}
	if err := c.Call(ctx, "Twice", nil); err == nil || err.Error() != "call Twice: got 0 arguments, want 1" {
		t.Errorf("too few arguments: %v", err)
	}
	if err := c.Call(ctx, "None", nil); err == nil || err.Error() != `unknown call "None"` {
		t.Errorf("unknown call: %v", err)
	}

	end()
	<-c.Done()
	if err := c.Call(ctx, "Twice", CallArgs{2}, &four); !errors.Is(err, ErrAgentGone) {
		t.Errorf("after the end: %v", err)
	}
}

func TestCallEndsWithContext(t *testing.T) {
	m := &testMethods{release: make(chan struct{})}
	c, _ := newPair(t, &CallServer{Targets: func() []any { return []any{m} }}, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if err := c.Call(ctx, "Wait", nil); !errors.Is(err, cause) {
		t.Error(err)
	}
	close(m.release)
}
