package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

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
