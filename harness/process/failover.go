//go:build linux

package process

import (
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// These powers are failover.Nodes's.
var (
	_ nemesis.FailOverer         = (*cluster)(nil)
	_ nemesis.SentinelFailOverer = (*cluster)(nil)
)

// startReplicas gives each node a replica that follows it over a link of its own,
// where the scenario wants them, and returns once all are in step.
func (c *cluster) startReplicas(s scenario.Scenario, bin string) error {
	if s.Topology.Replicas == 0 {
		return nil
	}
	for _, node := range s.NodeNames() {
		l, err := c.mesh.OpenReplication(node, c.Server(node).Addr())
		if err != nil {
			return err
		}
		r, err := c.group.StartRedis(c.ctx, nemesis.LinkName(node, nemesis.Replica), bin, s.Topology.Persistence)
		if err != nil {
			return err
		}
		c.servers = append(c.servers, r)
		if err := c.Replicate(node, r, l.Addr()); err != nil {
			return err
		}
	}
	return nil
}

// gate keeps all data from and to a node until open is called.
func (c *cluster) gate(node string) (open func() error, err error) {
	end := c.mesh.Gate(node)
	return func() error { end(); return nil }, nil
}

// turn lets a node's links lead to its replica. The disk was the dead master's.
func (c *cluster) turn(node, upstream string) error {
	c.lives.Again(node, upstream, history.Failover)
	c.mesh.Turn(node, upstream)
	c.Disks.Forget(node)
	return nil
}
