//go:build linux

package docker

import (
	"path/filepath"
	"testing"

	"lockpick/docker/engine/enginetest"
)

// What the user names as a program is refused where it is no file.
func TestNoFileIsWaitedFor(t *testing.T) {
	enginetest.RefusesHostileFiles(t, []string{"lockpick"}, func(dir string) map[string]func() error {
		return map[string]func() error{
			"a program": func() error { return standsAlone(filepath.Join(dir, "lockpick"), "amd64") },
		}
	})
}
