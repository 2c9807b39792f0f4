//go:build linux

package fuse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"lockpick/harness/real/proc"
)

// Disk is one mounted file system.
type Disk struct {
	dir   string
	ended chan struct{} // it is served no more

	power sync.Mutex // of who cuts it, or looks whether requests come back

	mu      sync.Mutex // guards what follows, and all nodes
	root    *node
	ino     uint64
	off     bool          // it has no power: nothing more reaches it
	full    bool          // it has no room
	harmed  bool          // once
	stalled chan struct{} // closed when syncs come back; nil: they do
	met     int           // syncs that had to wait, and writes that found no room, since it was harmed
}

// Mount mounts an empty disk on a directory.
func Mount(dir string) (*Disk, error) {
	d := &Disk{dir: dir, ended: make(chan struct{})}
	d.root = d.newNode(true)
	fd, err := mount(dir)
	if err != nil {
		return nil, err
	}
	// The kernel must remember nothing, so that a power loss needs no new mount.
	var never time.Duration
	server, err := fuse.NewServer(
		fs.NewNodeFS(d.root, &fs.Options{
			EntryTimeout: &never, AttrTimeout: &never, NegativeTimeout: &never,
			RootStableAttr: &fs.StableAttr{Ino: d.root.ino, Mode: syscall.S_IFDIR},
		}),
		fmt.Sprintf("/dev/fd/%d", fd), // it is mounted already
		&fuse.MountOptions{FsName: fsName, Name: fsName, DisableXAttrs: true})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve the file system on %s: %w", dir, err), syscall.Close(fd), proc.Unmount(dir))
	}
	go func() {
		server.Serve()
		close(d.ended)
	}()
	return d, nil
}

// unmountBound is how long the kernel may take to let go of a disk that nobody uses.
const unmountBound = 5 * time.Second

// Unmount ends the disk and all that is on it. Whoever used it must have ended.
func (d *Disk) Unmount() error {
	if err := proc.Unmount(d.dir); err != nil {
		return err
	}
	select {
	case <-d.ended:
		return nil
	case <-time.After(unmountBound):
		return proc.Late(fmt.Sprintf("unmount %s: it is still served after %v", d.dir, unmountBound))
	}
}

// LosePower cuts the power: from its first moment on nothing more reaches the disk,
// kill ends who uses it, and what is on disk is all that there is. Torn leaves half
// of the first write that was lost in each file. It says what was lost.
func (d *Disk) LosePower(kill func() (string, error), torn bool) (readBack string, err error) {
	d.power.Lock()
	defer d.power.Unlock()
	d.mu.Lock()
	d.off, d.harmed = true, true
	d.mu.Unlock()
	killed, err := kill()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = false
	if err != nil {
		return "", err
	}
	lost := d.unsynced()
	d.root.revert(torn)
	if left := d.unsynced(); len(left) > 0 {
		return "", fmt.Errorf("lose the power of %s: %s is still there", d.dir, strings.Join(left, ", "))
	}
	if len(lost) == 0 {
		return killed + "; its disk lost 0 records, for all was synced", nil
	}
	return killed + "; lost " + strings.Join(lost, ", "), nil
}

// Unsynced lists what a power loss would take now.
func (d *Disk) Unsynced() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unsynced()
}

func (d *Disk) unsynced() []string {
	var out []string
	d.root.walk("", func(path string, n *node, committed bool) {
		switch {
		case !committed:
			out = append(out, path+" as a whole")
		case n.file.changed():
			out = append(out, fmt.Sprintf("%d bytes of %s", max(len(n.file.data)-len(n.file.disk), 0), path))
		}
	})
	slices.Sort(out)
	return out
}

// probeBound is how long a sync may take that isn't stalled. It takes microseconds.
const probeBound = 20 * time.Millisecond

// stall lets no sync come back until Free, and sees that one doesn't.
func (d *Disk) stall() (readBack string, err error) {
	d.mu.Lock()
	if d.stalled != nil || d.full {
		d.mu.Unlock()
		return "", fmt.Errorf("stall %s: it is slow or full already", d.dir)
	}
	d.stalled, d.harmed = make(chan struct{}), true
	d.met = -1 // our own doesn't count
	d.mu.Unlock()
	if errno := d.probeSync(); errno != syscall.EINTR {
		return "", fmt.Errorf("stall %s: a sync came back with %v", d.dir, errno)
	}
	return fmt.Sprintf("a sync did not come back in %v", probeBound), nil
}

// Stalled says whether syncs don't come back.
func (d *Disk) Stalled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stalled != nil
}

// Harmed says whether anything was done to it. A server may end by itself then.
func (d *Disk) Harmed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.harmed
}

// Fill lets every write fail for want of room until Free, and sees that one does.
func (d *Disk) Fill() (readBack string, err error) {
	d.mu.Lock()
	if d.stalled != nil || d.full {
		d.mu.Unlock()
		return "", fmt.Errorf("fill %s: it is slow or full already", d.dir)
	}
	d.full, d.harmed = true, true
	d.met = -1
	d.mu.Unlock()
	if errno := d.probeWrite(); errno != syscall.ENOSPC {
		return "", fmt.Errorf("fill %s: a write came back with %v", d.dir, errno)
	}
	return "a write said: " + syscall.ENOSPC.Error(), nil
}

// Met is how many syncs had to wait since Stall, or writes found no room since Fill.
func (d *Disk) Met() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.met
}

// free ends Stall and Fill, and sees that writes and syncs come back: where the power is being cut, as soon as
// that is over.
func (d *Disk) free() (readBack string, err error) {
	d.mu.Lock()
	if d.stalled != nil {
		close(d.stalled)
		d.stalled = nil
	}
	d.full = false
	d.mu.Unlock()
	d.power.Lock()
	defer d.power.Unlock()
	if errno := d.probeWrite(); errno != 0 {
		return "", fmt.Errorf("free %s: a write came back with %v", d.dir, errno)
	}
	if errno := d.probeSync(); errno != 0 {
		return "", fmt.Errorf("free %s: a sync came back with %v", d.dir, errno)
	}
	return "a write and a sync came back", nil
}

// The probes are requests as the kernel hands them in, to a file that is in no
// directory: through the mount this process would wait for itself.

func (d *Disk) probeSync() syscall.Errno {
	ctx, cancel := context.WithTimeout(context.Background(), probeBound)
	defer cancel()
	return d.probe().Fsync(ctx, nil, 0)
}

func (d *Disk) probeWrite() syscall.Errno {
	_, errno := d.probe().Write(context.Background(), nil, []byte("probe"), 0)
	return errno
}

func (d *Disk) probe() *node {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &node{d: d}
}
