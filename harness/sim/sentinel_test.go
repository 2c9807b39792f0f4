package sim

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/nemesis"
)

// Sentinels promote the replica with its data after a delay. The old master loses data that was not
// replicated.
func TestFailOverBySentinel(t *testing.T) {
	for name, stop := range map[string]bool{"killed": false, "stopped": true} {
		s := testScenario(1, 2)
		s.Topology.Replicas, s.Topology.DownAfter = 1, time.Second
		simulate(t, s, 1, func(c *cluster) error {
			return c.runOneClient(func(ctx context.Context, e client.Env) error {
				conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
				if err != nil {
					return err
				}
				c.do(t, "n1", "SET", "early", "1")
				<-c.after(10 * time.Millisecond)
				c.Cut("n1-replica", nemesis.CutHold, "")
				c.do(t, "n1", "SET", "late", "1")
				start := c.Now()
				mustSucceed(t, " (keys: 1), changes not replicated: 1; PING: PONG; run_id")(c.FailOverBySentinel("n1", stop))
				if took := c.Now() - start; took < 2*time.Second || took > 3*time.Second+time.Millisecond {
					t.Errorf("%s: the failover took %v", name, took)
				}
				if _, err := ask(conn, "PING"); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
					t.Errorf("%s: old connection: %v", name, err)
				}
				oldKeys := "0" // a killed master loses its keys: it has no persistence
				if stop {
					oldKeys = "2"
				}
				mustSucceed(t, "back and follows the new one (keys: "+oldKeys+", now 1)")(c.ReturnMaster("n1"))
				mustFail(t, "not replaced a master")(c.ReturnMaster("n1"))
				mustFail(t, "no replica")(c.FailOverBySentinel("n1", stop))
				return nil
			})
		})
	}
}

// A master that comes back in time is not replaced.
func TestSentinelsIgnoreReturnedMaster(t *testing.T) {
	s := testScenario(1, 1)
	s.Topology.Replicas, s.Topology.DownAfter = 1, time.Second
	simulate(t, s, 1, func(c *cluster) error {
		c.At(500*time.Millisecond, func() { c.Restart("n1") })
		mustFail(t, "its master came back")(c.FailOverBySentinel("n1", false))
		c.At(c.Now()+500*time.Millisecond, func() { c.Resume("n1") })
		mustFail(t, "its master came back")(c.FailOverBySentinel("n1", true))
		mustFail(t, "not replaced a master")(c.ReturnMaster("n1"))
		c.Pause("n1")
		mustFail(t, "stopped already")(c.FailOverBySentinel("n1", true))
		return nil
	})
}
