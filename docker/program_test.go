//go:build linux

package docker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Containers run this binary with its shared libraries, or a static binary specified by the user.
func TestClientProgramSelection(t *testing.T) {
	skipIfShort(t)
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("go is not on PATH")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir) // without the source
	t.Setenv("PATH", dir)
	b := New(Config{})
	if err := b.program.checkSupported(t.Context(), runtime.GOARCH); err != nil {
		t.Error(err)
	}
	self, err := b.program.image(t.Context(), runtime.GOARCH, func(s string) { t.Errorf("built another binary although this one is suitable: %s", s) })
	if err != nil {
		t.Fatal(err)
	}
	checkStandalone(t, self)
	if second, err := b.program.image(t.Context(), runtime.GOARCH, func(s string) { t.Errorf("built twice: %s", s) }); err != nil || second != self {
		t.Errorf("second call of image: %v", err)
	}
	err = New(Config{}).program.checkSupported(t.Context(), "s390x") // this binary is unsuitable, and go is not on PATH
	if err == nil || !strings.Contains(err.Error(), "go is not on PATH") {
		t.Errorf("without the go tool: %v", err)
	}
	t.Setenv("PATH", filepath.Dir(tool))
	t.Chdir(here)
	binary := filepath.Join(dir, "made")
	if err := runGo(t.Context(), runtime.GOARCH, "", "build", "-o", binary, clientPackage); err != nil {
		t.Fatal(err)
	}
	if err := checkStatic(binary, runtime.GOARCH); err != nil {
		t.Error(err)
	}
	if err := checkStatic(binary, "s390x"); err == nil || !strings.Contains(err.Error(), elfMachines[runtime.GOARCH].String()) {
		t.Errorf("for another architecture: %v", err)
	}
	b = New(Config{ClientBinary: binary})
	if got, err := b.program.image(t.Context(), runtime.GOARCH, func(s string) { t.Error(s) }); err != nil || len(got.files) != 1 {
		t.Errorf("with --client-binary: %v", err)
	}
	for _, badBinary := range []string{"/bin/sh", filepath.Join(dir, "none")} {
		var missing *MissingError
		err := New(Config{ClientBinary: badBinary}).program.checkSupported(t.Context(), runtime.GOARCH)
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), badBinary) || !strings.Contains(missing.Remedy, "--client-binary") {
			t.Errorf("%s: %v", badBinary, err)
		}
	}
}

// A program can be started from a directory with its libraries, regardless of libraries elsewhere.
func TestStandaloneProgram(t *testing.T) {
	for _, program := range []string{"/bin/sh", os.Args[0]} {
		i, err := newImage("test", program, program)
		if err != nil {
			t.Fatal(err)
		}
		checkStandalone(t, i)
	}
}

// checkStandalone checks that an image's program can be started from a directory that contains only the
// program and its dependencies, and that it loads no other libraries.
func checkStandalone(t *testing.T, i *image) {
	t.Helper()
	dir := t.TempDir()
	files, command := i.standaloneFiles(dir)
	for path, text := range files {
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if i.loader == "" {
		return
	}
	list := slices.Insert(slices.Clone(command), 1, "--list")
	out, err := exec.Command(list[0], list[1:]...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "not found") {
		t.Errorf("%v: %v: %s", list, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if _, at, ok := strings.Cut(line, " => "); ok && !strings.HasPrefix(at, dir) {
			t.Errorf("program loads %s", line)
		}
	}
}
