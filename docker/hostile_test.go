//go:build linux

package docker

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Special files and huge files are rejected as programs without blocking.
func TestRejectsSpecialFilesAsProgram(t *testing.T) {
	for name, create := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"6 GB": func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 6<<30)
		},
	} {
		path := filepath.Join(t.TempDir(), "lockpick")
		if err := create(path); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- checkStatic(path, "amd64") }()
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("no error for %s as a program", name)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("checkStatic blocked on %s", name)
		}
	}
}
