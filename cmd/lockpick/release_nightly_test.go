//go:build long && nightly && linux

package main

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRelease builds a release in two folders. The archives for the six platforms must be identical
// in both. The binary for this platform must be static and run, and its archive must contain the
// license of each module that is linked into it.
func TestRelease(t *testing.T) {
	var sums []string
	root := ""
	for range 2 {
		root = copyProject(t)
		runIn(t, root, "make", "release", "VERSION=v1.2.3")
		text, err := os.ReadFile(filepath.Join(root, "dist", "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(text))
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 6 {
		t.Errorf("two builds of a release differ:\n%s\n%s", sums[0], sums[1])
	}
	name := filepath.Join(root, "dist", "lockpick_v1.2.3_linux_"+runtime.GOARCH)
	runIn(t, filepath.Dir(name), "tar", "-xzf", name+".tar.gz")
	binary := filepath.Join(name, "lockpick")
	if out, err := exec.Command(binary, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "lockpick v1.2.3 ") {
		t.Errorf("version: %v\n%s", err, out)
	}
	if out, err := exec.Command("ldd", binary).CombinedOutput(); err == nil || !strings.Contains(string(out), "not a dynamic executable") {
		t.Errorf("the binary is not static:\n%s", out)
	}
	runIn(t, t.TempDir(), binary, "run", "baseline/")
	if _, err := os.Stat(filepath.Join(name, "LICENSE")); err != nil {
		t.Error(err)
	}
	notices, err := os.ReadFile(filepath.Join(name, "THIRD_PARTY_NOTICES"))
	must(t, err)
	binaryInfo, err := buildinfo.ReadFile(binary)
	must(t, err)
	for _, m := range binaryInfo.Deps {
		if !strings.Contains(string(notices), "\n"+m.Path+" "+m.Version+": ") {
			t.Errorf("no license of %s %s", m.Path, m.Version)
		}
	}
}

// TestNoticesNeedLicenses replaces a module with a copy without a license. The release must then
// fail.
func TestNoticesNeedLicenses(t *testing.T) {
	const module = "github.com/rs/zerolog"
	root := copyProject(t)
	from, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	must(t, err)
	copyDir := filepath.Join(t.TempDir(), "bare")
	runIn(t, root, "cp", "-r", strings.TrimSpace(string(from)), copyDir)
	runIn(t, root, "chmod", "-R", "u+w", copyDir)
	runIn(t, root, "go", "mod", "edit", "-replace="+module+"="+copyDir)
	cmd := exec.Command(".ci/notices")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("with the license: %v\n%s", err, out)
	}
	must(t, os.Remove(filepath.Join(copyDir, "LICENSE")))
	cmd = exec.Command(".ci/notices")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), module) || !strings.Contains(string(out), "has no license file") {
		t.Errorf("without the license: %v\n%s", err, out[max(0, len(out)-300):])
	}
}

// TestFromAnotherModule uses the lock from a module next to a checkout, as described in the lock's
// README.
func TestFromAnotherModule(t *testing.T) {
	root := copyProject(t)
	otherModule := filepath.Join(filepath.Dir(root), "other")
	text, err := os.ReadFile(filepath.Join(root, "redlock", "README.md"))
	must(t, err)
	_, block, _ := strings.Cut(string(text), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	if !strings.Contains(block, "-replace=lockpick=../lockpick") {
		t.Fatalf("the README has %q", block)
	}
	must(t, os.Mkdir(otherModule, 0o755))
	must(t, os.WriteFile(filepath.Join(otherModule, "main.go"), []byte("package main\n\nimport \"lockpick/redlock\"\n\nfunc main() { println(redlock.Quorum(5)) }\n"), 0o644))
	runIn(t, otherModule, "go", "mod", "init", "example.org/other")
	runIn(t, otherModule, "sh", "-ec", strings.ReplaceAll(block, "../lockpick", root))
	runIn(t, otherModule, "go", "run", ".")
}

// TestModule renames the module in a copy of the project, which must then still build and follow
// the import table. An invalid module path must be refused.
func TestModule(t *testing.T) {
	root := copyProject(t)
	for _, git := range [][]string{{"init", "-q"}, {"add", "-A"}} { // the script renames files that git knows
		runIn(t, root, append([]string{"git"}, git...)...)
	}
	for _, path := range []string{"", "lockpick", "example.org/a b"} {
		cmd := exec.Command("make", "module", "PATH="+path)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "is no path of a module") {
			t.Errorf("PATH=%q: %v\n%s", path, err, out)
		}
	}
	runIn(t, root, "make", "module", "PATH=example.org/you/lockpick")
	runIn(t, root, "go", "vet", "./...")
	runIn(t, root, "go", "test", "-short", "-run", "Import|Sizes|Readme", "./cmd/lockpick")
	out, err := exec.Command("grep", "-rl", "--include=*.go", `"lock`+`pick/harness`, root).Output()
	if err == nil {
		t.Errorf("the old path remains in\n%s", out)
	}
}
