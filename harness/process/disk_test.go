//go:build linux

package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"lockpick/harness/real/fuse"
	"lockpick/nemesis"
)

func needDisk(t *testing.T) {
	t.Helper()
	needRedis(t)
	if reason, remedy := fuse.Missing(); reason != "" {
		t.Skipf("%s: %s", reason, remedy)
	}
}

// powerLossN1 is a step that affects n1's disk.
var powerLossN1 = nemesis.Step{Fault: nemesis.Fault{Kind: "power-loss", Targets: []string{"n1"}}}

func countMounts(t *testing.T, below string) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), " "+below+"/")
}

// What a power loss destroys depends on what was synced, so the test covers all of Redis's sync
// policies. A kill destroys nothing if the server persists its keys.
func TestPowerLossDropsUnsyncedData(t *testing.T) {
	needDisk(t)
	for _, c := range []struct {
		persistence, afterKill, afterPowerLoss string
	}{
		{"none", "none none", "none none"},
		{"no", "v v", "none none"},
		{"everysec", "v v", "v none"},
		{"always", "v v", "v v"},
	} {
		t.Run(c.persistence, func(t *testing.T) {
			t.Parallel()
			for event, want := range map[string]string{"kill": c.afterKill, "power loss": c.afterPowerLoss} {
				runOn(t, withTopology(c.persistence, 0, powerLossN1), func(b testRun) {
					addr := b.Server("n1").Addr()
					if c.persistence == "everysec" { // the first write in a new second is synced at once
						b.waitFor(1100 * time.Millisecond)
					}
					b.ask(addr, "SET", "old", "v")
					b.awaitSync(addr)
					b.ask(addr, "SET", "new", "v")
					var readback string
					if event == "kill" {
						b.mustDo("kill", func() (string, error) { return b.Kill("n1") })
					} else {
						readback = b.mustDo("cut power", func() (string, error) { return b.LosePower("n1", false) })
					}
					restartReadback := b.mustDo("restart", func() (string, error) { return b.Restart("n1") })
					if got := b.ask(addr, "GET", "old") + " " + b.ask(addr, "GET", "new"); got != want {
						t.Errorf("after %s, old and new are %q, want %q; power loss returned %q, restart returned %q", event, got, want, readback, restartReadback)
					}
				})
			}
		})
	}
}

// waitFor waits for d on the cluster's clock.
func (b testRun) waitFor(d time.Duration) {
	done := make(chan bool, 1)
	b.At(b.Now()+d, func() { done <- true })
	receive(b.T, "timer", done)
}

// awaitSync waits until the server has no sync in progress. A sync triggered by a write is in
// progress before the write is answered, so none is missed.
func (b testRun) awaitSync(addr string) {
	b.T.Helper()
	for range 1000 {
		if info := b.ask(addr, "INFO", "persistence"); !strings.Contains(info, "aof_pending_bio_fsync:") || strings.Contains(info, "aof_pending_bio_fsync:0") {
			return
		}
		b.waitFor(time.Millisecond)
	}
	b.T.Fatal("a sync did not finish")
}

func TestTornTailIsTruncated(t *testing.T) {
	needDisk(t)
	runOn(t, withTopology("no", 0, powerLossN1), func(b testRun) {
		addr := b.Server("n1").Addr()
		b.ask(addr, "SET", "k", "v")
		readback := b.mustDo("cut power", func() (string, error) { return b.LosePower("n1", true) })
		if !strings.Contains(readback, "has ended; lost ") {
			t.Errorf("power loss returned %q", readback)
		}
		if readback := b.mustDo("restart", func() (string, error) { return b.Restart("n1") }); !strings.HasSuffix(readback, " (keys: 0)") {
			t.Errorf("restart returned %q", readback)
		}
		if log := b.Server("n1").Redis().Log(); !strings.Contains(log, "truncated") && !strings.Contains(log, "Truncating") {
			t.Errorf("redis did not find the torn tail:\n%s", log)
		}
	})
}

// A power loss may leave an unreadable manifest.
func TestNodeThatFailsToRestartIsReported(t *testing.T) {
	needDisk(t)
	runOn(t, withTopology("always", 0, powerLossN1), func(b testRun) {
		b.mustDo("cut power", func() (string, error) { return b.LosePower("n1", false) })
		mustRunShell(t, "echo nonsense > "+b.group.DataDir("n1")+"/appendonlydir/appendonly.aof.manifest")
		readback := b.mustDo("restart", func() (string, error) { return b.Restart("n1") })
		if !strings.HasPrefix(readback, "it did not come back: ") {
			t.Errorf("restart returned %q", readback)
		}
		if _, err := b.Touch("n1"); err == nil {
			t.Error("the node is running anyway")
		}
		// n2 has an ordinary disk, and no plan explains the damage.
		b.mustDo("kill", func() (string, error) { return b.Kill("n2") })
		mustRunShell(t, "echo nonsense > "+b.group.DataDir("n2")+"/appendonlydir/appendonly.aof.manifest")
		if readback, err := b.Restart("n2"); err == nil {
			t.Errorf("restart of a node without a disk fault returned %q", readback)
		}
	})
}

func TestOnlyPlannedNodesGetADisk(t *testing.T) {
	needDisk(t)
	runOn(t, withTopology("always", 0, powerLossN1), func(b testRun) {
		if n := countMounts(t, b.group.Dir); n != 1 {
			t.Errorf("%d disks, want 1", n)
		}
		for what, f := range map[string]func() (string, error){
			"power loss": func() (string, error) { return b.LosePower("n2", false) },
			"slow disk":  func() (string, error) { return b.StallSync("n2") },
			"full disk":  func() (string, error) { return b.FillDisk("n2") },
			"free disk":  func() (string, error) { return b.FreeDisk("n2") },
		} {
			if _, err := f(); err == nil || !strings.Contains(err.Error(), "n2") {
				t.Errorf("%s on a node with an ordinary disk: %v", what, err)
			}
		}
	})
	runOn(t, withTopology("always", 0), func(b testRun) {
		if n := countMounts(t, b.group.Dir); n != 0 {
			t.Errorf("%d disks, but the plan has no disk faults", n)
		}
	})
}

func TestStalledSyncBlocksWrites(t *testing.T) {
	needDisk(t)
	runOn(t, withTopology("always", 0, powerLossN1), func(b testRun) {
		addr := b.Server("n1").Addr()
		b.mustDo("stall", func() (string, error) { return b.StallSync("n1") })
		if readback, err := b.FreeDisk("n1"); !errors.Is(err, nemesis.ErrIdle) || !strings.HasPrefix(readback, "it met 0 ") {
			t.Errorf("a stall without any sync ended with %q, %v", readback, err)
		}
		b.mustDo("stall", func() (string, error) { return b.StallSync("n1") })
		if _, err := b.FillDisk("n1"); err == nil {
			t.Error("a slow disk could be filled")
		}
		answer := make(chan string, 1)
		go func() { answer <- b.ask(addr, "SET", "k", "v") }()
		b.waitFor(100 * time.Millisecond)
		if len(answer) > 0 {
			t.Errorf("with policy always and a stalled sync, the server answered %q", <-answer)
		}
		b.mustDo("free", func() (string, error) { return b.FreeDisk("n1") })
		if got := receive(t, "answer", answer); got != "OK" {
			t.Errorf("after the stall, the server answered %q", got)
		}
		// A server that is killed while it waits for a sync exits nevertheless.
		b.mustDo("stall", func() (string, error) { return b.StallSync("n1") })
		go b.ask(addr, "SET", "k", "w")
		b.waitFor(50 * time.Millisecond)
		b.mustDo("kill", func() (string, error) { return b.Kill("n1") })
		b.mustDo("free", func() (string, error) { return b.FreeDisk("n1") })
		if _, err := b.StallSync("n1"); err == nil || !strings.Contains(err.Error(), "n1: it is down") {
			t.Errorf("stall on a node that is down: %v", err)
		}
		b.mustDo("restart", func() (string, error) { return b.Restart("n1") })
	})
}

func TestFullDiskRefusesWrites(t *testing.T) {
	needDisk(t)
	runOn(t, withTopology("everysec", 0, powerLossN1), func(b testRun) {
		addr := b.Server("n1").Addr()
		b.mustDo("fill", func() (string, error) { return b.FillDisk("n1") })
		b.ask(addr, "SET", "k", "v") // accepted, but then not written
		reply := ""
		for range 40 {
			if reply = b.ask(addr, "SET", "k", "w"); strings.HasPrefix(reply, "MISCONF") {
				break
			}
			b.waitFor(50 * time.Millisecond)
		}
		if !strings.HasPrefix(reply, "MISCONF") {
			t.Errorf("with a full disk, the server answered %q", reply)
		}
		b.mustDo("free", func() (string, error) { return b.FreeDisk("n1") })
		for end := b.Now() + 5*time.Second; reply != "OK" && b.Now() < end; b.waitFor(50 * time.Millisecond) {
			reply = b.ask(addr, "SET", "k", "w")
		}
		if reply != "OK" {
			t.Errorf("after space was freed, the server answered %q", reply)
		}
	})
}

func mustRunShell(t *testing.T, script string) {
	t.Helper()
	if out, err := runShell(script); err != nil {
		t.Fatal(fmt.Errorf("%s: %w: %s", script, err, out))
	}
}
