//go:build linux

package process

import (
	"context"
	"strings"
	"testing"
	"time"

	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// ask sends a command to a server and returns its reply or error as text.
func (b testRun) ask(addr string, args ...string) string {
	ctx, cancel := context.WithTimeout(b.T.Context(), time.Second)
	defer cancel()
	v, err := proc.Ask(ctx, addr, args...)
	switch {
	case err != nil:
		return err.Error()
	case v.Null:
		return "none"
	}
	return v.Str
}

// withTopology returns twoNodes with the given persistence, number of replicas and plan.
func withTopology(persistence string, replicas int, plan ...nemesis.Step) scenario.Scenario {
	s := twoNodes
	s.Topology.Persistence, s.Topology.Replicas, s.Plan = persistence, replicas, plan
	return s
}

func TestPausedNodeExecutesAbandonedCommand(t *testing.T) {
	run(t, func(b testRun) {
		addr := b.addr("c1", 0)
		readback := b.mustDo("pause", func() (string, error) { return b.Pause("n1") })
		if states := readback[strings.LastIndex(readback, " ")+1:]; strings.Trim(states, "T") != "" || states == "" {
			t.Errorf("read back %q, want all threads in state T", readback)
		}
		if _, err := b.Pause("n1"); err == nil {
			t.Error("a stopped node could be stopped again")
		}
		if _, err := b.Shutdown("n1"); err == nil {
			t.Error("a stopped node could be shut down")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := proc.Ask(ctx, addr, "SET", "k", "orphan"); err == nil {
			t.Error("a stopped node answered")
		}
		if got := b.ask(b.addr("c1", 1), "PING"); got != "PONG" {
			t.Errorf("the other node answered %q", got)
		}
		b.mustDo("resume", func() (string, error) { return b.Resume("n1") })
		if got := b.ask(b.Server("n1").Addr(), "GET", "k"); got != "orphan" {
			t.Errorf("after the node was resumed, k is %q", got)
		}
	})
}

func TestKillDuringPause(t *testing.T) {
	run(t, func(b testRun) {
		b.mustDo("pause", func() (string, error) { return b.Pause("n1") })
		b.mustDo("kill", func() (string, error) { return b.Kill("n1") })
		b.mustDo("restart", func() (string, error) { return b.Restart("n1") })
		if readback := b.mustDo("resume", func() (string, error) { return b.Resume("n1") }); readback != "it was killed meanwhile" {
			t.Errorf("resume returned %q", readback)
		}
		if got := b.ask(b.addr("c1", 0), "PING"); got != "PONG" {
			t.Errorf("after the restart, the node answered %q", got)
		}
	})
}

func TestShutdownKeepsWrites(t *testing.T) {
	for persistence, want := range map[string]string{"none": " (keys: 0)", "no": " (keys: 1)"} {
		runOn(t, withTopology(persistence, 0), func(b testRun) {
			b.mustDo("touch", func() (string, error) { return b.Touch("n1") })
			if readback := b.mustDo("shut down", func() (string, error) { return b.Shutdown("n1") }); !strings.HasSuffix(readback, "cleanly") {
				t.Errorf("shutdown returned %q", readback)
			}
			if _, err := b.Shutdown("n1"); err == nil {
				t.Error("a node that is down could be shut down")
			}
			if _, err := b.Touch("n1"); err == nil {
				t.Error("a node that is down could be touched")
			}
			if _, err := b.Pause("n1"); err == nil {
				t.Error("a node that is down could be stopped")
			}
			if readback := b.mustDo("restart", func() (string, error) { return b.Restart("n1") }); !strings.HasSuffix(readback, want) {
				t.Errorf("%s: restart returned %q, want %q", persistence, readback, want)
			}
		})
	}
}

func TestTouchBypassesLinks(t *testing.T) {
	run(t, func(b testRun) {
		b.mustDo("cut", func() (string, error) { return b.Cut("c1-n1", nemesis.CutHold, "") })
		b.mustDo("touch", func() (string, error) { return b.Touch("n1") })
		if got := b.ask(b.Server("n1").Addr(), "GET", proc.TouchKey); got == "none" {
			t.Errorf("the key is missing")
		}
		if _, err := b.Touch("n9"); err == nil {
			t.Error("a node that does not exist could be touched")
		}
	})
}

func TestReplicaReplacesItsMaster(t *testing.T) {
	runOn(t, withTopology("none", 1), func(b testRun) {
		addr := b.addr("c1", 0)
		replica := b.Replica("n1").Addr()
		if got := b.ask(addr, "SET", "early", "v"); got != "OK" {
			t.Fatal(got)
		}
		for end := time.Now().Add(5 * time.Second); b.ask(replica, "GET", "early") != "v"; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the replica has not received its master's writes")
			}
		}
		b.mustDo("cut", func() (string, error) { return b.Cut("n1-replica", nemesis.CutHold, "") })
		if got := b.ask(addr, "SET", "late", "v"); got != "OK" {
			t.Fatal(got)
		}
		readback := b.mustDo("fail over", func() (string, error) { return b.FailOver("n1") })
		if !strings.Contains(readback, " (keys: 1); process ") || !strings.HasSuffix(readback, " has ended") {
			t.Errorf("failover returned %q", readback)
		}
		if early, late := b.ask(addr, "GET", "early"), b.ask(addr, "GET", "late"); early != "v" || late != "none" {
			t.Errorf("at the client's address, early is %q and late is %q", early, late)
		}
		if got := b.ask(addr, "SET", "after", "v"); got != "OK" {
			t.Errorf("write to the new master: %s", got)
		}
		if _, err := b.FailOver("n1"); err == nil {
			t.Error("a node with one replica failed over twice")
		}
		if readback := b.mustDo("touch", func() (string, error) { return b.Touch("n1") }); readback == "" || !strings.HasSuffix(readback, b.ask(replica, "GET", proc.TouchKey)) {
			t.Errorf("touch returned %q, but the new master has another key", readback)
		}
		b.mustDo("mend", func() (string, error) { return b.Mend("n1-replica") })
		b.mustDo("kill", func() (string, error) { return b.Kill("n1") })
		if readback := b.mustDo("restart", func() (string, error) { return b.Restart("n1") }); !strings.HasSuffix(readback, " (keys: 0)") {
			t.Errorf("restart of the new master returned %q", readback)
		}
	})
	run(t, func(b testRun) {
		if _, err := b.FailOver("n1"); err == nil || !strings.Contains(err.Error(), "no replica") {
			t.Errorf("failover without a replica: %v", err)
		}
		if _, err := b.Cut("n1-replica", nemesis.CutHold, ""); err == nil {
			t.Error("a nonexistent replication link could be cut")
		}
	})
}
