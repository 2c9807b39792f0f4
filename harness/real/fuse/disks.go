//go:build linux

package fuse

import (
	"fmt"
	"lockpick/harness/real/proc"
	"os"
	"slices"
	"strings"
	"sync"

	"lockpick/nemesis"
)

// Hit says whether a plan hits a node's disk or its power.
func Hit(plan nemesis.Plan, node string) bool {
	return slices.ContainsFunc(plan, func(st nemesis.Step) bool {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		power := kind.Capability(nemesis.Node)
		return (power == LosesPower || power == HitsDisks) && slices.Contains(st.Fault.Targets, node)
	})
}

// Disks is the disks of a run's nodes, as far as they can be hit.
type Disks struct {
	Kill func(node string) (readBack string, err error)
	Runs func(node string) bool
	// Around, if it is set, is called before a disk is stalled, filled or freed, and what it
	// returns after that.
	Around func(node string) (done func())

	mu    sync.Mutex
	disks map[string]*Disk
}

var (
	_ nemesis.PowerLoser = (*Disks)(nil)
	_ nemesis.Disker     = (*Disks)(nil)
)

// mount gives a node a disk on a directory that it makes.
func (ds *Disks) mount(node, dir string) (*Disk, error) {
	if reason, remedy := Missing(); reason != "" {
		return nil, fmt.Errorf("make the disk of %s: %s; to fix it: %s", node, reason, remedy)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the disk of %s: %w", node, err)
	}
	d, err := Mount(dir)
	if err != nil {
		return nil, err
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.disks == nil {
		ds.disks = map[string]*Disk{}
	}
	ds.disks[node] = d
	return d, nil
}

// MountHit gives a disk to each node whose disk or power a plan hits, where the group has
// the node's data; the group unmounts it.
func (ds *Disks) MountHit(plan nemesis.Plan, nodes []string, group *proc.Group) error {
	for _, node := range nodes {
		if !Hit(plan, node) {
			continue
		}
		d, err := ds.mount(node, group.DataDir(node))
		if err != nil {
			return err
		}
		group.Cleanup(d.Unmount)
	}
	return nil
}

// Of is a node's disk; nil: it has none that can be hit.
func (ds *Disks) Of(node string) *Disk {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.disks[node]
}

// Forget says that what runs as the node has no such disk any more.
func (ds *Disks) Forget(node string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.disks, node)
}

// Stalled says whether a node may wait for its disk.
func (ds *Disks) Stalled(node string) bool {
	d := ds.Of(node)
	return d != nil && d.Stalled()
}

// Unsynced says what a node would lose without power; "": nothing, or no power to lose.
func (ds *Disks) Unsynced(node string) string {
	if d := ds.Of(node); d != nil {
		if left := d.Unsynced(); len(left) > 0 {
			return "; not synced: " + strings.Join(left, ", ")
		}
	}
	return ""
}

func (ds *Disks) of(verb, node string) (*Disk, error) {
	if d := ds.Of(node); d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("%s %s: it has no disk that can be hit", verb, node)
}

// harmable is of for what a node must be there to notice.
func (ds *Disks) harmable(verb, node string) (*Disk, error) {
	d, err := ds.of(verb, node)
	if err == nil && !ds.Runs(node) {
		return nil, fmt.Errorf("%s %s: it is down", verb, node)
	}
	return d, err
}

func (ds *Disks) around(node string) (done func()) {
	if ds.Around == nil {
		return func() {}
	}
	return ds.Around(node)
}

// LosePower cuts a node's power.
func (ds *Disks) LosePower(node string, torn bool) (string, error) {
	d, err := ds.of("cut the power of", node)
	if err != nil {
		return "", err
	}
	return d.LosePower(func() (string, error) { return ds.Kill(node) }, torn)
}

// StallSync lets no sync of a node's disk come back.
func (ds *Disks) StallSync(node string) (string, error) {
	defer ds.around(node)()
	d, err := ds.harmable("slow the disk of", node)
	if err != nil {
		return "", err
	}
	return d.stall()
}

// FillDisk leaves no room on a node's disk.
func (ds *Disks) FillDisk(node string) (string, error) {
	defer ds.around(node)()
	d, err := ds.harmable("fill the disk of", node)
	if err != nil {
		return "", err
	}
	return d.Fill()
}

// FreeDisk ends both.
func (ds *Disks) FreeDisk(node string) (string, error) {
	defer ds.around(node)()
	d, err := ds.of("free the disk of", node)
	if err != nil {
		return "", err
	}
	back, err := d.free()
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
