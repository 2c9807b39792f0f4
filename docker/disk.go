//go:build linux

package docker

import (
	"fmt"
	"os"
	"slices"

	"lockpick/docker/engine"
	"lockpick/harness/real/fuse"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
)

// mountDisks gives a disk to each node whose disk or power the plan hits, below a directory
// of this machine that is bound into the container.
func (c *cluster) mountDisks(s scenario.Scenario) (err error) {
	if slices.ContainsFunc(s.NodeNames(), func(node string) bool { return fuse.Hit(s.Plan, node) }) {
		if c.group, err = proc.NewGroup(os.TempDir()); err != nil {
			return err
		}
	}
	return c.Disks.MountHit(s.Plan, s.NodeNames(), c.group)
}

// lacksDisk says why there can be no disks on this machine that an engine can give to
// containers; both are "" where there can be.
func lacksDisk(e *engine.Engine, a engine.About) (reason, remedy string) {
	if !e.IsHere(a) {
		return "disks are file systems of this process, and the engine may be on another machine", "run lockpick where the engine is"
	}
	if os.Geteuid() != 0 { // or the engine could not look into them
		return "disks are file systems of this process, and only root can let the engine use them", "run as root, or use --backend process"
	}
	if !e.SharesFiles() {
		return "disks are file systems of this process, and the engine sees other files: one of both is in a container", "run lockpick outside of containers, or use --backend process"
	}
	group, err := proc.NewGroup(os.TempDir())
	if err == nil {
		err = group.Close()
	}
	if err != nil {
		return "disks are in a folder of this machine: " + err.Error(), files.Remedy(err, files.TempDirHint)
	}
	return fuse.Missing()
}

// LosePower cuts a node's power, if it is not just being started or ended.
func (c *cluster) LosePower(node string, torn bool) (string, error) {
	if c.Nodes.Server(node) == nil {
		return "", fmt.Errorf("cut the power of %s: there is no such node", node)
	}
	n := c.at(node)
	n.changing.Lock() // before it is off: who starts meanwhile would find a disk without power
	defer n.changing.Unlock()
	return c.Disks.LosePower(node, torn)
}
