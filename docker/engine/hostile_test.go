//go:build linux

package engine

import (
	"os"
	"path/filepath"
	"testing"

	"lockpick/docker/engine/enginetest"
)

// What docker's client or the user names is refused where it is no file.
func TestNoFileIsWaitedFor(t *testing.T) {
	enginetest.RefusesHostileFiles(t, []string{"config.json", "ca.pem", "cert.pem", "key.pem"}, func(dir string) map[string]func() error {
		t.Setenv("DOCKER_CONFIG", dir)
		only := t.TempDir() // certificates without those of an authority
		for _, file := range []string{"cert.pem", "key.pem"} {
			if err := os.Symlink(filepath.Join(dir, file), filepath.Join(only, file)); err != nil {
				t.Fatal(err)
			}
		}
		return map[string]func() error{
			"logins":       func() error { _, err := LoginFor("redis:7"); return err },
			"contexts":     func() error { return readJSON(filepath.Join(dir, "config.json"), &struct{}{}) },
			"an authority": func() error { _, err := credentials(dir, false); return err },
			"certificates": func() error { _, err := credentials(only, false); return err },
		}
	})
}
