//go:build linux

package disk

import (
	"context"
	"maps"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node is a file or a directory, as it is seen and as it is on disk.
type node struct {
	fs.Inode
	d   *Disk
	ino uint64
	dir bool

	data  []byte // of a file
	disk  []byte // may share data's array, but never beyond its own length
	first int    // bytes of the first write since the last sync, if it was to the end

	entries   map[string]*node // of a directory
	committed map[string]*node
}

var (
	_ fs.NodeGetattrer = (*node)(nil)
	_ fs.NodeSetattrer = (*node)(nil)
	_ fs.NodeLookuper  = (*node)(nil)
	_ fs.NodeReaddirer = (*node)(nil)
	_ fs.NodeMkdirer   = (*node)(nil)
	_ fs.NodeCreater   = (*node)(nil)
	_ fs.NodeOpener    = (*node)(nil)
	_ fs.NodeReader    = (*node)(nil)
	_ fs.NodeWriter    = (*node)(nil)
	_ fs.NodeFsyncer   = (*node)(nil)
	_ fs.NodeFlusher   = (*node)(nil)
	_ fs.NodeUnlinker  = (*node)(nil)
	_ fs.NodeRmdirer   = (*node)(nil)
	_ fs.NodeRenamer   = (*node)(nil)
	_ fs.NodeStatfser  = (*node)(nil)
)

// newNode makes a node; the disk's lock is held, or nobody else has the disk yet.
func (d *Disk) newNode(dir bool) *node {
	d.ino++
	n := &node{d: d, ino: d.ino, dir: dir}
	if dir {
		n.entries, n.committed = map[string]*node{}, map[string]*node{}
	}
	return n
}

// lock takes the disk's lock, unless it has no power.
func (n *node) lock() (unlock func(), errno syscall.Errno) {
	n.d.mu.Lock()
	if n.d.off {
		n.d.mu.Unlock()
		return nil, syscall.EIO
	}
	return n.d.mu.Unlock, 0
}

// changed says whether a file is not as it is on disk.
func (n *node) changed() bool { return !n.dir && string(n.data) != string(n.disk) }

// walk calls f for each file, and whether the disk has its entry.
func (n *node) walk(path string, f func(path string, n *node, committed bool)) {
	for name, c := range n.entries {
		if c.dir {
			c.walk(path+name+"/", f)
		} else {
			f(path+name, c, n.committed[name] == c)
		}
	}
}

// revert makes all as it is on disk.
func (n *node) revert(torn bool) {
	if n.dir {
		n.entries = maps.Clone(n.committed)
		for _, c := range n.entries {
			c.revert(torn)
		}
		return
	}
	kept := slices.Clone(n.disk)
	if at := len(n.disk); torn && n.first > 1 && at+n.first <= len(n.data) {
		kept = append(kept, n.data[at:at+n.first/2]...)
	}
	n.setData(kept)
	n.synced()
}

// commit makes the entries of all directories durable.
func (n *node) commit() {
	n.committed = maps.Clone(n.entries)
	for _, c := range n.entries {
		if c.dir {
			c.commit()
		}
	}
}

func (n *node) synced() { n.disk, n.first = n.data[:len(n.data):len(n.data)], 0 }

func (n *node) setData(b []byte) { n.data, n.first = b, 0 }

// resize cuts a file, or fills it up with zeros.
func (n *node) resize(size uint64) {
	b := make([]byte, size)
	copy(b, n.data)
	n.setData(b)
}

func (n *node) attr(a *fuse.Attr) {
	a.Ino, a.Nlink = n.ino, 1
	if n.dir {
		a.Mode = syscall.S_IFDIR | 0o777
		return
	}
	a.Mode, a.Size = syscall.S_IFREG|0o666, uint64(len(n.data))
	a.Blocks = (a.Size + 511) / 512
}

func (n *node) mode() uint32 {
	if n.dir {
		return syscall.S_IFDIR
	}
	return syscall.S_IFREG
}

// child tells the kernel of a child.
func (n *node) child(ctx context.Context, c *node, out *fuse.EntryOut) *fs.Inode {
	c.attr(&out.Attr)
	return n.NewInode(ctx, c, fs.StableAttr{Mode: c.mode(), Ino: c.ino})
}

func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	unlock, errno := n.lock()
	if errno != 0 {
		return errno
	}
	defer unlock()
	n.attr(&out.Attr)
	return 0
}

func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	unlock, errno := n.lock()
	if errno != 0 {
		return errno
	}
	defer unlock()
	if size, ok := in.GetSize(); ok && !n.dir {
		if n.d.full && size > uint64(len(n.data)) {
			return syscall.ENOSPC
		}
		n.resize(size)
	}
	n.attr(&out.Attr)
	return 0
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	unlock, errno := n.lock()
	if errno != 0 {
		return nil, errno
	}
	defer unlock()
	c := n.entries[name]
	if c == nil {
		return nil, syscall.ENOENT
	}
	return n.child(ctx, c, out), 0
}

func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	unlock, errno := n.lock()
	if errno != 0 {
		return nil, errno
	}
	defer unlock()
	var list []fuse.DirEntry
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		c := n.entries[name]
		list = append(list, fuse.DirEntry{Name: name, Ino: c.ino, Mode: c.mode()})
	}
	return fs.NewListDirStream(list), 0
}

// add makes a child.
func (n *node) add(ctx context.Context, name string, dir bool, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	unlock, errno := n.lock()
	if errno != 0 {
		return nil, errno
	}
	defer unlock()
	if n.d.full {
		return nil, syscall.ENOSPC
	}
	c := n.d.newNode(dir)
	n.entries[name] = c
	return n.child(ctx, c, out), 0
}

func (n *node) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.add(ctx, name, true, out)
}

// Create and Open ask for direct I/O: the kernel keeps no pages.
func (n *node) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	c, errno := n.add(ctx, name, false, out)
	return c, nil, fuse.FOPEN_DIRECT_IO, errno
}

func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	unlock, errno := n.lock()
	if errno != 0 {
		return nil, 0, errno
	}
	defer unlock()
	if flags&syscall.O_TRUNC != 0 {
		n.resize(0)
	}
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (n *node) Read(_ context.Context, _ fs.FileHandle, to []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	unlock, errno := n.lock()
	if errno != 0 {
		return nil, errno
	}
	defer unlock()
	if at >= int64(len(n.data)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(to[:copy(to, n.data[at:])]), 0
}

func (n *node) Write(_ context.Context, _ fs.FileHandle, b []byte, at int64) (uint32, syscall.Errno) {
	unlock, errno := n.lock()
	if errno != 0 {
		return 0, errno
	}
	defer unlock()
	if n.d.full {
		n.d.met++
		return 0, syscall.ENOSPC
	}
	if at < int64(len(n.disk)) { // what is on disk shares the array
		n.data = slices.Clone(n.data)
	}
	if !n.changed() && at == int64(len(n.data)) {
		n.first = len(b)
	}
	if gap := at - int64(len(n.data)); gap > 0 {
		n.data = append(n.data, make([]byte, gap)...)
	}
	if over := len(n.data) - int(at); over >= len(b) {
		copy(n.data[at:], b)
	} else {
		n.data = append(n.data[:at], b...)
	}
	return uint32(len(b)), 0
}

// Fsync makes a file durable, and all entries with it. While the disk is stalled it
// waits; who is killed meanwhile need not, or it could not end.
func (n *node) Fsync(ctx context.Context, _ fs.FileHandle, _ uint32) syscall.Errno {
	for counted := false; ; counted = true {
		unlock, errno := n.lock()
		if errno != 0 {
			return errno
		}
		stalled := n.d.stalled
		if stalled != nil && !counted {
			n.d.met++
		}
		if stalled == nil {
			defer unlock()
			n.synced()
			n.d.root.commit()
			return 0
		}
		unlock()
		select {
		case <-stalled:
		case <-ctx.Done():
			return syscall.EINTR
		}
	}
}

func (n *node) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }

func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	unlock, errno := n.lock()
	if errno != 0 {
		return errno
	}
	defer unlock()
	if n.entries[name] == nil {
		return syscall.ENOENT
	}
	delete(n.entries, name)
	return 0
}

func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno { return n.Unlink(ctx, name) }

func (n *node) Rename(_ context.Context, name string, parent fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	if flags != 0 { // exchange, or not to replace: redis asks for neither
		return syscall.EINVAL
	}
	unlock, errno := n.lock()
	if errno != 0 {
		return errno
	}
	defer unlock()
	c := n.entries[name]
	if c == nil {
		return syscall.ENOENT
	}
	delete(n.entries, name)
	parent.(*node).entries[to] = c
	return 0
}

func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	unlock, errno := n.lock()
	if errno != 0 {
		return errno
	}
	defer unlock()
	const blocks = 1 << 20
	out.Bsize, out.Blocks = 4096, blocks
	if !n.d.full {
		out.Bfree, out.Bavail = blocks, blocks
	}
	return 0
}
