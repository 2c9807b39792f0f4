//go:build linux

package process

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// withSentinels returns a scenario with Sentinels for n1.
func withSentinels() scenario.Scenario {
	s := withTopology("none", 1, nemesis.Step{Fault: nemesis.Fault{Kind: "failover", Mode: nemesis.SentinelFailoverAfterKill, Targets: []string{"n1"}}})
	s.Topology.Nodes, s.Clients = 1, s.Clients[:1]
	s.Topology.DownAfter, s.Limit = scenario.MinDownAfter, time.Minute
	return s
}

func needSentinel(t *testing.T) {
	t.Helper()
	needRedis(t)
	if c := testBackend(t.TempDir()).probeSentinel(t.Context()); !c.Available {
		t.Skipf("%s: %s", c.Reason, c.Remedy)
	}
}

// Sentinels promote the replica with whatever data it has. The old master comes back as a replica
// of the new master and loses all data that the new master doesn't have.
func TestSentinelsPromote(t *testing.T) {
	needSentinel(t)
	for _, mode := range []string{nemesis.SentinelFailoverAfterKill, nemesis.SentinelFailoverAfterPause} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			runOn(t, withSentinels(), func(b testRun) {
				addr, replica := b.addr("c1", 0), b.Replica("n1")
				for _, key := range []string{"early", "late"} {
					if got := b.ask(addr, "SET", key, "v"); got != "OK" {
						t.Fatal(got)
					}
					for end := time.Now().Add(5 * time.Second); key == "early" && b.ask(replica.Addr(), "GET", key) != "v"; time.Sleep(time.Millisecond) {
						if time.Now().After(end) {
							t.Fatal("the replica has not received its master's writes")
						}
					}
					if key == "early" {
						b.mustDo("cut", func() (string, error) { return b.Cut("n1-replica", nemesis.CutHold, "") })
					}
				}
				oldConn := dial(t, addr)
				duration := time.Second
				x, err := b.inject(nemesis.Fault{Kind: "failover", Mode: mode, Targets: []string{"n1"}, For: &duration})
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(x.ReadBack, "promoted by its sentinels after ") || !strings.Contains(x.ReadBack, " (keys: 1); process ") {
					t.Errorf("failover returned %q", x.ReadBack)
				}
				if early, late := b.ask(addr, "GET", "early"), b.ask(addr, "GET", "late"); early != "v" || late != "none" {
					t.Errorf("at the client's address, early is %q and late is %q", early, late)
				}
				oldConn.SetReadDeadline(time.Now().Add(time.Second))
				if n, err := oldConn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
					t.Errorf("the old master's connection is still open: %d, %v", n, err)
				}
				numKeys := 0 // after a kill, the node has lost its keys
				if mode == nemesis.SentinelFailoverAfterPause {
					numKeys = 2
				}
				if readback, err := x.Heal(); err != nil || readback != fmt.Sprintf("the old master is back and follows the new one (keys: %d, now 1)", numKeys) {
					t.Errorf("return of the old master: %q, %v", readback, err)
				}
				if _, err := b.ReturnMaster("n1"); err == nil {
					t.Error("the old master returned twice")
				}
			})
		})
	}
}

// After a split vote, Sentinels still promote a replica, although they vote again only after twice
// failover-timeout, which we set as short as possible.
func TestFailoverAfterSplitVote(t *testing.T) {
	needSentinel(t)
	t.Parallel()
	runOn(t, withSentinels(), func(b testRun) {
		host, port, _ := net.SplitHostPort(b.Server("n1").Addr())
		for _, s := range b.Sentinels {
			nobody := strings.Repeat("0", 40)
			v, err := proc.Ask(t.Context(), s.Addr(), "SENTINEL", "IS-MASTER-DOWN-BY-ADDR", host, port, "1", nobody)
			if err != nil || len(v.Items) != 3 || v.Items[1].Str != nobody {
				t.Fatalf("vote: %+v, %v", v, err)
			}
		}
		if readback, err := b.FailOverBySentinel("n1", false); err != nil || !strings.HasPrefix(readback, "promoted by its sentinels after ") {
			t.Errorf("failover returned %q, %v", readback, err)
		}
	})
}

// Sentinels still promote a replica after they have stalled, as on a busy machine.
func TestSentinelsAfterAStall(t *testing.T) {
	needSentinel(t)
	t.Parallel()
	runOn(t, withSentinels(), func(b testRun) {
		for _, s := range b.Sentinels {
			b.ask(s.Addr(), "SENTINEL", "DEBUG", "TILT-TRIGGER", "1") // a delay of more than 1 ms counts as a stall
		}
		for _, s := range b.Sentinels {
			for end := time.Now().Add(5 * time.Second); !strings.Contains(b.ask(s.Addr(), "INFO", "sentinel"), "sentinel_tilt:1"); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s did not notice a stall", s.Name)
				}
			}
		}
		for _, s := range b.Sentinels {
			b.ask(s.Addr(), "SENTINEL", "DEBUG", "TILT-TRIGGER", "2000")
		}
		if readback, err := b.FailOverBySentinel("n1", true); err != nil || !strings.HasPrefix(readback, "promoted by its sentinels after ") {
			t.Errorf("failover returned %q, %v", readback, err)
		}
	})
}

// Without a quorum, no replica is promoted, and the failover fails.
func TestNoQuorumNoFailover(t *testing.T) {
	needSentinel(t)
	runOn(t, withSentinels(), func(b testRun) {
		for _, s := range b.Sentinels[:2] {
			b.mu.Lock()
			b.expectedNodes[s.Name] = true
			b.mu.Unlock()
			b.ask(s.Addr(), "SHUTDOWN") // the connection closes when the server has exited
		}
		if readback, err := b.FailOverBySentinel("n1", false); err == nil || !strings.Contains(err.Error(), "only 1 sentinels monitor") {
			t.Errorf("failover returned %q, %v", readback, err)
		}
		if !b.Server("n1").Running() {
			t.Error("the master is down anyway")
		}
	})
	runOn(t, withSentinels(), func(b testRun) {
		b.PromoteTimeout = 2 * time.Second
		replica := b.Replica("n1")
		b.mustDo("kill the replica", func() (string, error) { return replica.Kill(b.Ctx) })
		if readback, err := b.FailOverBySentinel("n1", false); err == nil || !strings.Contains(err.Error(), "did not promote the replica within 2s") {
			t.Errorf("failover says %q, %v", readback, err)
		}
		if b.Server("n1") == replica {
			t.Error("the replica has replaced the master")
		}
	})
}
