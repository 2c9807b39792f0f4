//go:build long && !windows

package locktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestExampleModule runs the tests of the module in testdata/example as its author would. They must
// pass, and fail for the right cause once the lock has its mistake.
func TestExampleModule(t *testing.T) {
	binary := buildExample(t)
	if out, err := runBinary(binary, "-test.v", "-test.run=^TestLock$"); err != nil || strings.Count(out, "    --- PASS: ") < 15 {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := runBinary(binary, "-careless", "-test.run=^TestLock$/^(foreign-release|lost-reply)$/^base$", "-test.v", "-test.artifacts", "-test.outputdir="+t.TempDir())
	for _, want := range []string{
		"--- FAIL: TestLock/foreign-release/base",
		"--- PASS: TestLock/lost-reply/base",
		"mutual-exclusion violated (deleted-by-other at n1), expected holds; holds in the comparison run: c2 and c3 both believed they held lock-1",
		"a release by c1 DELETES c2's key on",
		"run again: go test -run '^TestLock$/^foreign-release$/^base$' -artifacts . '-careless=true'",
	} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %q is not in\n%s", err, want, out)
		}
	}
	_, dir, _ := strings.Cut(out, "history and report.html: ")
	dir, _, _ = strings.Cut(dir, "\n")
	for _, name := range []string{"run.json", "history.jsonl.gz", "verdict.json", "outcome.json", "report.html"} {
		if matches, err := filepath.Glob(filepath.Join(dir, name)); err != nil || len(matches) != 1 {
			t.Errorf("file %[2]s not found in %[1]q", dir, name)
		}
	}
}

func buildExample(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "example.test")
	cmd := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-o", binary, ".")
	cmd.Dir = filepath.Join("testdata", "example")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func runBinary(binary string, args ...string) (string, error) {
	out, err := exec.Command(binary, args...).CombinedOutput()
	return string(out), err
}

// TestSeparateModule follows the package comment to test a module's lock from a module of its own. The
// dependencies of the first module stay the same, and its own tests don't include the new ones.
func TestSeparateModule(t *testing.T) {
	app := t.TempDir()
	source, err := filepath.Abs("testdata/app")
	if err != nil {
		t.Fatal(err)
	}
	run := func(dir, command string) string {
		t.Helper()
		cmd := exec.Command("sh", "-ec", command)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GONOSUMDB=*", "GOWORK=off") // the module cache suffices
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
	run(app, "cp "+source+"/go.mod "+source+"/app.go .; go build -mod=mod ./...")
	before := run(app, "cat go.mod go.sum")

	run(app, recipe(t))
	if out := run(filepath.Join(app, "locktest"), "cp "+source+"/locktest/app_test.go .; go mod tidy; go test -v ./..."); strings.Count(out, "    --- PASS: TestLock/") != 2 {
		t.Errorf("in the new module:\n%s", out)
	}
	if after := run(app, "cat go.mod go.sum"); after != before || !strings.Contains(after, "redislock v0.9.4 h1:") {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
	if out := run(app, "go test ./..."); out != "?   \texample.org/app\t[no test files]\n" {
		t.Errorf("the module's own tests:\n%s", out)
	}
}

// recipe returns the commands in the package comment that make a separate module.
func recipe(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("locktest.go")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(text), "//\tmkdir locktest\n")
	commands, _, _ = strings.Cut("//\tmkdir locktest\n"+commands, "//\n")
	if strings.Count(commands, "\n") != 5 || strings.Count(commands, "../../lockpick") != 1 {
		t.Fatalf("the recipe is\n%s", commands)
	}
	return strings.NewReplacer("//\t", "", "../../lockpick", root).Replace(commands)
}
