package owned

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Sweep removes what dead owners left in dir under names of this kind, and says what. It
// touches nothing of a living owner, for several lockpicks may run at once, nothing of
// another user, and nothing of which it can't tell. A dir that can't be read has nothing to
// be swept.
func (k Kind) Sweep(dir string) (removed []string, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, nil
	}
	defer d.Close()
	return k.sweep(d)
}

// SweepTree is Sweep of dir and of the folders below that enter lets in, by their paths
// below dir.
func (k Kind) SweepTree(dir string, enter func(path string) bool) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	return k.sweepTree(d, ".", enter)
}

func (k Kind) sweepTree(d *os.File, path string, enter func(path string) bool) error {
	_, err := k.sweep(d)
	errs := []error{err}
	if _, err := d.Seek(0, io.SeekStart); err != nil {
		return errors.Join(append(errs, err)...)
	}
	entries, _ := d.ReadDir(-1) // by their kinds, as the directory tells: nothing is asked of them
	for _, e := range entries {
		at := filepath.Join(path, e.Name())
		if !e.IsDir() || !enter(at) {
			continue
		}
		below, err := openIn(d, e.Name(), unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil { // mounted there, removed meanwhile, or not ours to read
			continue
		}
		errs = append(errs, k.sweepTree(below, at, enter), below.Close())
	}
	return errors.Join(errs...)
}

func (k Kind) sweep(d *os.File) (removed []string, err error) {
	self, err := Self()
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", d.Name(), err)
	}
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, nil
	}
	var errs []error
	for _, name := range names {
		owner, ok := k.owner(name)
		if !ok {
			continue
		}
		switch done, err := k.remove(d, name, owner, self); {
		case errors.Is(err, ErrLeave), errors.Is(err, unix.EXDEV), errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		case err != nil:
			errs = append(errs, fmt.Errorf("sweep %s: %w", filepath.Join(d.Name(), name), err))
		case done:
			removed = append(removed, filepath.Join(d.Name(), name))
		}
	}
	return removed, errors.Join(errs...)
}

// remove removes what has a name, if it is ours and its owner has ended.
func (k Kind) remove(d *os.File, name string, owner, self Owner) (done bool, err error) {
	f, err := openIn(d, name, unix.O_PATH)
	if err != nil {
		return false, err
	}
	is, err := statOf(f)
	f.Close()
	if err != nil || !k.ours(is) || !owner.Ended(self, time.Unix(is.Mtim.Unix())) {
		return false, err
	}
	if is.Mode&unix.S_IFMT != unix.S_IFDIR {
		return true, unix.Unlinkat(int(d.Fd()), name, 0)
	}
	if f, err = openIn(d, name, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return false, err
	}
	defer f.Close()
	if now, err := statOf(f); err != nil || now.Ino != is.Ino || now.Dev != is.Dev || !k.ours(now) {
		return false, err
	}
	if k.Before != nil {
		if err := k.Before(Left{Dir: f, Known: owner.near(self)}); err != nil {
			return false, err
		}
	}
	if err := empty(f); err != nil {
		return false, err
	}
	return true, unix.Unlinkat(int(d.Fd()), name, unix.AT_REMOVEDIR)
}

// ours says whether something is this user's alone.
func (k Kind) ours(is unix.Stat_t) bool {
	switch {
	case int(is.Uid) != os.Geteuid():
		return false
	case is.Mode&unix.S_IFMT == unix.S_IFDIR:
		return is.Mode&0o777 == private
	}
	return k.Files && slices.Contains([]uint32{unix.S_IFREG, unix.S_IFLNK}, is.Mode&unix.S_IFMT)
}

// empty removes all that is in a directory, and enters no other file system.
func empty(d *os.File) error {
	for {
		names, err := d.Readdirnames(1000)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := erase(d, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove %s: %w", name, err)
			}
		}
		if _, err := d.Seek(0, io.SeekStart); err != nil { // what was removed may have moved the rest
			return err
		}
	}
}

func erase(d *os.File, name string) error {
	err := unix.Unlinkat(int(d.Fd()), name, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	below, err := openIn(d, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer below.Close()
	if err := empty(below); err != nil {
		return err
	}
	return unix.Unlinkat(int(d.Fd()), name, unix.AT_REMOVEDIR)
}

// openIn opens a name in a directory, without following a link or entering what is mounted
// there: a file system of another user may never answer.
func openIn(d *os.File, name string, flags int) (*os.File, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH}
	for {
		fd, err := unix.Openat2(int(d.Fd()), name, &how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.ENOSYS): // before Linux 5.6, or in a sandbox
			return openHere(d, name, flags)
		case err != nil:
			return nil, err
		}
		return os.NewFile(uintptr(fd), filepath.Join(d.Name(), name)), nil
	}
}

// openHere is openIn where the kernel can't be told to stay in one file system.
func openHere(d *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(d.Fd()), name, flags, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), filepath.Join(d.Name(), name))
	is, err := statOf(f)
	above, err2 := statOf(d)
	if err = errors.Join(err, err2); err == nil && is.Mode&unix.S_IFMT == unix.S_IFDIR && is.Dev != above.Dev {
		err = unix.EXDEV
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func statOf(f *os.File) (is unix.Stat_t, err error) { return is, unix.Fstat(int(f.Fd()), &is) }
