//go:build linux

package process

import (
	"fmt"

	"lockpick/harness/real/disk"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

var (
	_ nemesis.PowerLoser = (*cluster)(nil)
	_ nemesis.Disker     = (*cluster)(nil)
	_ nemesis.Toucher    = (*cluster)(nil)
)

// mountDisks gives a disk that can be hit to each node whose disk or power the plan
// hits. The others keep their data where everybody does.
func (c *cluster) mountDisks(s scenario.Scenario) error {
	for _, node := range s.NodeNames() {
		if !disk.Hit(s.Plan, node) {
			continue
		}
		d, err := c.Disks.Mount(node, c.group.DataDir(node))
		if err != nil {
			return err
		}
		c.group.Cleanup(d.Unmount)
	}
	return nil
}

// Touch writes a key on a node, past the links, and reads it back.
func (c *cluster) Touch(node string) (string, error) {
	n := c.Server(node)
	if n == nil {
		return "", fmt.Errorf("touch %s: there is no such node", node)
	}
	back, err := n.Touch(c.ctx, c.Now().String())
	if err != nil {
		return "", err
	}
	return back + c.Unsynced(node), nil
}
