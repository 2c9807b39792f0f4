//go:build long && nightly && !windows

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestContributing does what each list in CONTRIBUTING.md says, to a copy of the project:
// it adds the files and lines of an archive, which may touch what is listed there and
// nothing else, and calls the commands of the list. The archive's script then shows with
// the binary that is built what was added, and the tests of the house must pass; at night
// all quick tests.
func TestContributing(t *testing.T) {
	guide, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	lists := contributions(string(guide))
	if len(lists) < 1 {
		t.Fatalf("CONTRIBUTING.md has %d lists of files to add something: %v", len(lists), lists)
	}
	for what, list := range lists {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join("testdata", "contributing", what+".txtar")
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatalf("%v: each list in CONTRIBUTING.md has an example that follows it", err)
			}
			a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "script/") })
			followed(t, list, a)
			root := copied(t)
			for _, f := range a.Files {
				add(t, filepath.Join(root, f.Name), string(f.Data))
			}
			for _, item := range list {
				if strings.HasPrefix(item, "go ") {
					in(t, root, strings.Fields(item)...)
				}
			}
			dir := t.TempDir()
			in(t, root, "go", "build", "-o", filepath.Join(dir, "lockpick"), "./cmd/lockpick")
			testscript.Run(t, testscript.Params{
				Files: []string{path}, RequireExplicitExec: true,
				Setup: func(e *testscript.Env) error {
					e.Setenv("PATH", dir+string(filepath.ListSeparator)+e.Getenv("PATH"))
					return nil
				},
			})
			in(t, root, "go", "test", "-short", "-timeout", "30m", "./...")
		})
	}
}

// contributions is the lists of files and commands by what they add: those below headings
// like "## Add a lock". NAME in a file stands for any name.
func contributions(guide string) map[string][]string {
	lists := map[string][]string{}
	heading := regexp.MustCompile(`^## Add an? (\w+)$`)
	item := regexp.MustCompile("^[-*0-9.]+ +`([^`]+)`")
	what := ""
	for line := range strings.Lines(guide) {
		line = strings.TrimSpace(line)
		switch m := heading.FindStringSubmatch(line); {
		case m != nil:
			what = m[1]
		case strings.HasPrefix(line, "## "):
			what = ""
		case what != "":
			if m := item.FindStringSubmatch(line); m != nil {
				lists[what] = append(lists[what], m[1])
			}
		}
	}
	return lists
}

// followed reports where an archive and a list differ.
func followed(t *testing.T, list []string, a *txtar.Archive) {
	t.Helper()
	named := func(item, file string) bool {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(item), "NAME", `[a-z0-9_-]+`)
		return regexp.MustCompile("^" + pattern + "$").MatchString(file)
	}
	for _, f := range a.Files {
		if !slices.ContainsFunc(list, func(item string) bool { return named(item, f.Name) }) {
			t.Errorf("the example touches %s, which is not in the list: %v", f.Name, list)
		}
	}
	for _, item := range list {
		if !strings.HasPrefix(item, "go ") && !slices.ContainsFunc(a.Files, func(f txtar.File) bool { return named(item, f.Name) }) {
			t.Errorf("the list names %s, which the example does not touch", item)
		}
	}
}

// copied is a copy of the project without what git ignores.
func copied(t *testing.T) string {
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
			continue // deleted, and not yet said so
		}
		text, err := os.ReadFile(from)
		if err == nil {
			err = write(filepath.Join(root, name), text, info.Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func write(path string, text []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, mode)
}

// add writes a new file, or changes one by hunks: "@@" begins one, whose lines begin with
// " ", "-" or "+" as in a diff. What a hunk replaces must be in the file once.
func add(t *testing.T, path, text string) {
	t.Helper()
	old, err := os.ReadFile(path)
	hunks, changes := strings.CutPrefix(text, "@@\n")
	if changes != (err == nil) {
		t.Fatalf("%s is changed: %t; read: %v", path, changes, err)
	}
	if changes {
		text = string(old)
		for hunk := range strings.SplitSeq(hunks, "@@\n") {
			var was, is strings.Builder
			for line := range strings.Lines(hunk) {
				if line[0] != '+' {
					was.WriteString(line[1:])
				}
				if line[0] != '-' {
					is.WriteString(line[1:])
				}
			}
			if n := strings.Count(text, was.String()); n != 1 {
				t.Fatalf("%s has these lines %d times, and should once:\n%s", path, n, was.String())
			}
			text = strings.Replace(text, was.String(), is.String(), 1)
		}
	}
	if err := write(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// in runs a command in a directory. Without the paths of sources in what is built, copies
// share what is the same in them.
func in(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(fmt.Sprint(args, ": ", err, "\n", string(out)))
	}
}
