//go:build linux

package fuse

import (
	"context"
	"maps"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node is a file or directory, with its current state and its synced state.
type node struct {
	fs.Inode
	disk  *Disk
	ino   uint64
	isDir bool

	file content

	entries          map[string]*node // nil for a file
	committedEntries map[string]*node
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

// newNode creates a node. The caller holds the disk's lock, unless no other goroutine uses the disk
// yet.
func (d *Disk) newNode(isDir bool) *node {
	d.ino++
	n := &node{disk: d, ino: d.ino, isDir: isDir}
	if isDir {
		n.entries, n.committedEntries = map[string]*node{}, map[string]*node{}
	}
	return n
}

// ifPowered handles a request from the kernel by calling f with the disk's lock held. If the power
// is off, the request fails.
func (n *node) ifPowered(f func() syscall.Errno) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if n.disk.powerOff {
		return syscall.EIO
	}
	return f()
}

// walk calls f for each file below a directory. committed reports whether the file's directory
// entry is committed.
func (n *node) walk(path string, f func(path string, n *node, committed bool)) {
	for name, c := range n.entries {
		if c.isDir {
			c.walk(path+name+"/", f)
		} else {
			f(path+name, c, n.committedEntries[name] == c)
		}
	}
}

// revert restores the synced state of the node and everything below it.
func (n *node) revert(torn bool) {
	if n.isDir {
		n.entries = maps.Clone(n.committedEntries)
		for _, c := range n.entries {
			c.revert(torn)
		}
		return
	}
	n.file.revert(torn)
}

// commit makes the entries of all directories durable.
func (n *node) commit() {
	n.committedEntries = maps.Clone(n.entries)
	for _, c := range n.entries {
		if c.isDir {
			c.commit()
		}
	}
}

func (n *node) attr(a *fuse.Attr) {
	a.Ino, a.Nlink = n.ino, 1
	if n.isDir {
		a.Mode = syscall.S_IFDIR | 0o777
		return
	}
	a.Mode, a.Size = syscall.S_IFREG|0o666, uint64(len(n.file.data))
	a.Blocks = (a.Size + 511) / 512
}

func (n *node) mode() uint32 {
	if n.isDir {
		return syscall.S_IFDIR
	}
	return syscall.S_IFREG
}

// childInode returns the inode by which the kernel refers to a child.
func (n *node) childInode(ctx context.Context, c *node, out *fuse.EntryOut) *fs.Inode {
	c.attr(&out.Attr)
	return n.NewInode(ctx, c, fs.StableAttr{Mode: c.mode(), Ino: c.ino})
}

func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return n.ifPowered(func() syscall.Errno {
		n.attr(&out.Attr)
		return 0
	})
}

func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.ifPowered(func() syscall.Errno {
		if size, ok := in.GetSize(); ok && !n.isDir {
			if n.disk.full && size > uint64(len(n.file.data)) {
				return syscall.ENOSPC
			}
			n.file.resize(size)
		}
		n.attr(&out.Attr)
		return 0
	})
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (child *fs.Inode, errno syscall.Errno) {
	errno = n.ifPowered(func() syscall.Errno {
		c := n.entries[name]
		if c == nil {
			return syscall.ENOENT
		}
		child = n.childInode(ctx, c, out)
		return 0
	})
	return child, errno
}

func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	var list []fuse.DirEntry
	errno := n.ifPowered(func() syscall.Errno {
		for _, name := range slices.Sorted(maps.Keys(n.entries)) {
			c := n.entries[name]
			list = append(list, fuse.DirEntry{Name: name, Ino: c.ino, Mode: c.mode()})
		}
		return 0
	})
	return fs.NewListDirStream(list), errno
}

func (n *node) add(ctx context.Context, name string, isDir bool, out *fuse.EntryOut) (child *fs.Inode, errno syscall.Errno) {
	errno = n.ifPowered(func() syscall.Errno {
		if n.disk.full {
			return syscall.ENOSPC
		}
		c := n.disk.newNode(isDir)
		n.entries[name] = c
		child = n.childInode(ctx, c, out)
		return 0
	})
	return child, errno
}

func (n *node) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.add(ctx, name, true, out)
}

// Create and Open request direct I/O, so that the kernel does not cache pages.
func (n *node) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	c, errno := n.add(ctx, name, false, out)
	return c, nil, fuse.FOPEN_DIRECT_IO, errno
}

func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, n.ifPowered(func() syscall.Errno {
		if flags&syscall.O_TRUNC != 0 {
			n.file.resize(0)
		}
		return 0
	})
}

func (n *node) Read(_ context.Context, _ fs.FileHandle, to []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	read := 0
	errno := n.ifPowered(func() syscall.Errno {
		read = copy(to, n.file.data[min(at, int64(len(n.file.data))):])
		return 0
	})
	return fuse.ReadResultData(to[:read]), errno
}

func (n *node) Write(_ context.Context, _ fs.FileHandle, b []byte, at int64) (uint32, syscall.Errno) {
	return uint32(len(b)), n.ifPowered(func() syscall.Errno {
		if n.disk.full {
			n.disk.affected++
			return syscall.ENOSPC
		}
		n.file.write(b, at)
		return 0
	})
}

// Fsync makes a file and all directory entries durable. On a stalled disk, it blocks until the
// stall ends or the calling process is killed, because that process could not exit otherwise.
func (n *node) Fsync(ctx context.Context, _ fs.FileHandle, _ uint32) syscall.Errno {
	for counted := false; ; counted = true {
		var stallEnd chan struct{}
		errno := n.ifPowered(func() syscall.Errno {
			if stallEnd = n.disk.stallEnd; stallEnd == nil {
				n.file.markSynced()
				n.disk.root.commit()
			} else if !counted {
				n.disk.affected++
			}
			return 0
		})
		if errno != 0 || stallEnd == nil {
			return errno
		}
		select {
		case <-stallEnd:
		case <-ctx.Done():
			return syscall.EINTR
		}
	}
}

func (n *node) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }

func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	return n.ifPowered(func() syscall.Errno {
		if n.entries[name] == nil {
			return syscall.ENOENT
		}
		delete(n.entries, name)
		return 0
	})
}

func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno { return n.Unlink(ctx, name) }

func (n *node) Rename(_ context.Context, name string, parent fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	if flags != 0 { // exchange or no-replace, neither of which Redis uses
		return syscall.EINVAL
	}
	return n.ifPowered(func() syscall.Errno {
		c := n.entries[name]
		if c == nil {
			return syscall.ENOENT
		}
		delete(n.entries, name)
		parent.(*node).entries[to] = c
		return 0
	})
}

func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	return n.ifPowered(func() syscall.Errno {
		const blocks = 1 << 20
		out.Bsize, out.Blocks = 4096, blocks
		if !n.disk.full {
			out.Bfree, out.Bavail = blocks, blocks
		}
		return 0
	})
}
