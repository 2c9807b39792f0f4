//go:build long && !windows

package locktest

import (
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
