//go:build unix

package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// obstacles create something other than a small regular file at a path.
var obstacles = map[string]func(t *testing.T, path string){
	"a pipe": func(t *testing.T, path string) { check(t, syscall.Mkfifo(path, 0o600)) },
	"a link to a device": func(t *testing.T, path string) {
		check(t, os.Symlink("/dev/zero", path))
	},
	"a directory": func(t *testing.T, path string) { check(t, os.Mkdir(path, 0o700)) },
	"six gigabytes": func(t *testing.T, path string) {
		check(t, os.WriteFile(path, nil, 0o600))
		check(t, os.Truncate(path, 6<<30))
	},
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Anything but a regular file of limited size is rejected at once, whether it is opened by path or
// in a folder.
func TestOpenRejectsInvalidFiles(t *testing.T) {
	for name, make := range obstacles {
		dir := t.TempDir()
		make(t, filepath.Join(dir, "f"))
		in, err := OpenFolder(dir)
		check(t, err)
		defer in.Close()
		start := time.Now()
		for how, read := range map[string]func() ([]byte, error){
			"by its path": func() ([]byte, error) { return Read(filepath.Join(dir, "f"), 1<<20) },
			"in a folder": func() ([]byte, error) { return in.Read("f", 1<<20) },
		} {
			text, err := read()
			var invalid *InvalidFileError
			if !errors.As(err, &invalid) || text != nil {
				t.Errorf("%s %s: %d bytes, %v", name, how, len(text), err)
			}
		}
		if elapsed := time.Since(start); elapsed > 5*time.Second {
			t.Errorf("%s: rejected after %v, want at once", name, elapsed)
		}
	}
}

func TestSizeErrorNamesSizeAndLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	obstacles["six gigabytes"](t, path)
	_, err := Read(path, 1<<20)
	if err == nil || !strings.Contains(err.Error(), "6442450944") || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("error: %v; want it to contain the size and the limit", err)
	}
}

// makeDirs creates a directory to work in and, beside it, a directory with a file that must not
// change.
func makeDirs(t *testing.T) (dir, elsewhere, file string) {
	top := t.TempDir()
	dir, elsewhere = filepath.Join(top, "dir"), filepath.Join(top, "elsewhere")
	check(t, os.Mkdir(dir, 0o755))
	check(t, os.Mkdir(elsewhere, 0o755))
	file = filepath.Join(elsewhere, "mine")
	check(t, os.WriteFile(file, []byte("mine"), 0o644))
	t.Cleanup(func() {
		text, err := os.ReadFile(file)
		entries, _ := os.ReadDir(elsewhere)
		if string(text) != "mine" || err != nil || len(entries) != 1 {
			t.Errorf("file outside: %q, %v; entries: %v", text, err, entries)
		}
	})
	return dir, elsewhere, file
}

// Write replaces a link, or another name of a file, and leaves its target unchanged.
func TestWriteReplacesLinks(t *testing.T) {
	for name, plant := range map[string]func(target, path string) error{
		"a link": os.Symlink, "another name": os.Link,
		"a dangling link": func(target, path string) error { return os.Symlink(target+"-2", path) },
		"a relative link": func(_, path string) error { return os.Symlink("../elsewhere/mine", path) },
	} {
		dir, _, file := makeDirs(t)
		check(t, plant(file, filepath.Join(dir, "f")))
		in, err := OpenFolder(dir)
		check(t, err)
		defer in.Close()
		if err := in.Write("f", []byte("new")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Lstat(filepath.Join(dir, "f")); err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o400 == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("%s: left behind %v", name, entries)
		}
	}
}

func TestFolderRejectsEscapes(t *testing.T) {
	dir, elsewhere, file := makeDirs(t)
	in, err := OpenFolder(dir)
	check(t, err)
	defer in.Close()
	check(t, os.Symlink(elsewhere, filepath.Join(dir, "sub")))
	check(t, os.Symlink(file, filepath.Join(dir, "f")))
	for name, err := range map[string]error{
		"a link to a directory":         func() error { _, err := in.Sub("sub"); return err }(),
		"a file below it":               in.Write("sub/x", nil),
		"reading a file below it":       func() error { _, err := in.Read("sub/mine", 99); return err }(),
		"a link to a file":              func() error { _, err := in.Read("f", 99); return err }(),
		"two dots":                      func() error { _, err := in.Read("../elsewhere/mine", 99); return err }(),
		"writing through two dots":      in.Write("../elsewhere/x", nil),
		"a folder that is a link":       func() error { _, err := MakeFolder(filepath.Join(dir, "sub")); return err }(),
		"an open folder that is a link": func() error { _, err := OpenFolder(filepath.Join(dir, "sub")); return err }(),
	} {
		var invalid *InvalidFileError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if in.Has("f") || in.Has("../elsewhere/mine") {
		t.Error("Has reports a file outside the folder")
	}
}

// OpenFolder follows a link to a folder beside it, such as `latest`.
func TestSiblingLinkIsFollowed(t *testing.T) {
	top := t.TempDir()
	check(t, os.Mkdir(filepath.Join(top, "run"), 0o755))
	check(t, os.Symlink("run", filepath.Join(top, "latest")))
	in, err := OpenFolder(filepath.Join(top, "latest") + "/")
	check(t, err)
	defer in.Close()
	check(t, in.Write("f", []byte("x")))
	if text, err := Read(filepath.Join(top, "run", "f"), 9); string(text) != "x" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	t.Chdir(top)
	for _, path := range []string{".", "latest", "./run", "../" + filepath.Base(top) + "/run"} {
		if f, err := OpenFolder(path); err != nil {
			t.Errorf("%s: %v", path, err)
		} else {
			f.Close()
		}
	}
}

func TestOutputRejectsPipeWithoutReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	check(t, syscall.Mkfifo(path, 0o600))
	if f, err := OpenOutput(path, 0); err == nil {
		f.Close()
		t.Error("a pipe without a reader was opened")
	}
}

func TestJSON(t *testing.T) {
	var v any
	for text, want := range map[string]string{
		`{}`: "", `{} `: "", `{}x`: "unexpected data", `{}{}`: "unexpected data", ``: "EOF", `{`: "unexpected EOF",
		"[" + strings.Repeat("{},", maxObjects) + "{}]": "objects", strings.Repeat("[", 1<<20): "depth",
	} {
		if err := JSON([]byte(text), &v); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %q", text, err, want)
		}
	}
}
