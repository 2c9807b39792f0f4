//go:build linux

package docker

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A program for containers is this one, or one that the go tool makes, or one that the
// user names and that must fit.
func TestProgramStandsAlone(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go on PATH to build with")
	}
	dir := t.TempDir()
	b := New(Config{})
	if err := b.lacksProgram(t.Context(), runtime.GOARCH); err != nil {
		t.Error(err)
	}
	var said lines
	text, err := b.program(t.Context(), runtime.GOARCH, said.add)
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "made")
	if err := os.WriteFile(made, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := standsAlone(made, runtime.GOARCH); err != nil {
		t.Error(err)
	}
	if err := standsAlone(made, "s390x"); err == nil || !strings.Contains(err.Error(), elf.EM_X86_64.String()) && runtime.GOARCH == "amd64" {
		t.Errorf("on another architecture: %v", err)
	}
	if again, err := b.program(t.Context(), runtime.GOARCH, func(s string) { t.Errorf("built twice: %s", s) }); err != nil || len(again) != len(text) {
		t.Errorf("the second time: %v", err)
	}
	b = New(Config{ClientBinary: made})
	if got, err := b.program(t.Context(), runtime.GOARCH, func(s string) { t.Error(s) }); err != nil || len(got) != len(text) {
		t.Errorf("by --client-binary: %v", err)
	}
	t.Setenv("PATH", dir)
	for _, unfit := range []string{"/bin/sh", filepath.Join(dir, "none")} {
		var lack *Lack
		err := New(Config{ClientBinary: unfit}).lacksProgram(t.Context(), runtime.GOARCH)
		if !errors.As(err, &lack) || !strings.Contains(err.Error(), unfit) || !strings.Contains(lack.Remedy, "--client-binary") {
			t.Errorf("%s: %v", unfit, err)
		}
	}
	err = New(Config{}).lacksProgram(t.Context(), "s390x") // not this one, and go is not on PATH
	if err == nil || !strings.Contains(err.Error(), "go is not on PATH") {
		t.Errorf("without the go tool: %v", err)
	}
}
