//go:build long && nightly && !windows

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestContributing follows each list in CONTRIBUTING.md in a copy of the project: it adds the files
// and lines of an example archive, which must touch exactly the files in the list, and runs the
// list's commands. Then the archive's script and tests must pass. If any one file is left out, they
// must fail; otherwise nothing would show that a list lacks that file.
func TestContributing(t *testing.T) {
	guide, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	lists := contributions(string(guide))
	if len(lists) < 1 {
		t.Fatalf("CONTRIBUTING.md has %d lists of files, want at least 1: %v", len(lists), lists)
	}
	for kind, list := range lists {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join("testdata", "contributing", kind+".txtar")
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatalf("%v: each list in CONTRIBUTING.md needs an example that follows it", err)
			}
			var tests []string
			if i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "script/tests" }); i >= 0 {
				tests = slices.Collect(strings.Lines(string(a.Files[i].Data)))
			}
			a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "script/") })
			compareWithList(t, list, a)
			root := copyProject(t)
			for _, f := range a.Files {
				addFile(t, filepath.Join(root, f.Name), string(f.Data))
			}
			for _, item := range list {
				if strings.HasPrefix(item, "go ") {
					runIn(t, root, strings.Fields(item)...)
				}
			}
			if err := checkCopy(t, root, path, tests); err != nil {
				t.Fatal(err)
			}
			for _, f := range a.Files {
				t.Run("without "+f.Name, func(t *testing.T) {
					defer revertFile(t, root, f.Name)()
					if checkCopy(t, root, path, tests) == nil {
						t.Errorf("no test fails if %s is left out", f.Name)
					}
				})
			}
		})
	}
}

// houseTests selects the tests in this package that every addition must pass: the rules of the code
// base, and tests of help and READMEs.
const houseTests = "./cmd/lockpick -run ^Test(ImportTable|SizesAndDocs|EngineHasNoClock|FilesAreOpenedInOnePlace|HistoriesAreReadOnce|" +
	"ScenarioFormatTopic|FaultsTopic|PropertiesTopic|VerdictFileTopic|SchemaIsOne|ReservedFolderNames|" +
	"ReadmeIsShort|ReadmeLinks|GuaranteesNameScenarios|Claims|ScoreTag|ScorecardsAreComplete)$"

// checkCopy builds a copy of the project, runs an archive's script with the binary, and then runs
// the archive's tests and houseTests. It returns the first failure.
func checkCopy(t *testing.T, root, script string, tests []string) error {
	t.Helper()
	dir := t.TempDir()
	if err := runCommand(root, "go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "lockpick"), "./cmd/lockpick"); err != nil {
		return err
	}
	var r scriptResult
	testscript.RunT(&r, testscript.Params{
		Files: []string{script}, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", dir+string(filepath.ListSeparator)+e.Getenv("PATH"))
			return nil
		},
	})
	if r.failed {
		return errors.New(r.log.String())
	}
	for _, line := range append(tests, houseTests) {
		if err := runCommand(root, append([]string{"go", "test", "-vet=off", "-short", "-failfast"}, strings.Fields(line)...)...); err != nil {
			return err
		}
	}
	return nil
}

// scriptResult is a testscript.T that records failures without failing the test.
type scriptResult struct {
	log    strings.Builder
	failed bool
}

func (r *scriptResult) Skip(args ...any)  { r.Fatal(args...) }
func (r *scriptResult) Fatal(args ...any) { r.Log(args...); r.FailNow() }
func (r *scriptResult) Log(args ...any)   { fmt.Fprintln(&r.log, args...) }
func (r *scriptResult) FailNow()          { r.failed = true; runtime.Goexit() }
func (r *scriptResult) Parallel()         {}
func (r *scriptResult) Verbose() bool     { return false }
func (r *scriptResult) Run(_ string, run func(testscript.T)) {
	var script sync.WaitGroup
	script.Go(func() { run(r) })
	script.Wait()
}

// revertFile reverts a file in a copy to the project's version. undo restores the copy's version.
func revertFile(t *testing.T, root, name string) (undo func()) {
	t.Helper()
	path := filepath.Join(root, name)
	copyText, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	switch projectText, err := os.ReadFile(filepath.Join("../..", name)); {
	case err == nil:
		err = writeFile(path, projectText, 0o644)
		if err != nil {
			t.Fatal(err)
		}
	default: // the archive adds this file
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := writeFile(path, copyText, 0o644); err != nil {
			t.Error(err)
		}
	}
}

// contributions returns the lists of files and commands below headings like "## Add a lock", keyed
// by the heading's last word. NAME in a file stands for any name.
func contributions(guide string) map[string][]string {
	lists := map[string][]string{}
	heading := regexp.MustCompile(`^## Add an? (\w+)$`)
	item := regexp.MustCompile("^[-*0-9.]+ +`([^`]+)`")
	kind := ""
	for line := range strings.Lines(guide) {
		line = strings.TrimSpace(line)
		switch m := heading.FindStringSubmatch(line); {
		case m != nil:
			kind = m[1]
		case strings.HasPrefix(line, "## "):
			kind = ""
		case kind != "":
			if m := item.FindStringSubmatch(line); m != nil {
				lists[kind] = append(lists[kind], m[1])
			}
		}
	}
	return lists
}

// compareWithList checks that an archive touches exactly the files in a list.
func compareWithList(t *testing.T, list []string, a *txtar.Archive) {
	t.Helper()
	matches := func(item, file string) bool {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(item), "NAME", `[a-z0-9_-]+`)
		return regexp.MustCompile("^" + pattern + "$").MatchString(file)
	}
	for _, f := range a.Files {
		if !slices.ContainsFunc(list, func(item string) bool { return matches(item, f.Name) }) {
			t.Errorf("the example changes %s, which is not in the list: %v", f.Name, list)
		}
	}
	for _, item := range list {
		if !strings.HasPrefix(item, "go ") && !slices.ContainsFunc(a.Files, func(f txtar.File) bool { return matches(item, f.Name) }) {
			t.Errorf("the list names %s, which the example does not change", item)
		}
	}
}

// copyProject copies the project, without files that Git ignores, and returns the copy's folder.
func copyProject(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the project's files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		from := filepath.Join("../..", name)
		info, err := os.Lstat(from)
		if err != nil || !info.Mode().IsRegular() {
			continue // deleted, but the deletion is not committed
		}
		text, err := os.ReadFile(from)
		if err == nil {
			err = writeFile(filepath.Join(root, name), text, info.Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func writeFile(path string, text []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, mode)
}

// addFile writes a new file, or applies hunks to an existing one. A hunk starts with "@@", and its
// lines start with " ", "-" or "+", as in a diff. The lines that it replaces must occur exactly
// once.
func addFile(t *testing.T, path, text string) {
	t.Helper()
	oldText, err := os.ReadFile(path)
	hunks, hasHunks := strings.CutPrefix(text, "@@\n")
	if hasHunks != (err == nil) {
		t.Fatalf("%s: has hunks: %t; read: %v", path, hasHunks, err)
	}
	if hasHunks {
		text = string(oldText)
		for hunk := range strings.SplitSeq(hunks, "@@\n") {
			var oldLines, newLines strings.Builder
			for line := range strings.Lines(hunk) {
				if line[0] != '+' {
					oldLines.WriteString(line[1:])
				}
				if line[0] != '-' {
					newLines.WriteString(line[1:])
				}
			}
			if n := strings.Count(text, oldLines.String()); n != 1 {
				t.Fatalf("%s has these lines %d times, want once:\n%s", path, n, oldLines.String())
			}
			text = strings.Replace(text, oldLines.String(), newLines.String(), 1)
		}
	}
	if err := writeFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func runIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	if err := runCommand(dir, args...); err != nil {
		t.Fatal(err)
	}
}

// runCommand runs a command. -trimpath makes the build cache work across copies of the project.
func runCommand(dir string, args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	return nil
}
