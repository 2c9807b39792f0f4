package sim

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// clientBubbleScenario returns a scenario whose clients have their own bubbles.
func clientBubbleScenario(clients, nodes int) scenario.Scenario {
	s := testScenario(clients, nodes)
	s.Lock = lock.Settings{Kind: "own"}
	s.Plan = nemesis.Plan{{Fault: nemesis.Fault{Kind: "clock-rate", Targets: []string{"c1"}, Rate: 0.5}}}
	return s
}

// In a client's bubble, clock readings, timers and context deadlines follow the client's clock
// rate. Event timestamps are in true time.
func TestClientBubbleClock(t *testing.T) {
	_, events, _ := simulate(t, clientBubbleScenario(2, 1), 1, func(c *cluster) error {
		c.At(0, func() {
			if readBack, err := c.TurnClock("c1", 0, 0.5); err != nil || !strings.Contains(readBack, "rate 0.5") {
				t.Error(readBack, err)
			}
			if _, err := c.TurnClock("c1", -time.Second, 1); err == nil || !strings.Contains(err.Error(), "has one clock") {
				t.Errorf("setting the clock: %v", err)
			}
		})
		c.At(20*time.Second, func() { c.TurnClock("c1", 0, 2) })
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			<-e.After(time.Second)
			start, startTrue := time.Now(), e.TrueTime()
			checkElapsed := func(what string, wantOwn, wantTrue time.Duration) {
				t.Helper()
				for clock, d := range map[string]time.Duration{"own": time.Since(start) - wantOwn, "Env's": e.Now().Sub(start) - wantOwn, "true": e.TrueTime() - startTrue - wantTrue} {
					if d.Abs() > 50*time.Microsecond {
						t.Errorf("%s: %s clock is off by %v", what, clock, d)
					}
				}
			}
			checkElapsed("begin", 0, 0)
			time.Sleep(time.Second)
			checkElapsed("sleep", time.Second, 2*time.Second)
			limitedCtx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-limitedCtx.Done()
			checkElapsed("context", 2*time.Second, 4*time.Second)
			<-e.After(time.Second)
			checkElapsed("timer", 3*time.Second, 6*time.Second)
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			start, startTrue = time.Now(), e.TrueTime()
			conn.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("read returned data although nothing was requested")
			}
			checkElapsed("read deadline", time.Second, 2*time.Second)
			e.Emit(history.Event{T: int64(e.TrueTime()), Op: history.OpCheck, Local: e.Now().UnixNano()})
			// At 20 s, the client's clock rate changes from 0.5 to 2.
			start, startTrue = time.Now(), e.TrueTime()
			slowTime := 20*time.Second - startTrue
			time.Sleep(slowTime/2 + 4*time.Second)
			checkElapsed("slow, then fast", slowTime/2+4*time.Second, slowTime+2*time.Second)
			return nil
		})
	})
	var drift []int64
	for _, e := range events {
		if e.Op == history.OpClock {
			drift = append(drift, e.Drift)
		}
	}
	if len(drift) != 4 || drift[0] != -5e8 || drift[3] != 1e9 {
		t.Errorf("drifts %v", drift)
	}
}

func injectClockFaults(c *cluster) {
	injectFaults(c)
	for i, rate := range []float64{0.7, 1.4, 0.9091, 1} {
		c.At(time.Duration(300+800*i)*time.Millisecond, func() { c.TurnClock("c1", 0, rate) })
		c.At(time.Duration(500+700*i)*time.Millisecond, func() { c.TurnClock("c2", 0, 1/rate) })
	}
}

// A bubble's clock can't be set, so a run that would set it is rejected instead of running without
// the fault.
func TestClientBubbleClockCannotBeSet(t *testing.T) {
	s := clientBubbleScenario(1, 1)
	s.Plan[0].Fault = nemesis.Fault{Kind: "clock-jump", Targets: []string{"c1"}, By: time.Second}
	b := New(map[string]lock.Kind{"own": {OwnTime: true}})
	if err := b.Run(context.Background(), s, 1, history.NewRecorder(io.Discard), nil); err == nil || !strings.Contains(err.Error(), "has one clock") {
		t.Error(err)
	}
	s.Plan[0].Fault.Targets = []string{"n1"} // a node's clock can be set
	if err := checkSupported(s, lock.Kind{OwnTime: true}); err != nil || needsClientBubbles(s, lock.Kind{OwnTime: true}) {
		t.Error(err)
	}
}

func TestClientBubblesAreReproducible(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for seed := uint64(7); seed < 9; seed++ {
		text, digest := runContentionOn(t, clientBubbleScenario(3, 5), seed, 4*time.Second, injectClockFaults)
		if len(text) < 40000 {
			t.Fatalf("too few events: %s", text)
		}
		for i := range 4 {
			runtime.GOMAXPROCS(1 + i%2)
			repeated, d := runContentionOn(t, clientBubbleScenario(3, 5), seed, 4*time.Second, injectClockFaults)
			if repeated != text || d != digest {
				t.Fatalf("seed %d, run %d with GOMAXPROCS=%d differs: history %v, digest %v", seed, i, 1+i%2, repeated != text, d != digest)
			}
		}
	}
}

// A paused client neither acts nor observes anything, although its clock keeps running. A killed
// client never acts again.
func TestClientBubblePauseAndKill(t *testing.T) {
	simulate(t, clientBubbleScenario(2, 1), 1, func(c *cluster) error {
		c.At(time.Second, func() { c.Pause("c1") })
		c.At(3*time.Second, func() { c.Resume("c1") })
		c.At(5*time.Second, func() { c.Kill("c1") })
		var resumeTime, killTime time.Duration
		err := c.runOneClient(func(ctx context.Context, e client.Env) error {
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			time.Sleep(2 * time.Second)
			if reply, err := ask(conn, "PING"); reply != "+PONG\r\n" {
				t.Error(reply, err)
			}
			resumeTime = e.TrueTime()
			go func() { time.Sleep(10 * time.Second) }()
			<-ctx.Done()
			killTime = e.TrueTime()
			return ctx.Err()
		})
		if !errors.Is(err, harness.ErrKilled) || resumeTime < 3*time.Second || resumeTime > 3*time.Second+5*time.Millisecond {
			t.Errorf("%v; resumed at %v, killed at %v", err, resumeTime, killTime)
		}
		return nil
	})
}

// A failure in a client's bubble is returned as an error by the run and does not hang it.
func TestClientBubbleErrors(t *testing.T) {
	outside := make(chan int)
	defer close(outside)
	for name, tt := range map[string]struct {
		program func(context.Context, client.Env) error
		want    string
	}{
		"panics": {func(context.Context, client.Env) error { panic("ouch") }, "client c1: panic: ouch"},
		"leaves a goroutine": {func(context.Context, client.Env) error {
			go func() { <-make(chan int) }()
			return nil
		}, "deadlock"},
		"waits for something outside": {func(context.Context, client.Env) error { <-outside; return nil }, "client c1 is stuck"},
		"waits forever":               {func(context.Context, client.Env) error { <-make(chan int); return nil }, "deadlock"},
	} {
		b := New(map[string]lock.Kind{"own": {OwnTime: true}})
		b.stepTimeout = 200 * time.Millisecond
		err := b.Run(context.Background(), clientBubbleScenario(1, 1), 1, history.NewRecorder(io.Discard), func(_ context.Context, c harness.Cluster) error {
			return c.(*cluster).runOneClient(tt.program)
		})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// Runs leave no goroutines behind, whether clients ended, were killed or never started.
func TestClientBubblesLeaveNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		runContentionOn(t, clientBubbleScenario(3, 3), 1, time.Second, func(c *cluster) { c.At(300*time.Millisecond, func() { c.Kill("c2") }) })
		simulate(t, clientBubbleScenario(2, 1), 1, func(c *cluster) error {
			return c.runOneClient(func(context.Context, client.Env) error { return nil })
		})
	}
	for start := time.Now(); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Since(start) > 5*time.Second {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
	}
}
