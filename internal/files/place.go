package files

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	own, err := Unfinished.Name()
	if err != nil {
		return fail(err)
	}
	if err := in.root.Mkdir(own, 0o755); err != nil {
		return fail(err)
	}
	defer in.root.RemoveAll(own) // it has its name by then, unless something failed
	if err := fill(in.of(own)); err != nil {
		return "", err
	}
	err = fs.ErrExist
	for n := 1; n <= 1000 && errors.Is(err, fs.ErrExist); n++ {
		dir = name
		if n > 1 {
			dir += fmt.Sprintf("-%d", n)
		}
		if _, free := in.root.Lstat(dir); free != nil {
			err = in.root.Rename(own, dir) // onto a folder that isn't empty it fails, so of two that want one name one gets it
		}
	}
	if err != nil {
		return fail(err)
	}
	link, err := Unfinished.Name()
	if err == nil && in.root.Symlink(dir, link) == nil && in.root.Rename(link, latest) != nil {
		in.root.Remove(link)
	}
	return in.of(dir), nil
}

// latest is a link beside what is placed, to what was placed last.
const latest = "latest"

// Displace removes folders STORE/SHELF/NAME. Each loses its name at once, so that nobody
// meets half of it; `latest` leads to the last of those that are left then, and a shelf
// that has nothing else is removed. is tells what may have been placed there by its name.
func Displace(store, shelf string, names []string, is func(name string) bool) error {
	parent := filepath.Join(store, shelf)
	fail := func(err error) error { return fmt.Errorf("remove from %s: %w", parent, err) }
	in, err := OpenFolder(parent)
	if err != nil {
		return fail(err)
	}
	defer in.Close()
	for _, name := range names {
		own, err := Unfinished.Name()
		if err != nil {
			return fail(err)
		}
		err = in.root.Rename(name, own)
		if err = cmp.Or(err, in.root.RemoveAll(own)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(told(in.of(name), err))
		}
	}
	entries, err := in.Entries()
	if err != nil {
		return fail(err)
	}
	last, more := "", false
	for _, e := range entries {
		if e.IsDir() && is(e.Name()) {
			last = e.Name()
		} else if e.Name() != latest {
			more = true
		}
	}
	switch to, err := in.root.Readlink(latest); {
	case err != nil || to == last: // no link, as where none can be made
	case last != "":
		if err := cmp.Or(in.root.Remove(latest), in.root.Symlink(last, latest)); err != nil {
			return fail(err)
		}
	default:
		if err := in.root.Remove(latest); err != nil {
			return fail(err)
		}
	}
	if last == "" && !more {
		os.Remove(parent) // unless it is not empty: somebody has begun a run
	}
	return nil
}
