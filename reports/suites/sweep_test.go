//go:build linux

package suites

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockpick/internal/files"
)

// Sweep removes unfinished files left by killed processes, but not those of running processes, wherever
// lockpick writes in a store.
func TestSweep(t *testing.T) {
	me, err := files.CurrentOwner()
	if err != nil {
		t.Fatal(err)
	}
	dead, elsewhere := me, me
	dead.PID, elsewhere.BootID = 1<<22+1, "00000000"
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	store := t.TempDir()
	precious := filepath.Join(store, "precious")
	must(os.WriteFile(precious, nil, 0o644))
	longAgo := time.Now().Add(-files.OwnerTimeout - time.Minute)
	wantRemoved := map[string]bool{} // by path, whether Sweep must remove it
	for _, dir := range []string{".", "a+b", "suites", "a+b/20260102T030405.000Z-sim-1", "a+b/20260102T030405.000Z-sim-1/figures", "suites/20260102T030405.000Z", "a+b/notes", ".git"} {
		isSwept := dir != "a+b/notes" && dir != ".git" // lockpick does not write in these
		must(os.MkdirAll(filepath.Join(store, dir), 0o755))
		path := func(o files.Owner) string {
			return filepath.Join(store, dir, fmt.Sprintf("%s%s-%d", files.Unfinished.Prefix, o, len(wantRemoved)))
		}
		for o, gone := range map[files.Owner]bool{me: false, dead: true, elsewhere: false} {
			file := path(o)
			must(os.WriteFile(file, nil, 0o644))
			wantRemoved[file] = gone && isSwept
			link := path(o)
			must(os.Symlink(precious, link))
			wantRemoved[link] = gone && isSwept
			folder := path(o)
			must(os.Mkdir(folder, 0o755), os.Symlink(store, filepath.Join(folder, "link")), os.MkdirAll(filepath.Join(folder, "a", "b"), 0o755))
			wantRemoved[folder] = gone && isSwept
		}
		old, theirs := path(elsewhere), path(dead)+"1"
		must(os.WriteFile(old, nil, 0o644), os.Chtimes(old, longAgo, longAgo), os.WriteFile(theirs, nil, 0o644))
		wantRemoved[old], wantRemoved[theirs] = isSwept, isSwept
		if os.Geteuid() == 0 {
			must(os.Chown(theirs, 65534, 65534))
			wantRemoved[theirs] = false
		}
	}
	must(Sweep(store))
	for path, gone := range wantRemoved {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) != gone {
			t.Errorf("%s: want removed: %v, stat error: %v", strings.TrimPrefix(path, store), gone, err)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}
