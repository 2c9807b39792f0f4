package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lockpick/harness/owned"
)

// Place makes the folder STORE/SHELF/NAME, or NAME-2 and so on where another has the name.
// It appears under its name when fill has put into it what belongs there, and `latest`
// beside it then leads to it. Where links can't be made, there is none.
func Place(store, shelf, name string, fill func(dir string) error) (dir string, err error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("create directory: %w", err) }
	if err := os.MkdirAll(store, 0o755); err != nil {
		return fail(err)
	}
	parent := filepath.Join(store, shelf)
	in, err := MakeFolder(parent)
	if err != nil {
		return fail(err)
	}
	defer in.Close()
	tmp, err := owned.Unfinished.MakeDir(parent)
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(tmp) // it has its name by then, unless something failed
	if err := fill(tmp); err != nil {
		return "", err
	}
	err = fs.ErrExist
	for n := 1; n <= 1000 && errors.Is(err, fs.ErrExist); n++ {
		dir = filepath.Join(parent, name)
		if n > 1 {
			dir += fmt.Sprintf("-%d", n)
		}
		if _, free := os.Lstat(dir); free != nil {
			err = os.Rename(tmp, dir) // onto a folder that isn't empty it fails, so of two that want one name one gets it
		}
	}
	if err == nil {
		err = os.Chmod(dir, 0o755) // not before: what others may enter is not swept
	}
	if err != nil {
		return fail(err)
	}
	own, err := owned.Unfinished.Name()
	link := filepath.Join(parent, own)
	if err == nil && os.Symlink(filepath.Base(dir), link) == nil && os.Rename(link, filepath.Join(parent, "latest")) != nil {
		os.Remove(link)
	}
	return dir, nil
}
