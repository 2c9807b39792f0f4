//go:build linux

package docker

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A pipe, a device or something huge in the place of a file that docker's client or the
// user names is refused at once.
func TestNoFileIsWaitedFor(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"6 GB": func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 6<<30)
		},
	} {
		dir := t.TempDir()
		for _, file := range []string{"config.json", "ca.pem", "cert.pem", "key.pem", "lockpick"} {
			if err := plant(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("DOCKER_CONFIG", dir)
		only := t.TempDir() // certificates without those of an authority
		for _, file := range []string{"cert.pem", "key.pem"} {
			if err := os.Symlink(filepath.Join(dir, file), filepath.Join(only, file)); err != nil {
				t.Fatal(err)
			}
		}
		for what, read := range map[string]func() error{
			"logins":       func() error { _, err := loginFor("redis:7"); return err },
			"contexts":     func() error { return readJSON(filepath.Join(dir, "config.json"), &struct{}{}) },
			"an authority": func() error { _, err := credentials(dir, false); return err },
			"certificates": func() error { _, err := credentials(only, false); return err },
			"a program":    func() error { return standsAlone(filepath.Join(dir, "lockpick"), "amd64") },
		} {
			ended := make(chan error, 1)
			go func() { ended <- read() }()
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("%s is taken for %s", name, what)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s as %s is waited for", name, what)
			}
		}
	}
}
