//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/vdso"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// clockScenario returns a scenario with the given number of nodes and a plan that changes clocks.
func clockScenario(nodes int) scenario.Scenario {
	s := twoNodes
	s.Topology.Nodes = nodes
	s.Plan = nemesis.Plan{{Fault: nemesis.Fault{Kind: "clock-jump", Targets: []string{"n1"}, By: time.Second}}}
	return s
}

func runWithClocks(t *testing.T, nodes int, body func(b testRun)) []history.Event {
	t.Helper()
	if err := vdso.Available(); err != nil {
		t.Skip(err)
	}
	return runOn(t, clockScenario(nodes), body)
}

func (b testRun) changeClock(target string, by time.Duration, rate float64) string {
	b.Helper()
	return b.mustDo("turn clock of "+target, func() (string, error) { return b.TurnClock(target, by, rate) })
}

func (b testRun) askNode(node string, args ...string) any {
	b.Helper()
	v, err := b.Nodes.Server(node).Redis().Command(b.T.Context(), node, args)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// bounds are the smallest and the largest value that a duration may have, according to
// observations.
type bounds struct{ min, max time.Duration }

func (d bounds) String() string { return fmt.Sprintf("%v to %v", d.min, d.max) }

// allows reports whether the duration may be want, to within one tick of a node's clock.
func (d bounds) allows(want time.Duration) bool {
	const tick = time.Millisecond
	return d.min <= want+tick && d.max >= want-tick
}

// clockOffset returns how far a node's clock is ahead, according to the TIME command.
func (b testRun) clockOffset(node string) bounds {
	b.Helper()
	before := time.Now()
	r, err := b.ReadTime(b.Server(node))
	if err != nil {
		b.Fatal(err)
	}
	wall := time.Unix(0, r.Wall)
	return bounds{time.Until(wall), wall.Sub(before)}
}

func TestKeysExpireByNodeWallClock(t *testing.T) {
	runWithClocks(t, 1, func(b testRun) {
		b.askNode("n1", "SET", "k", "v", "PX", "10000")
		readback := b.changeClock("n1", 11*time.Second, 1)
		if v := b.askNode("n1", "GET", "k"); v != nil {
			t.Errorf("the clock jumped ahead by 11 s, but a key with a TTL of 10 s is %v", v)
		}
		if !regexp.MustCompile(`TIME shows .*, 1[01][.\d]*s ahead, rate 1`).MatchString(readback) {
			t.Errorf("the jump was read back as %q", readback)
		}
		b.changeClock("n1", -11*time.Second, 1)
		if d := b.clockOffset("n1"); !d.allows(0) {
			t.Errorf("the clock was corrected, but is %v ahead", d)
		}

		b.askNode("n1", "SET", "k", "v", "PX", "1000")
		b.changeClock("n1", -time.Minute, 1)
		if ms := b.askNode("n1", "PTTL", "k").(int64); ms < 45_000 || ms > 61_000 {
			t.Errorf("the clock was set back by a minute, and a key with a TTL of 1 s has %d ms left, want about a minute", ms)
		}
		time.Sleep(1100 * time.Millisecond)
		if v := b.askNode("n1", "GET", "k"); v != "v" {
			t.Errorf("the clock was set back, but after its TTL the key is %v", v)
		}
		b.changeClock("n1", time.Minute, 1)
		if v := b.askNode("n1", "GET", "k"); v != nil {
			t.Errorf("the clock is correct again, but the key is %v", v)
		}
	})
}

func TestNodeClockRate(t *testing.T) {
	runWithClocks(t, 1, func(b testRun) {
		if readback := b.changeClock("n1", 0, 2); !strings.Contains(readback, "rate 2, seen over") {
			t.Errorf("rate 2 was read back as %q", readback)
		}
		beforeSet := time.Now()
		b.askNode("n1", "SET", "k", "v", "PX", "600")
		afterSet := time.Now()
		var lifetime bounds
		for askTime := afterSet; b.askNode("n1", "EXISTS", "k") == int64(1); askTime = time.Now() {
			lifetime.min = askTime.Sub(afterSet)
			time.Sleep(time.Millisecond)
		}
		if lifetime.max = time.Since(beforeSet); !lifetime.allows(300 * time.Millisecond) {
			t.Errorf("at rate 2, a key with a TTL of 600 ms lived for %v", lifetime)
		}
		lookTime := time.Now()
		aheadBefore := b.clockOffset("n1")
		b.changeClock("n1", 0, 1)
		maxGain := time.Since(lookTime) // upper bound of the time until the clock was changed
		time.Sleep(50 * time.Millisecond)
		if aheadAfter := b.clockOffset("n1"); aheadAfter.max < aheadBefore.min || aheadAfter.min > aheadBefore.max+maxGain {
			t.Errorf("the clock was ahead by %v and is now ahead by %v, changed %v later", aheadBefore, aheadAfter, maxGain)
		}
		// A slew is too slow to be visible immediately.
		if readback := b.changeClock("n1", 0, 1.0005); !strings.HasSuffix(readback, " ahead, rate 1.0005") {
			t.Errorf("a slew was read back as %q", readback)
		}
	})
}

func TestRestartedNodeKeepsItsClock(t *testing.T) {
	runWithClocks(t, 2, func(b testRun) {
		b.changeClock("n1", time.Hour, 1)
		for range 2 {
			b.mustDo("kill", func() (string, error) { return b.Kill("n1") })
			if readback := b.changeClock("n1", time.Minute, 1); !strings.HasPrefix(readback, "no process is running there; the machine's clock shows") {
				t.Errorf("a dead node's clock was read back as %q", readback)
			}
			readback := b.mustDo("restart", func() (string, error) { return b.Restart("n1") })
			if !strings.Contains(readback, "(keys: 0); TIME shows ") {
				t.Errorf("the restart was read back as %q", readback)
			}
		}
		if d := b.clockOffset("n1"); !d.allows(time.Hour + 2*time.Minute) {
			t.Errorf("after the restarts, n1's clock is %v ahead", d)
		}
		if d := b.clockOffset("n2"); !d.allows(0) {
			t.Errorf("the other node's clock is %v ahead", d)
		}
	})
}

func TestClientClocks(t *testing.T) {
	const hold, rate = 500 * time.Millisecond, 10
	events := runWithClocks(t, 2, func(b testRun) {
		readback := b.changeClock("c1", -time.Hour, 1)
		if !strings.HasPrefix(readback, "it has not begun") {
			t.Errorf("before the client's start: %q", readback)
		}
		points := 0
		s := clientSpec("c1", 2, client.Point{Name: client.AfterAcquire})
		s.HoldTime = client.Range{Min: hold, Max: hold}
		err := b.RunClient(t.Context(), s, func(string) {
			if points++; points == 1 {
				if readback := b.changeClock("c1", 10*time.Second, 1); !strings.HasPrefix(readback, "wall clock shows ") {
					t.Errorf("while the client waits at a point: %q", readback)
				}
				return
			}
			b.changeClock("c1", 0, rate)
			b.mustDo("pause", func() (string, error) { return b.Pause("c1") })
			if readback := b.changeClock("c1", time.Second, rate); !strings.HasPrefix(readback, "it is paused") {
				t.Errorf("while the client is paused: %q", readback)
			}
			b.mustDo("resume", func() (string, error) { return b.Resume("c1") })
		})
		if err != nil {
			t.Error(err)
		}
		if readback, err := b.TurnClock("c1", 0, 1); !errors.Is(err, nemesis.ErrEnded) {
			t.Errorf("after the client's end: %q, %v", readback, err)
		}
	})
	history.Sort(events)
	// The client's own clock determines the duration of a hold.
	var holds []time.Duration
	for i, e := range events {
		if e.Process == "c1" && e.Op == history.OpRead && e.Type == history.OK {
			j := slices.IndexFunc(events[i:], func(e history.Event) bool { return e.Op == history.OpCheck })
			if j < 0 {
				t.Fatal("no check after the read")
			}
			holds = append(holds, time.Duration(events[i+j].T-e.T))
		}
	}
	if len(holds) != 2 || holds[0] < hold || holds[1] < hold/rate || holds[1] >= hold {
		t.Errorf("the client held the lock for %v, want %v and %v", holds, hold, hold/rate)
	}
	numChanges := 0
	for _, e := range events {
		if e.Op == history.OpClock {
			numChanges++
			if e.Node != "c1" || e.Local == 0 {
				t.Errorf("unexpected clock change %+v", e)
			}
		}
	}
	if numChanges != 8 {
		t.Errorf("%d clock changes were recorded, want 8: 4 for each clock", numChanges)
	}
}

// A client's clocks show what the recorded clock changes say, so that readers of the history can
// tell until when the client considered itself the holder.
func TestClockChangesMatchClientReadings(t *testing.T) {
	var readings []real.ClockReading
	events := runWithClocks(t, 1, func(b testRun) {
		ch := make(chan string)
		proceed := make(chan bool)
		done := b.start(clientSpec("c1", 1, client.Point{Name: client.AfterAcquire}), func(p string) { ch <- p; <-proceed })
		receive(t, "point", ch)
		for _, turn := range []struct {
			by   time.Duration
			rate float64
		}{{0, 0.5}, {time.Hour, 0.5}, {-2 * time.Hour, 1}, {0, 1.25}} {
			b.changeClock("c1", turn.by, turn.rate)
			r, err := b.Client("c1").ReadClocks(b.TrueTime)
			if err != nil {
				t.Fatal(err)
			}
			readings = append(readings, r)
			r.From -= b.Origin()
			readings[len(readings)-1] = r
		}
		close(proceed)
		if err := receive(t, "end of the client", done); err != nil {
			t.Error(err)
		}
	})
	var changes []history.Event
	for _, e := range events {
		if e.Op == history.OpClock {
			changes = append(changes, e)
		}
	}
	for i, r := range readings {
		for _, e := range changes[2*i : 2*i+2] {
			elapsed := float64(int64(r.From) - e.T)
			want := e.Local + int64(math.Round(elapsed*(1+float64(e.Drift)/1e9)))
			got := r.Now
			if e.WallClock {
				got = r.Wall
			}
			if d := time.Duration(got - want); d.Abs() > time.Millisecond {
				t.Errorf("change %d, wall clock %v: the client's clock is %v ahead of the recorded change", i+1, e.WallClock, d)
			}
		}
	}
}

func TestClockChangeIsRejected(t *testing.T) {
	runWithClocks(t, 1, func(b testRun) {
		for _, target := range []string{"n9", "c9", "r1", "c1-n1"} {
			if _, err := b.TurnClock(target, time.Second, 1); err == nil || !strings.Contains(err.Error(), target) {
				t.Errorf("%s: %v", target, err)
			}
		}
		if _, err := b.TurnClock("n1", 0, -1); err == nil {
			t.Error("a negative rate was accepted")
		}
	})
	run(t, func(b testRun) { // no step of the plan changes a clock
		if _, err := b.TurnClock("n1", time.Second, 1); err == nil {
			t.Error("the clock of an untraced process was changed")
		}
	})
}

// If a process's clock does not follow a change, that is an error, and the fault is not active.
func TestClockThatDoesNotFollowIsAnError(t *testing.T) {
	runWithClocks(t, 1, func(b testRun) {
		k := b.Clock("n1")
		wrong := real.ClockReading{From: proc.TrueClock(), Wall: time.Now().Add(time.Second).UnixNano(), To: proc.TrueClock()}
		if _, err := k.ReadBack("TIME shows", func() (real.ClockReading, error) { return wrong, nil }); err == nil || !strings.Contains(err.Error(), "should show") {
			t.Errorf("clock that is off by a second: %v", err)
		}
		// After Close, the process's clock shows true time, whatever change is requested.
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.TurnClock("n1", time.Minute, 1); err == nil || !strings.Contains(err.Error(), "should show") {
			t.Errorf("change that does not reach the process: %v", err)
		}
		if _, err := b.TurnClock("n1", -time.Minute, 1.5); err == nil || !strings.Contains(err.Error(), "should show") {
			t.Errorf("rate that does not reach the process: %v", err)
		}
	})
}

// If five servers are started at the same time, each of them follows the changes to its own clock.
func TestManyStarts(t *testing.T) { testManyStarts(t, 4) }

func testManyStarts(t *testing.T, rounds int) {
	t.Helper()
	needRedis(t)
	if err := vdso.Available(); err != nil {
		t.Skip(err)
	}
	group, err := proc.NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	var mu sync.Mutex
	clocks := map[string]*real.Clock{}
	group.AtStart = func(name string, pid int) error {
		mu.Lock()
		defer mu.Unlock()
		return clocks[name].Start(pid)
	}
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range 5 {
			name := fmt.Sprintf("n%d", 5*round+i)
			k := real.NewClock(t.Context(), false, proc.TrueClock)
			mu.Lock()
			clocks[name] = k
			mu.Unlock()
			wg.Go(func() {
				defer k.Close()
				r, err := group.StartRedis(t.Context(), name, "redis-server", scenario.PersistNone)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = k.Adjust(-time.Hour, 1)
				_, readbackErr := k.ReadBack("TIME shows", func() (real.ClockReading, error) {
					reply, err := real.AskTimed(t.Context(), r.Addr(), "TIME")
					if err != nil {
						return real.ClockReading{}, err
					}
					return real.ParseTimeReply(reply.Value, reply.From, reply.To)
				})
				_, killErr := r.Kill(t.Context())
				if err := errors.Join(err, readbackErr, killErr); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

func TestProbeChecksClocks(t *testing.T) {
	dir := t.TempDir()
	for _, c := range testBackend(dir).Probe(context.Background()) {
		if slices.Contains(real.ClockCapabilities, c.Name) && !c.Available && (vdso.Available() == nil || c.Reason == "" || c.Remedy == "") {
			t.Errorf("%+v", c)
		}
	}
	t.Setenv("PATH", t.TempDir()) // no date
	b := testBackend(dir)
	if c := b.probeClocks(); vdso.Available() == nil && (c.Available || c.Remedy == "" || !strings.Contains(c.Reason, "date")) {
		t.Errorf("without the date program: %+v", c)
	}
}

// BenchmarkStart measures how long it takes until a server started under ptrace is ready.
func BenchmarkStart(b *testing.B) {
	for _, traced := range []bool{false, true} {
		b.Run(fmt.Sprintf("traced=%v", traced), func(b *testing.B) {
			group, err := proc.NewGroup(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer group.Close()
			if traced {
				group.AtStart = func(_ string, pid int) error { return new(vdso.Machine).Start(pid) }
			}
			for i := 0; b.Loop(); i++ {
				r, err := group.StartRedis(b.Context(), fmt.Sprintf("n%d", i), "redis-server", scenario.PersistNone)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				r.Kill(b.Context())
				b.StartTimer()
			}
		})
	}
}
