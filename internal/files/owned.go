package files

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ownedKind is a naming scheme for files and folders whose names contain an owner.
type ownedKind struct {
	Prefix     string
	AllowFiles bool // such names are not only for folders, but for files and links, too
	// BeforeRemove, if set, cleans up before a dead owner's folder is removed. If it returns
	// ErrKeepFolder, the folder stays. known reports whether the owner ran since the last boot and
	// in this PID namespace, so that the PIDs noted in the folder are meaningful.
	BeforeRemove func(dir string, known bool) error
}

var (
	// Temporary names folders in the system's temporary directory.
	Temporary = ownedKind{Prefix: "lockpick-"}
	// Unfinished names files and folders in a store until they are complete and get their final
	// names.
	Unfinished = ownedKind{Prefix: ".new-", AllowFiles: true}
)

// ErrKeepFolder reports that a folder must not be removed.
var ErrKeepFolder = errors.New("the folder must not be removed")

// Name returns a new name.
func (k ownedKind) Name() (string, error) {
	self, err := CurrentOwner()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s%s-%d", k.Prefix, self, rand.Uint64()), nil
}

// MakeDir creates a folder in dir that only this user can access.
func (k ownedKind) MakeDir(dir string) (string, error) {
	name, err := k.Name()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.Mkdir(path, 0o700)
}

func (k ownedKind) owner(name string) (Owner, bool) {
	rest, ok := strings.CutPrefix(name, k.Prefix)
	if !ok {
		return Owner{}, false
	}
	id, _, _ := strings.Cut(rest, "-")
	return ParseOwner(id)
}

// OwnerTimeout is how old a file or folder must be before its owner is considered dead although
// this can't be checked, because the owner ran on another machine or before a reboot.
const OwnerTimeout = 24 * time.Hour

// Ended reports whether o is known to have ended, as seen from self. If this can't be checked, it
// reports whether the last change was more than OwnerTimeout ago.
func (o Owner) Ended(self Owner, lastChange time.Time) bool {
	if o.visibleFrom(self) {
		return !o.isRunning()
	}
	return time.Since(lastChange) > OwnerTimeout
}

// Owner identifies a process among all processes that have ever run.
type Owner struct {
	BootID    string // first part of the boot ID, which also identifies the machine
	Namespace string // inode of the PID namespace, because containers may share a directory
	PID       int
	Start     uint64 // clock ticks from boot to the start of the process
}

func (o Owner) String() string {
	return fmt.Sprintf("%s.%s.%d.%d", o.BootID, o.Namespace, o.PID, o.Start)
}

// ParseOwner parses the result of String.
func ParseOwner(s string) (Owner, bool) {
	f := strings.Split(s, ".")
	if len(f) != 4 {
		return Owner{}, false
	}
	pid, err1 := strconv.Atoi(f[2])
	start, err2 := strconv.ParseUint(f[3], 10, 64)
	return Owner{BootID: f[0], Namespace: f[1], PID: pid, Start: start}, err1 == nil && err2 == nil && pid > 0
}

// Sweep removes files and folders of this kind from dir if their owners are dead, and returns their
// paths. It keeps those of living owners, because several lockpick processes may run at once, as
// well as those of other users and unknown owners. If dir can't be read, it does nothing.
func (k ownedKind) Sweep(dir string) (removed []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil
	}
	defer root.Close()
	return k.sweep(root, ".")
}

// SweepTree is like Sweep, but applies to dir and to the folders below it for which enter returns
// true. enter gets paths relative to dir.
func (k ownedKind) SweepTree(dir string, enter func(path string) bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	return k.sweepTree(root, ".", enter)
}

func (k ownedKind) sweepTree(root *os.Root, path string, enter func(path string) bool) error {
	_, err := k.sweep(root, path)
	errs := []error{err}
	entries, _ := fs.ReadDir(root.FS(), filepath.ToSlash(path)) // it may be missing or unreadable
	for _, e := range entries {
		if at := filepath.Join(path, e.Name()); e.IsDir() && enter(at) {
			errs = append(errs, k.sweepTree(root, at, enter))
		}
	}
	return errors.Join(errs...)
}

// sweep is like Sweep, but applies to one folder in root.
func (k ownedKind) sweep(root *os.Root, path string) (removed []string, err error) {
	self, err := CurrentOwner()
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", root.Name(), err)
	}
	entries, _ := fs.ReadDir(root.FS(), filepath.ToSlash(path))
	var errs []error
	for _, e := range entries {
		owner, ok := k.owner(e.Name())
		if !ok {
			continue
		}
		at := filepath.Join(path, e.Name())
		switch done, err := k.remove(root, at, owner, self); {
		case errors.Is(err, ErrKeepFolder), errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		case err != nil:
			errs = append(errs, fmt.Errorf("sweep %s: %w", filepath.Join(root.Name(), at), err))
		case done:
			removed = append(removed, filepath.Join(root.Name(), at))
		}
	}
	return removed, errors.Join(errs...)
}

// remove removes a file or folder from root if it belongs to this user and its owner has ended.
func (k ownedKind) remove(root *os.Root, at string, owner, self Owner) (done bool, err error) {
	info, err := root.Lstat(at)
	if err != nil || !ownedByUser(info) || !info.IsDir() && !k.AllowFiles || !owner.Ended(self, info.ModTime()) {
		return false, err
	}
	if k.BeforeRemove != nil {
		if err := k.BeforeRemove(filepath.Join(root.Name(), at), owner.visibleFrom(self)); err != nil {
			return false, err
		}
	}
	return true, root.RemoveAll(at)
}
