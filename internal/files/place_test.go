package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A new folder gets its name or the next free one, and `latest` points to the newest folder. A
// folder that could not be filled leaves nothing behind.
func TestCreateUnique(t *testing.T) {
	store := t.TempDir()
	fill := func(dir string) error { return WriteIn(dir, "a", []byte("b")) }
	for _, want := range []string{"x", "x-2", "x-3"} {
		dir, err := CreateUnique(store, "shelf", "x", fill)
		if err != nil || dir != filepath.Join(store, "shelf", want) {
			t.Fatalf("created %s, %v; want %s", dir, err, want)
		}
		if text, err := ReadIn(filepath.Join(store, "shelf", "latest"), "a", 10); err != nil || string(text) != "b" {
			t.Errorf("latest: %q, %v", text, err)
		}
		if at, err := os.Readlink(filepath.Join(store, "shelf", "latest")); err == nil && at != want {
			t.Errorf("latest points to %s, want %s", at, want)
		}
	}
	full := errors.New("no space left")
	if _, err := CreateUnique(store, "other", "x", func(string) error { return full }); !errors.Is(err, full) {
		t.Errorf("error: %v, want %v", err, full)
	}
	if leftovers, err := os.ReadDir(filepath.Join(store, "other")); err != nil || len(leftovers) > 0 {
		t.Errorf("left behind: %v, %v", leftovers, err)
	}
	if _, err := CreateUnique(filepath.Join(store, "shelf", "x", "a"), "other", "x", fill); err == nil {
		t.Error("a folder was created inside a file")
	}
}
