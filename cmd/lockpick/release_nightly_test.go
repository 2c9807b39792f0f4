//go:build long && nightly && linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRelease makes a release in two folders: its binaries are for six systems, static, the
// same byte for byte, and the one for here runs.
func TestRelease(t *testing.T) {
	var sums []string
	root := ""
	for range 2 {
		root = copied(t)
		in(t, root, "make", "release", "VERSION=v1.2.3")
		text, err := os.ReadFile(filepath.Join(root, "dist", "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(text))
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 6 {
		t.Errorf("two releases:\n%s\n%s", sums[0], sums[1])
	}
	binary := filepath.Join(root, "dist", "lockpick_v1.2.3_linux_"+runtime.GOARCH)
	if out, err := exec.Command(binary, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "lockpick v1.2.3 ") {
		t.Errorf("version: %v\n%s", err, out)
	}
	if out, err := exec.Command("ldd", binary).CombinedOutput(); err == nil || !strings.Contains(string(out), "not a dynamic executable") {
		t.Errorf("it needs libraries:\n%s", out)
	}
	in(t, t.TempDir(), binary, "run", "baseline/")
}

// TestModule renames the module in a copy, which then builds and keeps the house's rules,
// and refuses what is no path of a module.
func TestModule(t *testing.T) {
	root := copied(t)
	for _, git := range [][]string{{"init", "-q"}, {"add", "-A"}} { // the files that are renamed are git's
		in(t, root, append([]string{"git"}, git...)...)
	}
	for _, path := range []string{"", "lockpick", "example.org/a b"} {
		cmd := exec.Command("make", "module", "PATH="+path)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "is no path of a module") {
			t.Errorf("PATH=%q: %v\n%s", path, err, out)
		}
	}
	in(t, root, "make", "module", "PATH=example.org/you/lockpick")
	in(t, root, "go", "vet", "./...")
	in(t, root, "go", "test", "-short", "-run", "Import|Sizes|Readme", "./cmd/lockpick")
	out, err := exec.Command("grep", "-rl", "--include=*.go", `"lockpick/harness`, root).Output()
	if err == nil {
		t.Errorf("the old path is still in\n%s", out)
	}
}
