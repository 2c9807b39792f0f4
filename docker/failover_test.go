//go:build linux

package docker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// replicatedScenario returns a scenario with one client and one node with a replica. There are sentinels
// if any step requires them.
func replicatedScenario(steps ...nemesis.Step) scenario.Scenario {
	s := twoNodes
	s.Topology.Nodes, s.Topology.Replicas, s.Topology.DownAfter = 1, 1, scenario.MinDownAfter
	s.Clients, s.Limit, s.Plan = s.Clients[:1], time.Minute, steps
	return s
}

// setKeys sets the key "early" on the node and its replica, and the key "late" only on the node.
func (b testRun) setKeys() (link string) {
	b.Helper()
	addrs, _ := b.Addresses("c1")
	link, replica := addrs.Nodes[0].Addr, b.Replica("n1").(*node)
	b.expectReply(link, "OK", "SET", "early", "v")
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if n, err := replica.Keys(b.T.Context()); err == nil && n == 1 {
			break
		}
		if time.Now().After(end) {
			b.Fatal("replica did not get the key from its master")
		}
	}
	b.do("cut", func() (string, error) { return b.Cut("n1-replica", nemesis.CutHold, "") })
	b.expectReply(link, "OK", "SET", "late", "v")
	return link
}

// expectReply sends a command to addr and checks the reply.
func (b testRun) expectReply(addr, want string, args ...string) {
	b.Helper()
	if v, err := b.testbed.ask(b.T.Context(), addr, args...); err != nil || v.Str != want {
		b.Errorf("%s replied %q, %v to %v, want %q", addr, v.Str, err, args, want)
	}
}

// A replica takes over with the data it has and acts as the node from then on. The next run uses new
// servers.
func TestReplicaTakesOver(t *testing.T) {
	t.Parallel() // mostly waits
	runOnTestbed := sharedTestbed(t)
	var master, replica *node
	runOnTestbed("by hand", replicatedScenario(), func(b testRun) {
		master, replica = b.nodeByName("n1"), b.Replica("n1").(*node)
		link := b.setKeys()
		if back := b.do("fail over", func() (string, error) { return b.FailOver("n1") }); !strings.Contains(back, " (keys: 1); container ") {
			t.Errorf("failover returned %q", back)
		}
		b.expectReply(link, "v", "GET", "early")
		b.expectReply(link, "", "GET", "late")
		if b.nodeByName("n1") != replica {
			t.Error("the replica does not act as the node")
		}
		if _, err := b.FailOver("n1"); err == nil {
			t.Error("no error for a second failover without a replica")
		}
		// Killing the node kills the replica. Restarting the old master does not affect the node.
		b.do("kill", func() (string, error) { return b.Kill("n1") })
		if _, err := master.Restart(t.Context()); err != nil {
			t.Error(err)
		}
		start := time.Now()
		if _, err := b.testbed.ask(t.Context(), link, "PING"); err == nil || time.Since(start) > time.Second {
			t.Errorf("link to a dead node returned %v after %v", err, time.Since(start))
		}
		b.do("restart", func() (string, error) { return b.Restart("n1") })
		b.expectReply(link, "PONG", "PING")
		if _, err := master.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		b.expectReply(link, "PONG", "PING")
	})
	runOnTestbed("second run", replicatedScenario(), func(b testRun) {
		if b.nodeByName("n1").id == master.id || b.Replica("n1").(*node).id == replica.id {
			t.Error("reused a server from the first run")
		}
		b.setKeys()
	})
	runOnTestbed("without replicas", twoNodes, func(b testRun) {
		b.expectReply(b.nodeByName("n1").HostPort, "", "GET", "early")
	})
}

// Sentinels promote the replica with the data it has. The old master comes back as a replica and loses the
// data that only it had.
func TestSentinelsPromoteReplica(t *testing.T) {
	t.Parallel() // mostly waits
	runOnTestbed := sharedTestbed(t)
	for _, mode := range []string{nemesis.SentinelFailoverAfterKill, nemesis.SentinelFailoverAfterPause} {
		step := nemesis.Step{Fault: nemesis.Fault{Kind: "failover", Mode: mode, Targets: []string{"n1"}}}
		runOnTestbed(mode, replicatedScenario(step), func(b testRun) {
			link := b.setKeys()
			paused, wantKeys := mode == nemesis.SentinelFailoverAfterPause, 0
			if paused {
				wantKeys = 2 // a killed master loses its data
			}
			back := b.do("fail over", func() (string, error) { return b.FailOverBySentinel("n1", paused) })
			if !strings.HasPrefix(back, "promoted by its sentinels after ") || !strings.Contains(back, " (keys: 1); container ") {
				t.Errorf("failover returned %q", back)
			}
			t.Log(back)
			b.expectReply(link, "v", "GET", "early")
			b.expectReply(link, "", "GET", "late")
			back = b.do("return", func() (string, error) { return b.ReturnMaster("n1") })
			if back != fmt.Sprintf("the old master is back and follows the new one (keys: %d, now 1)", wantKeys) {
				t.Errorf("return returned %q", back)
			}
			b.expectReply(link, "PONG", "PING")
		})
	}
}
