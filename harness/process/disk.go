//go:build linux

package process

import (
	"lockpick/harness/real/disk"
	"lockpick/harness/scenario"
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
