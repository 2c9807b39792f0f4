//go:build linux

package docker

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/real/vdso"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// clockScenario returns twoNodes with a plan that changes the targets' clocks.
func clockScenario(t *testing.T, persist string, targets ...string) scenario.Scenario {
	t.Helper()
	requireEngine(t)
	if clocks := testBackend().findCapabilities(t.Context()).clocks; !clocks.Available {
		t.Skipf("%s: %s", clocks.Reason, clocks.Remedy)
	}
	s := twoNodes
	s.Topology.Persistence = persist
	s.Plan = nemesis.Plan{{Fault: nemesis.Fault{Kind: "clock-jump", Targets: targets, By: time.Second}}}
	return s
}

// testBothTracers runs a test twice, changing clocks first from this process and then from a sidecar
// container.
func testBothTracers(t *testing.T, test func(t *testing.T, on *backend)) {
	for name, remote := range map[string]bool{"from here": false, "from a sidecar": true} {
		t.Run(name, func(t *testing.T) {
			if !remote && os.Geteuid() != 0 {
				t.Skip("only root may trace a container's process")
			}
			t.Parallel() // mostly waits
			b := testBackend()
			b.assumeRemote = remote
			test(t, b)
		})
	}
}

func (b testRun) turnClock(target string, by time.Duration, rate float64) string {
	b.Helper()
	return b.do("turn clock of "+target, func() (string, error) { return b.TurnClock(target, by, rate) })
}

func (b testRun) onNode(node string, args ...string) any {
	b.Helper()
	v, err := b.nodeByName(node).Command(b.T.Context(), node, args)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

func TestClockJumpExpiresKeysOfOneNode(t *testing.T) { testBothTracers(t, testJumpExpiresKeys) }

func testJumpExpiresKeys(t *testing.T, on *backend) {
	runOn(t, on, clockScenario(t, "none", "n1"), func(b testRun) {
		for _, n := range []string{"n1", "n2"} {
			b.onNode(n, "SET", "k", "v", "PX", "10000")
		}
		back := b.turnClock("n1", 11*time.Second, 1)
		if !regexp.MustCompile(`TIME shows .*, (10\.9\d*|11|11\.0\d*)s ahead, rate 1`).MatchString(back) {
			t.Errorf("read-back of the jump is %q", back)
		}
		if v1, v2 := b.onNode("n1", "GET", "k"), b.onNode("n2", "GET", "k"); v1 != nil || v2 != "v" {
			t.Errorf("after a jump of 11 s, the key with a TTL of 10 s is %v, and %v on the node without a jump", v1, v2)
		}
		back = b.turnClock("n1", -11*time.Second, 1)
		if !regexp.MustCompile(`, (which is right|\d\d?ms (ahead|behind)), rate 1`).MatchString(back) {
			t.Errorf("read-back of the corrected clock is %q", back)
		}
		if _, err := b.TurnClock("n2", time.Second, 1); err == nil {
			t.Error("no error for a clock that the plan does not change")
		}

		if back := b.turnClock("n1", 0, 2); !strings.Contains(back, "rate 2, seen over") {
			t.Errorf("read-back of rate 2 is %q", back)
		}
		setStart := time.Now()
		b.onNode("n1", "SET", "k", "v", "PX", "2000")
		setEnd := time.Now()
		minLifetime, pollStart := time.Duration(0), setEnd // lifetime of the key; polling may be late on a busy machine
		for b.onNode("n1", "EXISTS", "k") == int64(1) {
			minLifetime = pollStart.Sub(setEnd)
			time.Sleep(time.Millisecond)
			pollStart = time.Now()
		}
		if most := time.Since(setStart); minLifetime > 1100*time.Millisecond || most < 900*time.Millisecond {
			t.Errorf("at rate 2, a key with a TTL of 2 s existed for %v to %v", minLifetime, most)
		}

		b.do("pause", func() (string, error) { return b.Pause("n1") })
		if back := b.turnClock("n1", time.Hour, 1); !strings.HasPrefix(back, "it is paused; the machine's clock shows") {
			t.Errorf("read-back of a paused node's clock is %q", back)
		}
		b.do("resume", func() (string, error) { return b.Resume("n1") })
		back = b.turnClock("n1", -2*time.Hour, 1) // the clock has gained some time at rate 2
		if !regexp.MustCompile(`, 59m\S+ behind, rate 1`).MatchString(back) {
			t.Errorf("read-back after the pause is %q", back)
		}
	})
}

// A restarted node never sees true time: when it loads its data file, it keeps a key that has expired in
// true time but not by its own clock.
func TestRestartedNodeKeepsItsClock(t *testing.T) { testBothTracers(t, testRestartedNodeKeepsClock) }

func testRestartedNodeKeepsClock(t *testing.T, on *backend) {
	runOn(t, on, clockScenario(t, "always", "n1"), func(b testRun) {
		b.turnClock("n1", -time.Hour, 1)
		b.onNode("n1", "SET", "k", "v", "PX", "1000")
		b.onNode("n2", "SET", "k", "v", "PX", "1000")
		for range 2 {
			b.do("kill", func() (string, error) { return b.Kill("n1") })
			if back := b.turnClock("n1", -time.Hour, 1); !strings.HasPrefix(back, "no process is running there; the machine's clock shows") {
				t.Errorf("read-back of a dead node's clock is %q", back)
			}
			time.Sleep(time.Second) // the key's TTL in true time
			back := b.do("restart", func() (string, error) { return b.Restart("n1") })
			if !strings.Contains(back, " (keys: 1); TIME shows ") {
				t.Errorf("read-back of the restart is %q", back)
			}
		}
		if v1, v2 := b.onNode("n1", "GET", "k"), b.onNode("n2", "GET", "k"); v1 != "v" || v2 != nil {
			t.Errorf("the key is %v with a slow clock and %v with a right clock, want v and none", v1, v2)
		}
		b.do("kill", func() (string, error) { return b.Kill("n1") })
		b.turnClock("n1", 4*time.Hour, 1)
		// The TTL has elapsed only by the node's own clock.
		if back := b.do("restart", func() (string, error) { return b.Restart("n1") }); !strings.Contains(back, " (keys: 0); TIME shows ") {
			t.Errorf("read-back of the last restart is %q", back)
		}
	})
}

func TestClientClocks(t *testing.T) { testBothTracers(t, testClientClocks) }

func testClientClocks(t *testing.T, on *backend) {
	events := runOn(t, on, clockScenario(t, "none", "c1"), func(b testRun) {
		if back := b.turnClock("c1", -time.Hour, 1); !strings.HasPrefix(back, "it has not begun") {
			t.Errorf("read-back before the client's start is %q", back)
		}
		points := 0
		s := newSpec("c1", 2, client.Point{Name: client.AfterAcquire})
		s.HoldTime = client.Range{Min: 2 * time.Second, Max: 2 * time.Second}
		err := b.RunClient(t.Context(), s, func(string) {
			if points++; points == 1 {
				if back := b.turnClock("c1", 10*time.Second, 1); !strings.HasPrefix(back, "wall clock shows ") {
					t.Errorf("read-back while the client waits at a point is %q", back)
				}
				return
			}
			b.turnClock("c1", 0, 8)
			b.do("pause", func() (string, error) { return b.Pause("c1") })
			if back := b.turnClock("c1", time.Second, 8); !strings.HasPrefix(back, "it is paused") {
				t.Errorf("read-back while the client is paused is %q", back)
			}
			b.do("resume", func() (string, error) { return b.Resume("c1") })
		})
		if err != nil {
			t.Error(err)
		}
		if err := b.RunClient(t.Context(), newSpec("c1", 1), ignorePoint); err != nil { // the clock stays changed in the next process
			t.Error(err)
		}
	})
	history.Sort(events)
	// When a client's clock runs at rate 8, a hold of 2 s by that clock takes 250 ms.
	var holdTimes []time.Duration
	numClockEvents := 0
	for i, e := range events {
		if e.Process == "c1" && e.Op == history.OpRead && e.Type == history.OK {
			j := slices.IndexFunc(events[i:], func(e history.Event) bool { return e.Op == history.OpCheck })
			if j < 0 {
				t.Fatal("no write")
			}
			holdTimes = append(holdTimes, time.Duration(events[i+j].T-e.T))
		}
		if e.Op == history.OpClock {
			numClockEvents++
		}
	}
	if len(holdTimes) != 3 || holdTimes[0] < 2*time.Second || holdTimes[1] < 250*time.Millisecond || holdTimes[1] > time.Second {
		t.Errorf("client held the lock for %v, want 2 s, then twice about 250 ms", holdTimes)
	}
	if numClockEvents != 8 {
		t.Errorf("%d clock events recorded, want 4 for each of 2 clocks", numClockEvents)
	}
}

// In a container of a named image, clocks can be changed because the gate and its dependencies are copied
// into it.
func TestClocksInNamedImage(t *testing.T) {
	s := clockScenario(t, "none", "n1")
	s.Topology.Image = "lockpick-test:clocks"
	importTestImage(t, testEngine(t), s.Topology.Image, "redis-server", officialImageChanges...)
	run(t, s, func(b testRun) { b.turnClock("n1", time.Hour, 1) })
}

func TestUntargetedClocksStayRight(t *testing.T) {
	run(t, clockScenario(t, "none", "n1"), func(b testRun) {
		right := vdso.ClockState{Offset: b.Clock("n1").State().Offset}
		if names, err := b.checkOtherClocks(right); err != nil || fmt.Sprint(names) != "[n2]" {
			t.Errorf("checkOtherClocks returned %v, %v", names, err)
		}
		right.Offset += int64(time.Second)
		if _, err := b.checkOtherClocks(right); err == nil || !strings.Contains(err.Error(), "the fault also hit n2: its wall clock shows") {
			t.Errorf("with a node that is a second off: %v", err)
		}
	})
}

// Only sidecars of containers with changing clocks have a capability. They exist only if the clocks can't
// be changed from this process.
func TestOnlySidecarsHaveCapabilities(t *testing.T) {
	testBothTracers(t, testOnlySidecarsHaveCapabilities)
}

func testOnlySidecarsHaveCapabilities(t *testing.T, on *backend) {
	runOn(t, on, clockScenario(t, "none", "n1", "c1"), func(b testRun) {
		all, err := b.testbed.engine.Containers(t.Context(), runLabel+"="+b.testbed.labels[runLabel])
		if err != nil {
			t.Fatal(err)
		}
		var withCapabilities []string
		for _, o := range all {
			info, err := b.testbed.engine.API.ContainerInspect(t.Context(), o.ID)
			if err != nil {
				t.Fatal(err)
			}
			h := info.HostConfig
			if h.Privileged || fmt.Sprint(h.CapDrop) != "[ALL]" || fmt.Sprint(h.SecurityOpt) != "[no-new-privileges]" {
				t.Errorf("%s has unneeded privileges: %+v", o.Name, h)
			}
			if len(h.CapAdd) > 0 || h.PidMode != "" {
				withCapabilities = append(withCapabilities, fmt.Sprint(strings.TrimPrefix(o.Name, "/"+b.testbed.prefix), h.CapAdd))
			}
		}
		slices.Sort(withCapabilities)
		want := "[]"
		if on.assumeRemote {
			want = "[c1-clock[SYS_PTRACE] n1-clock[SYS_PTRACE]]"
		}
		if got := strings.ReplaceAll(fmt.Sprint(withCapabilities), "CAP_", ""); got != want {
			t.Errorf("containers with capabilities: %s, want %s", got, want)
		}
	})
}

func TestAdjustableClocks(t *testing.T) {
	s := twoNodes
	s.Plan = nemesis.Plan{{Fault: nemesis.Fault{Kind: "kill", Targets: []string{"n1"}}}, {Fault: nemesis.Fault{Kind: "clock-rate", Targets: []string{"n2"}}}}
	if got := adjustableClocks(s); fmt.Sprint(got) != "[n2]" {
		t.Errorf("adjustable clocks are %v, want [n2]", got)
	}
}
