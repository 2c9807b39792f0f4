//go:build linux

package process

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"lockpick/harness"
	"lockpick/harness/real/disk"
	"lockpick/nemesis"
)

var (
	_ nemesis.PowerLoser = (*cluster)(nil)
	_ nemesis.Disker     = (*cluster)(nil)
	_ nemesis.Toucher    = (*cluster)(nil)
)

// mountDisks gives a disk that can be hit to each node whose disk or power the plan
// hits. The others keep their data where everybody does.
func (c *cluster) mountDisks(s harness.Scenario) error {
	for _, node := range s.NodeNames() {
		if !hitsDisk(s.Plan, node) {
			continue
		}
		if reason, remedy := disk.Missing(); reason != "" {
			return fmt.Errorf("make the disk of %s: %s; to fix it: %s", node, reason, remedy)
		}
		dir := c.group.DataDir(node)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make the disk of %s: %w", node, err)
		}
		d, err := disk.Mount(dir)
		if err != nil {
			return err
		}
		c.group.Cleanup(d.Unmount)
		c.disks[node] = d
	}
	return nil
}

func hitsDisk(plan nemesis.Plan, node string) bool {
	return slices.ContainsFunc(plan, func(st nemesis.Step) bool {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		power := kind.Capability(nemesis.Node)
		return (power == losesPower || power == hitsDisks) && slices.Contains(st.Fault.Targets, node)
	})
}

// disk is a node's disk, if it is one that can be hit.
func (c *cluster) disk(node string) *disk.Disk {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disks[node]
}

func (c *cluster) mounted(verb, node string) (*disk.Disk, error) {
	if d := c.disk(node); d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("%s %s: it has no disk that can be hit", verb, node)
}

// harmable is mounted for what a node must be there to notice.
func (c *cluster) harmable(verb, node string) (*disk.Disk, error) {
	d, err := c.mounted(verb, node)
	if err == nil && !c.Server(node).Runs() {
		return nil, fmt.Errorf("%s %s: it is down", verb, node)
	}
	return d, err
}

// LosePower cuts a node's power.
func (c *cluster) LosePower(node string, torn bool) (string, error) {
	d, err := c.mounted("cut the power of", node)
	if err != nil {
		return "", err
	}
	return d.LosePower(c.Server(node).Kill, torn)
}

// StallSync lets no sync of a node's disk come back.
func (c *cluster) StallSync(node string) (string, error) {
	d, err := c.harmable("slow the disk of", node)
	if err != nil {
		return "", err
	}
	return d.Stall()
}

// FillDisk leaves no room on a node's disk.
func (c *cluster) FillDisk(node string) (string, error) {
	d, err := c.harmable("fill the disk of", node)
	if err != nil {
		return "", err
	}
	return d.Fill()
}

// FreeDisk ends both.
func (c *cluster) FreeDisk(node string) (string, error) {
	d, err := c.mounted("free the disk of", node)
	if err != nil {
		return "", err
	}
	back, err := d.Free()
	if err != nil {
		return "", err
	}
	met := d.Met()
	back = fmt.Sprintf("it met %d writes and syncs; %s", met, back)
	if met == 0 {
		return back, nemesis.ErrIdle
	}
	return back, nil
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
	if d := c.disk(node); d != nil {
		if left := d.Unsynced(); len(left) > 0 {
			back += "; not synced: " + strings.Join(left, ", ")
		}
	}
	return back, nil
}
