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

// content is the bytes of a file, as they are seen and as they are on disk.
type content struct {
	data  []byte
	disk  []byte // may share data's array, but never beyond its own length
	first int    // bytes of the first write since the last sync, if it was to the end
}

// changed says whether a file is not as it is on disk.
func (c *content) changed() bool { return string(c.data) != string(c.disk) }

func (c *content) synced() { c.disk, c.first = c.data[:len(c.data):len(c.data)], 0 }

func (c *content) set(b []byte) { c.data, c.first = b, 0 }

// revert makes all as it is on disk, but for half of the first write since then if it is torn.
func (c *content) revert(torn bool) {
	kept := slices.Clone(c.disk)
	if at := len(c.disk); torn && c.first > 1 && at+c.first <= len(c.data) {
		kept = append(kept, c.data[at:at+c.first/2]...)
	}
	c.set(kept)
	c.synced()
}

// resize cuts a file, or fills it up with zeros.
func (c *content) resize(size uint64) {
	b := make([]byte, size)
	copy(b, c.data)
	c.set(b)
}

func (c *content) write(b []byte, at int64) {
	if at < int64(len(c.disk)) { // what is on disk shares the array
		c.data = slices.Clone(c.data)
	}
	if !c.changed() && at == int64(len(c.data)) {
		c.first = len(b)
	}
	if gap := at - int64(len(c.data)); gap > 0 {
		c.data = append(c.data, make([]byte, gap)...)
	}
	if over := len(c.data) - int(at); over >= len(b) {
		copy(c.data[at:], b)
	} else {
		c.data = append(c.data[:at], b...)
	}
}

const (
	fsName     = proc.DiskName
	fusermount = "fusermount3"
)

// mount mounts a FUSE file system on dir and returns the descriptor that it is served
// by. The descriptor is closed on exec from its first moment: a redis-server that
// inherits it keeps the file system alive when we are killed, and hangs on it for ever.
// That is why the mount isn't left to go-fuse, which opens the device without.
func mount(dir string) (fd int, err error) {
	if !mayMount() {
		return mountAsUser(dir)
	}
	if fd, err = openDevice(); err != nil {
		return -1, fmt.Errorf("open %s: %w", device, err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", fd, os.Geteuid(), os.Getegid())
	if err := unix.Mount(fsName, dir, "fuse."+fsName, unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount a file system on %s: %w; in a container try --user 0 --cap-add SYS_ADMIN --security-opt apparmor=unconfined", dir, err)
	}
	return fd, nil
}

// mountAsUser lets fusermount3, which is setuid root, mount; it sends the descriptor
// over a socket.
func mountAsUser(dir string) (fd int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make a pair of sockets: %w", err)
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "fusermount")
	defer theirs.Close()
	cmd := exec.Command(fusermount, "-o", "nosuid,nodev,fsname="+fsName+",subtype="+fsName, "--", dir)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs}
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
		return -1, errors.Join(errors.New("get the file system's descriptor: none came"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errors.New("get the file system's descriptor: none came"), err)
	}
	return fds[0], nil
}

const device = "/dev/fuse"

// Remedy is for a machine that has all and lets nobody mount.
const Remedy = "in a container: --user 0 --cap-add SYS_ADMIN --security-opt apparmor=unconfined; elsewhere see that fusermount3 is setuid root, or run as root"

// Missing says why there can be no such disk on this machine, and what to do about
// it; both are "" where there can be. It mounts nothing.
func Missing() (reason, remedy string) {
	fd, err := openDevice()
	if err != nil {
		return fmt.Sprintf("can't open %s: %v", device, err), "modprobe fuse; in a container: --user 0 --device /dev/fuse --cap-add SYS_ADMIN"
	}
	unix.Close(fd)
	if mayMount() {
		return "", ""
	}
	if _, err := exec.LookPath(fusermount); err != nil {
		return "only root may mount, and " + fusermount + " is not on PATH", "apt-get install fuse3, or run as root"
	}
	return "", ""
}

func openDevice() (int, error) { return unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0) }

// mayMount says whether this process has the capability CAP_SYS_ADMIN in effect.
func mayMount() bool {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), "\nCapEff:")
	var effective uint64
	fmt.Sscanf(rest, "%x", &effective)
	return effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
