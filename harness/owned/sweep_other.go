//go:build !linux

package owned

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Sweep removes what owners left in dir under names of this kind, and says what. Nothing
// tells here whether one still runs, so that it goes by age alone. It touches nothing of
// another user. A dir that can't be read has nothing to be swept.
func (k Kind) Sweep(dir string) (removed []string, err error) {
	self, err := Self()
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil
	}
	defer root.Close()
	entries, _ := fs.ReadDir(root.FS(), ".")
	var errs []error
	for _, e := range entries {
		owner, ok := k.owner(e.Name())
		if !ok {
			continue
		}
		is, err := root.Lstat(e.Name())
		if err != nil || !owner.Ended(self, is.ModTime()) || !mine(is) || !is.IsDir() && !k.Files {
			continue
		}
		if err := root.RemoveAll(e.Name()); err != nil && !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
			continue
		}
		removed = append(removed, filepath.Join(dir, e.Name()))
	}
	return removed, errors.Join(errs...)
}

// SweepTree is Sweep of dir and of the folders below that enter lets in, by their paths
// below dir.
func (k Kind) SweepTree(dir string, enter func(path string) bool) error {
	return k.sweepTree(dir, ".", enter)
}

func (k Kind) sweepTree(dir, path string, enter func(path string) bool) error {
	_, err := k.Sweep(dir)
	errs := []error{err}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if at := filepath.Join(path, e.Name()); e.IsDir() && enter(at) {
			errs = append(errs, k.sweepTree(filepath.Join(dir, e.Name()), at, enter))
		}
	}
	return errors.Join(errs...)
}
