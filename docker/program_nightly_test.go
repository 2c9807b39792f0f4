//go:build linux && nightly

package docker

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// If the engine's containers cannot run this binary, the go tool builds one from source.
func TestProgramForAnotherArchitecture(t *testing.T) {
	arch := "arm64" // releases include it anyway
	if runtime.GOARCH == arch {
		arch = "amd64"
	}
	var progress progressLines
	built, err := New(Config{}).program.image(t.Context(), arch, progress.add)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "made")
	if err := os.WriteFile(binary, built.files[clientPath], 0o755); err != nil {
		t.Fatal(err)
	}
	if err := checkStatic(binary, arch); err != nil || len(built.files) != 1 {
		t.Errorf("image has %d files, want 1: %v", len(built.files), err)
	}
	if !slices.ContainsFunc(progress, func(line string) bool { return strings.HasPrefix(line, "building lockpick for clients: ") }) {
		t.Errorf("progress messages are %q", progress)
	}
}
