//go:build linux

package process

import (
	"fmt"

	"lockpick/harness"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

var _ nemesis.FailOverer = (*cluster)(nil)

// startReplicas gives each node a replica that follows it over a link of its own,
// where the scenario wants them, and returns once all are in step.
func (c *cluster) startReplicas(s harness.Scenario, bin string) error {
	if s.Topology.Replicas == 0 {
		return nil
	}
	for _, node := range s.NodeNames() {
		l, err := c.mesh.OpenReplication(node, c.nodes[node].Addr())
		if err != nil {
			return err
		}
		r, err := c.group.StartRedis(c.ctx, nemesis.LinkName(node, nemesis.Replica), bin, s.Topology.Persistence)
		if err != nil {
			return err
		}
		if err := r.Follow(c.ctx, l.Addr()); err != nil {
			return err
		}
		c.replicas[node] = r
	}
	return nil
}

// FailOver kills a node's master and lets the replica take its place behind the
// clients' links. Whoever connects meanwhile finds nobody.
func (c *cluster) FailOver(node string) (string, error) {
	c.mu.Lock()
	master, replica := c.nodes[node], c.replicas[node]
	c.mu.Unlock()
	if replica == nil {
		return "", fmt.Errorf("fail over %s: it has no replica", node)
	}
	defer c.mesh.Gate(node)()
	dead, err := master.Kill()
	if err != nil {
		return "", err
	}
	back, err := replica.Promote(c.ctx)
	if err != nil {
		return "", err
	}
	c.takePlace(node, replica)
	return back + "; " + dead, nil
}

// takePlace puts a promoted replica behind the clients' links.
func (c *cluster) takePlace(node string, replica *proc.Redis) {
	c.mesh.Turn(node, replica.Addr())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[node] = replica
	delete(c.replicas, node)
	delete(c.disks, node) // it was the dead master's
}
