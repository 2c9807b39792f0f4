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

// ownedKind is a sort of names: what stands in front of the owner, and what may have them.
type ownedKind struct {
	Prefix string
	Files  bool // files and links have such names, too, not only folders
	// Before, if it is set, puts away what is in the way of removing a folder of an owner
	// that has ended. If it returns ErrLeave, the folder stays. known reports that the owner ran in
	// this boot and PID namespace, so process ids noted in the folder mean something here.
	Before func(dir string, known bool) error
}

var (
	// Temporary is folders in the system's temporary directory.
	Temporary = ownedKind{Prefix: "lockpick-"}
	// Unfinished is what gets another name in a store once it is whole.
	Unfinished = ownedKind{Prefix: ".new-", Files: true}
)

// ErrLeave says that a folder is to stay as it is.
var ErrLeave = errors.New("the folder stays")

// Name is a name that nothing has.
func (k ownedKind) Name() (string, error) {
	self, err := Self()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s%s-%d", k.Prefix, self, rand.Uint64()), nil
}

// MakeDir makes a folder below dir that only this user may enter.
func (k ownedKind) MakeDir(dir string) (string, error) {
	name, err := k.Name()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.Mkdir(path, 0o700)
}

// owner reads the owner off a name.
func (k ownedKind) owner(name string) (Owner, bool) {
	rest, ok := strings.CutPrefix(name, k.Prefix)
	if !ok {
		return Owner{}, false
	}
	id, _, _ := strings.Cut(rest, "-")
	return ParseOwner(id)
}

// OwnedPatience is how old something has to be before an owner that can't be looked for, as on
// another machine or before this one started again, is taken for one that has ended.
const OwnedPatience = 24 * time.Hour

// Ended says whether o has certainly ended, as seen from self, or can't be looked for and
// touched nothing for longer than Patience.
func (o Owner) Ended(self Owner, touched time.Time) bool {
	if o.near(self) {
		return !o.runs()
	}
	return time.Since(touched) > OwnedPatience
}

// Owner identifies a process among all that ever ran.
type Owner struct {
	Boot  string // first part of the boot id, which tells machines apart, too
	Space string // inode of the PID namespace, since two containers may share a directory
	PID   int
	Start uint64 // clock ticks from boot to its start
}

func (o Owner) String() string { return fmt.Sprintf("%s.%s.%d.%d", o.Boot, o.Space, o.PID, o.Start) }

// ParseOwner is the reverse of String.
func ParseOwner(s string) (Owner, bool) {
	f := strings.Split(s, ".")
	if len(f) != 4 {
		return Owner{}, false
	}
	pid, err1 := strconv.Atoi(f[2])
	start, err2 := strconv.ParseUint(f[3], 10, 64)
	return Owner{Boot: f[0], Space: f[1], PID: pid, Start: start}, err1 == nil && err2 == nil && pid > 0
}

// Sweep removes what dead owners left in dir under names of this kind, and says what. It
// touches nothing of a living owner, for several lockpicks may run at once, nothing of
// another user, and nothing of which it can't tell. A dir that can't be read has nothing to
// be swept.
func (k ownedKind) Sweep(dir string) (removed []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil
	}
	defer root.Close()
	return k.sweep(root, ".")
}

// SweepTree is Sweep of dir and of the folders below that enter lets in, by their paths
// below dir.
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
	entries, _ := fs.ReadDir(root.FS(), filepath.ToSlash(path)) // removed meanwhile, or not ours to read
	for _, e := range entries {
		if at := filepath.Join(path, e.Name()); e.IsDir() && enter(at) {
			errs = append(errs, k.sweepTree(root, at, enter))
		}
	}
	return errors.Join(errs...)
}

// sweep sweeps a folder of root.
func (k ownedKind) sweep(root *os.Root, path string) (removed []string, err error) {
	self, err := Self()
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
		case errors.Is(err, ErrLeave), errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		case err != nil:
			errs = append(errs, fmt.Errorf("sweep %s: %w", filepath.Join(root.Name(), at), err))
		case done:
			removed = append(removed, filepath.Join(root.Name(), at))
		}
	}
	return removed, errors.Join(errs...)
}

// remove removes a file or folder of root if it is this user's and its owner has ended.
func (k ownedKind) remove(root *os.Root, at string, owner, self Owner) (done bool, err error) {
	is, err := root.Lstat(at)
	if err != nil || !mine(is) || !is.IsDir() && !k.Files || !owner.Ended(self, is.ModTime()) {
		return false, err
	}
	if k.Before != nil {
		if err := k.Before(filepath.Join(root.Name(), at), owner.near(self)); err != nil {
			return false, err
		}
	}
	return true, root.RemoveAll(at)
}
