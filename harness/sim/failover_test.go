package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/nemesis"
)

// The replica has exactly the changes that arrived over its link.
func TestFailOver(t *testing.T) {
	for name, tt := range map[string]struct {
		wait              time.Duration // before the failover
		cutLink, mendLink bool
		want              int64
	}{
		"replicated":        {5 * time.Millisecond, false, false, 2},
		"too soon":          {0, false, false, 1},
		"link cut":          {5 * time.Second, true, false, 1},
		"link mended again": {5 * time.Second, true, true, 2},
	} {
		s := testScenario(1, 2)
		s.Topology.Replicas = 1
		simulate(t, s, 1, func(c *cluster) error {
			return c.runOneClient(func(ctx context.Context, e client.Env) error {
				conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
				if err != nil {
					return err
				}
				c.do(t, "n1", "SET", "early", "1", "PX", "60000")
				<-c.after(time.Second)
				if tt.cutLink {
					mustSucceed(t, "link down, keys of the replica: 1, changes that it lacks: 0")(c.Cut("n1-replica", nemesis.CutDrop, ""))
					mustFail(t, "cut already")(c.Cut("n1-replica", "", ""))
				}
				c.do(t, "n1", "EVAL", "redis.call('incr','late') redis.call('pexpire','late',60000)", "0")
				<-c.after(tt.wait / 2)
				if tt.mendLink {
					mustSucceed(t, "link up, keys of the replica: 1, changes that it lacks: 1")(c.Mend("n1-replica"))
				}
				<-c.after(tt.wait / 2)
				c.TurnClock("n1", time.Hour, 1) // the replica's machine has a different clock
				id := c.servers[0].runID
				mustSucceed(t, fmt.Sprintf("now run_id %.8s (keys: %d)", runID(c.seed, "n1-replica", 1), tt.want))(c.FailOver("n1"))
				if c.servers[0].runID == id {
					t.Errorf("%s: the run_id has not changed", name)
				}
				if _, err := ask(conn, "PING"); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("%s: an old connection: %v", name, err)
				}
				if conn, err = e.Dial(ctx, "tcp", c.addr("n1")); err != nil {
					return err
				}
				if reply, err := ask(conn, "PING"); reply != "+PONG\r\n" {
					t.Errorf("%s: %q, %v", name, reply, err)
				}
				if remaining := c.do(t, "n1", "PTTL", "early").(int64); remaining > 59000 || remaining < 50000 {
					t.Errorf("%s: the key expires in %d ms", name, remaining)
				}
				mustFail(t, "no replica")(c.FailOver("n1"))
				if tt.cutLink && !tt.mendLink {
					mustSucceed(t, "took its master's place")(c.Mend("n1-replica"))
				}
				mustFail(t, "has taken its master's place")(c.Cut("n1-replica", "", ""))
				return nil
			})
		})
	}
}

func TestFailOverRequiresReplica(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		mustFail(t, "set topology.replicas")(c.FailOver("n1"))
		mustFail(t, "no such")(c.FailOver("n9"))
		mustFail(t, "no such link")(c.Cut("n1-replica", "", ""))
		return nil
	})
}

// A master that restarts without data empties its replica.
func TestReplicaAfterMasterRestart(t *testing.T) {
	s := testScenario(1, 1)
	s.Topology.Replicas = 1
	simulate(t, s, 1, func(c *cluster) error {
		c.do(t, "n1", "SET", "k", "v")
		<-c.after(10 * time.Millisecond)
		c.Kill("n1")
		mustFail(t, "down already")(c.FailOver("n1"))
		c.Restart("n1")
		<-c.after(10 * time.Millisecond)
		mustSucceed(t, fmt.Sprintf("now run_id %.8s (keys: 0)", runID(c.seed, "n1-replica", 1)))(c.FailOver("n1"))
		return nil
	})
}

// After a failover, a node with persistence keeps its data.
func TestFailOverThenPowerLoss(t *testing.T) {
	s := persistentScenario("always")
	s.Topology.Replicas = 1
	simulate(t, s, 1, func(c *cluster) error {
		c.do(t, "n1", "SET", "a", "1")
		<-c.after(10 * time.Millisecond)
		c.FailOver("n1")
		c.do(t, "n1", "SET", "b", "1")
		<-c.after(10 * time.Millisecond)
		losePower(c, t)
		mustSucceed(t, "(keys: 2)")(c.Restart("n1"))
		return nil
	})
}

func TestProbeListsCapabilities(t *testing.T) {
	var names []string
	for _, p := range New(nil).Probe(t.Context()) {
		names = append(names, p.Name)
	}
	for _, name := range []string{"pause-client", "pause-node", "kill-node", "shutdown-node", "power-loss-node", "disk-node",
		"touch-node", "failover-node", "clock-node", "clock-client", "persistence", "replicas"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not listed", name)
		}
	}
}
