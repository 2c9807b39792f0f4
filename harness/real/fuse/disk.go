//go:build linux

package fuse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

// Disk is a mounted file system that can lose power, stall or be full.
type Disk struct {
	dir  string
	done chan struct{} // closed when the file system is no longer served

	powerMu sync.Mutex // held during a power cut, and while a probe checks that requests complete

	mu       sync.Mutex // guards the fields below and all nodes
	root     *node
	ino      uint64
	powerOff bool          // all requests fail
	full     bool          // writes fail for lack of space
	hadFault bool          // whether the disk has had any fault
	stallEnd chan struct{} // closed when syncs complete again; nil unless they block
	affected int           // number of blocked syncs and failed writes since the last fault began
}

// Mount mounts an empty disk on a directory.
func Mount(dir string) (*Disk, error) {
	d := &Disk{dir: dir, done: make(chan struct{})}
	d.root = d.newNode(true)
	fd, err := mount(dir)
	if err != nil {
		return nil, err
	}
	// The kernel must not cache entries, or the disk would need to be remounted after a power loss.
	var noCache time.Duration
	server, err := fuse.NewServer(
		fs.NewNodeFS(d.root, &fs.Options{
			EntryTimeout: &noCache, AttrTimeout: &noCache, NegativeTimeout: &noCache,
			RootStableAttr: &fs.StableAttr{Ino: d.root.ino, Mode: syscall.S_IFDIR},
		}),
		fmt.Sprintf("/dev/fd/%d", fd), // the file system is already mounted
		&fuse.MountOptions{FsName: fsName, Name: fsName, DisableXAttrs: true})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve the file system on %s: %w", dir, err), syscall.Close(fd), proc.Unmount(dir))
	}
	go func() {
		server.Serve()
		close(d.done)
	}()
	return d, nil
}

// unmountTimeout limits the time that the kernel takes to release an unused disk.
const unmountTimeout = 5 * time.Second

// Unmount removes the disk and its data. The processes that used the disk must have exited.
func (d *Disk) Unmount() error {
	if err := proc.Unmount(d.dir); err != nil {
		return err
	}
	select {
	case <-d.done:
		return nil
	case <-time.After(unmountTimeout):
		return proc.TimeoutError(fmt.Sprintf("unmount %s: still in use after %v", d.dir, unmountTimeout))
	}
}

// LosePower cuts the power: it blocks all requests to the disk, calls kill to end the processes
// that use the disk, and drops all unsynced data. If torn is set, half of the first lost write to
// each file survives. The read-back lists what was lost.
func (d *Disk) LosePower(kill func() (string, error), torn bool) (readBack string, err error) {
	d.powerMu.Lock()
	defer d.powerMu.Unlock()
	d.mu.Lock()
	d.powerOff, d.hadFault = true, true
	d.mu.Unlock()
	killReadBack, err := kill()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.powerOff = false
	if err != nil {
		return "", err
	}
	lost := d.listUnsynced()
	d.root.revert(torn)
	if remaining := d.listUnsynced(); len(remaining) > 0 {
		return "", fmt.Errorf("cut the power of %s: still unsynced: %s", d.dir, strings.Join(remaining, ", "))
	}
	if len(lost) == 0 {
		return killReadBack + "; its disk lost 0 records, all was synced", nil
	}
	return killReadBack + "; lost " + strings.Join(lost, ", "), nil
}

// ListUnsynced lists what a power cut would lose now.
func (d *Disk) ListUnsynced() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.listUnsynced()
}

func (d *Disk) listUnsynced() []string {
	var list []string
	d.root.walk("", func(path string, n *node, committed bool) {
		switch {
		case !committed:
			list = append(list, path+" as a whole")
		case n.file.isDirty():
			list = append(list, fmt.Sprintf("%d bytes of %s", max(len(n.file.data)-len(n.file.synced), 0), path))
		}
	})
	slices.Sort(list)
	return list
}

// probeTimeout limits a sync on a disk that isn't stalled. Normally, a sync takes microseconds.
const probeTimeout = 20 * time.Millisecond

// stall blocks all syncs until free is called, and checks with a probe that they block.
func (d *Disk) stall() (readBack string, err error) {
	d.mu.Lock()
	if d.stallEnd != nil || d.full {
		d.mu.Unlock()
		return "", fmt.Errorf("stall %s: the disk is already stalled or full", d.dir)
	}
	d.stallEnd, d.hadFault = make(chan struct{}), true
	d.affected = -1 // the probe does not count
	d.mu.Unlock()
	if errno := d.probeSync(); errno != syscall.EINTR {
		return "", fmt.Errorf("stall %s: a sync completed with %v", d.dir, errno)
	}
	return fmt.Sprintf("a sync did not complete within %v", probeTimeout), nil
}

// IsStalled reports whether syncs are blocked.
func (d *Disk) IsStalled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stallEnd != nil
}

// HadFault reports whether the disk has had any fault. If so, a server that uses it may exit on its
// own.
func (d *Disk) HadFault() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hadFault
}

// Fill makes every write fail for lack of space until free is called, and checks with a probe that
// writes fail.
func (d *Disk) Fill() (readBack string, err error) {
	d.mu.Lock()
	if d.stallEnd != nil || d.full {
		d.mu.Unlock()
		return "", fmt.Errorf("fill %s: the disk is already stalled or full", d.dir)
	}
	d.full, d.hadFault = true, true
	d.affected = -1
	d.mu.Unlock()
	if errno := d.probeWrite(); errno != syscall.ENOSPC {
		return "", fmt.Errorf("fill %s: a write completed with %v", d.dir, errno)
	}
	return "a write failed: " + syscall.ENOSPC.Error(), nil
}

// AffectedCount returns how many syncs have blocked since stall was called, or how many writes have
// failed since Fill was called.
func (d *Disk) AffectedCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.affected
}

// free ends the effect of stall or Fill, and checks that writes and syncs complete. If a power cut
// is in progress, free first waits for its end.
func (d *Disk) free() (readBack string, err error) {
	d.mu.Lock()
	if d.stallEnd != nil {
		close(d.stallEnd)
		d.stallEnd = nil
	}
	d.full = false
	d.mu.Unlock()
	d.powerMu.Lock()
	defer d.powerMu.Unlock()
	if errno := d.probeWrite(); errno != 0 {
		return "", fmt.Errorf("free %s: a write completed with %v", d.dir, errno)
	}
	if errno := d.probeSync(); errno != 0 {
		return "", fmt.Errorf("free %s: a sync completed with %v", d.dir, errno)
	}
	return "a write and a sync completed", nil
}

// The probes are requests like the kernel's, for a file without a directory entry. If they went
// through the mount, this process would wait for itself.

func (d *Disk) probeSync() syscall.Errno {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
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
	return &node{disk: d}
}

// HasFaults reports whether a plan has disk or power faults for a node.
func HasFaults(plan nemesis.Plan, node string) bool {
	return slices.ContainsFunc(plan, func(st nemesis.Step) bool {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		power := kind.Capability(nemesis.Node)
		return (power == PowerLoss || power == DiskFaults) && slices.Contains(st.Fault.Targets, node)
	})
}

// Disks holds a run's disks. Nodes without disk or power faults have none.
type Disks struct {
	Kill    func(node string) (readBack string, err error)
	Running func(node string) bool
	// WrapFault, if set, is called before a disk is stalled, filled or freed, and the function that
	// it returns is called afterward.
	WrapFault func(node string) (done func())

	mu    sync.Mutex
	disks map[string]*Disk
}

var (
	_ nemesis.PowerLoser  = (*Disks)(nil)
	_ nemesis.DiskFaulter = (*Disks)(nil)
)

// mount creates a directory and mounts a disk for the node on it.
func (ds *Disks) mount(node, dir string) (*Disk, error) {
	if reason, remedy := Missing(); reason != "" {
		return nil, fmt.Errorf("create the disk of %s: %s; to fix it: %s", node, reason, remedy)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the disk of %s: %w", node, err)
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

// MountForFaults mounts a disk on the data directory of each node for which the plan has disk or
// power faults. The group unmounts the disks.
func (ds *Disks) MountForFaults(plan nemesis.Plan, nodes []string, group *proc.Group) error {
	for _, node := range nodes {
		if !HasFaults(plan, node) {
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

// Disk returns a node's disk, or nil.
func (ds *Disks) Disk(node string) *Disk {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.disks[node]
}

// Forget removes a node's disk from the set, because the server that now runs as the node does not
// use it.
func (ds *Disks) Forget(node string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.disks, node)
}

// IsStalled reports whether a node may be waiting for a stalled disk.
func (ds *Disks) IsStalled(node string) bool {
	d := ds.Disk(node)
	return d != nil && d.IsStalled()
}

// DescribeUnsynced describes the data that a node would lose in a power loss, or returns "" if
// there is none.
func (ds *Disks) DescribeUnsynced(node string) string {
	if d := ds.Disk(node); d != nil {
		if unsynced := d.ListUnsynced(); len(unsynced) > 0 {
			return "; not synced: " + strings.Join(unsynced, ", ")
		}
	}
	return ""
}

func (ds *Disks) find(verb, node string) (*Disk, error) {
	if d := ds.Disk(node); d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("%s %s: the node has no disk for faults", verb, node)
}

// findRunning is like find, but for faults that need a running node.
func (ds *Disks) findRunning(verb, node string) (*Disk, error) {
	d, err := ds.find(verb, node)
	if err == nil && !ds.Running(node) {
		return nil, fmt.Errorf("%s %s: it is down", verb, node)
	}
	return d, err
}

func (ds *Disks) wrapFault(node string) (done func()) {
	if ds.WrapFault == nil {
		return func() {}
	}
	return ds.WrapFault(node)
}

// LosePower cuts a node's power.
func (ds *Disks) LosePower(node string, torn bool) (string, error) {
	d, err := ds.find("cut the power of", node)
	if err != nil {
		return "", err
	}
	return d.LosePower(func() (string, error) { return ds.Kill(node) }, torn)
}

// StallSync blocks all syncs on a node's disk.
func (ds *Disks) StallSync(node string) (string, error) {
	defer ds.wrapFault(node)()
	d, err := ds.findRunning("slow the disk of", node)
	if err != nil {
		return "", err
	}
	return d.stall()
}

// FillDisk makes all writes to a node's disk fail for lack of space.
func (ds *Disks) FillDisk(node string) (string, error) {
	defer ds.wrapFault(node)()
	d, err := ds.findRunning("fill the disk of", node)
	if err != nil {
		return "", err
	}
	return d.Fill()
}

// FreeDisk ends the effect of StallSync or FillDisk.
func (ds *Disks) FreeDisk(node string) (string, error) {
	defer ds.wrapFault(node)()
	d, err := ds.find("free the disk of", node)
	if err != nil {
		return "", err
	}
	readBack, err := d.free()
	if err != nil {
		return "", err
	}
	affected := d.AffectedCount()
	readBack = fmt.Sprintf("it met %d writes and syncs; %s", affected, readBack)
	if affected == 0 {
		return readBack, nemesis.ErrIdle
	}
	return readBack, nil
}

// content holds a file's data as programs see it and as last synced.
type content struct {
	data       []byte
	synced     []byte // synced data; may share data's array up to its own length
	firstWrite int    // size of the first write since the last sync, if that write was an append
}

// isDirty reports whether the file has unsynced data.
func (c *content) isDirty() bool { return string(c.data) != string(c.synced) }

func (c *content) markSynced() { c.synced, c.firstWrite = c.data[:len(c.data):len(c.data)], 0 }

func (c *content) set(b []byte) { c.data, c.firstWrite = b, 0 }

// revert restores the synced state. If torn is set, half of the first write after the last sync
// survives.
func (c *content) revert(torn bool) {
	data := slices.Clone(c.synced)
	if at := len(c.synced); torn && c.firstWrite > 1 && at+c.firstWrite <= len(c.data) {
		data = append(data, c.data[at:at+c.firstWrite/2]...)
	}
	c.set(data)
	c.markSynced()
}

// resize truncates the file or extends it with zeros.
func (c *content) resize(size uint64) {
	b := make([]byte, size)
	copy(b, c.data)
	c.set(b)
}

func (c *content) write(b []byte, at int64) {
	if at < int64(len(c.synced)) { // the synced data shares the array
		c.data = slices.Clone(c.data)
	}
	if !c.isDirty() && at == int64(len(c.data)) {
		c.firstWrite = len(b)
	}
	if gap := at - int64(len(c.data)); gap > 0 {
		c.data = append(c.data, make([]byte, gap)...)
	}
	if tail := len(c.data) - int(at); tail >= len(b) {
		copy(c.data[at:], b)
	} else {
		c.data = append(c.data[:at], b...)
	}
}

const (
	fsName     = proc.DiskName
	fusermount = "fusermount3"
)

// mount mounts a FUSE file system on dir and returns the descriptor that serves it. The descriptor
// has close-on-exec set from the beginning: a redis-server that inherited it would keep the file
// system alive after this process was killed, and would hang on it forever. go-fuse can't mount the
// file system, because it opens the device without close-on-exec.
func mount(dir string) (fd int, err error) {
	if !canMount() {
		return mountAsUser(dir)
	}
	if fd, err = openDevice(); err != nil {
		return -1, fmt.Errorf("open %s: %w", device, err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", fd, os.Geteuid(), os.Getegid())
	if err := unix.Mount(fsName, dir, "fuse."+fsName, unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount a file system on %s: %w; in a container, try --user 0 --cap-add SYS_ADMIN --security-opt apparmor=unconfined", dir, err)
	}
	return fd, nil
}

// mountAsUser mounts with fusermount3, which is setuid root and sends the descriptor over a socket.
func mountAsUser(dir string) (fd int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("create a socket pair: %w", err)
	}
	defer unix.Close(pair[0])
	child := os.NewFile(uintptr(pair[1]), "fusermount")
	defer child.Close()
	cmd := exec.Command(fusermount, "-o", "nosuid,nodev,fsname="+fsName+",subtype="+fsName, "--", dir)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{child}
	if out, err := cmd.CombinedOutput(); err != nil {
		return -1, fmt.Errorf("mount a file system on %s: %s: %w: %s", dir, fusermount, err, bytes.TrimSpace(out))
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 4), oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return -1, fmt.Errorf("get the file system's descriptor: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return -1, errors.Join(errors.New("get the file system's descriptor: none was sent"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errors.New("get the file system's descriptor: none was sent"), err)
	}
	return fds[0], nil
}

const device = "/dev/fuse"

// Remedy tells the user what to do if the machine has everything required but does not permit
// mounting.
const Remedy = "in a container: --user 0 --cap-add SYS_ADMIN --security-opt apparmor=unconfined; elsewhere, make sure that fusermount3 is setuid root, or run as root"

// Missing returns why disk faults are not supported on this machine, and a remedy. Both are "" if
// they are supported. Missing does not mount anything.
func Missing() (reason, remedy string) {
	fd, err := openDevice()
	if err != nil {
		return fmt.Sprintf("can't open %s: %v", device, err), "modprobe fuse; in a container: --user 0 --device /dev/fuse --cap-add SYS_ADMIN"
	}
	unix.Close(fd)
	if canMount() {
		return "", ""
	}
	if _, err := exec.LookPath(fusermount); err != nil {
		return "only root can mount, and " + fusermount + " is not on PATH", "apt-get install fuse3, or run as root"
	}
	return "", ""
}

func openDevice() (int, error) { return unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0) }

// canMount reports whether this process has the effective capability CAP_SYS_ADMIN.
func canMount() bool {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), "\nCapEff:")
	var effective uint64
	fmt.Sscanf(rest, "%x", &effective)
	return effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
