//go:build long

package checker

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// proofs are the tests that compare the checker with porcupine, or with judges
// that are too simple to be wrong.
const proofs = "Exhaustively|Against"

// causeTests are the tests that compare causes with the table of causes.
const causeTests = "TestCause|TestWhyNobody|TestRefusedSets|TestSpareVotes|TestNoCause"

// TestMutants plants each mistake of testdata/mutants.list in a copy of the checker, or of the
// facts that it judges, and expects the tests to notice it. By day it tries every sixth.
func TestMutants(t *testing.T) {
	if out, err := exec.Command("go", "vet", "./...").CombinedOutput(); err != nil {
		t.Fatalf("the checker itself: %v\n%s", err, out)
	}
	functions := declaredFunctions(t)
	for i, m := range readMutants(t) {
		if i%mutantStride != 0 {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			x, err := functions.apply(m)
			if err != nil {
				t.Fatal(err)
			}
			tests := cmp.Or(m.tests, proofs)
			if tests == "causes" {
				tests = causeTests
			}
			for _, dir := range packagesFor(x.path) {
				if killer := kill(t, dir, tests, x); killer != "" {
					t.Logf("killed by %s of %s", killer, dir)
					return
				}
			}
			t.Errorf("it survived: no test notices that %s", m.mistake)
		})
	}
}

// packagesFor lists the packages whose tests may notice a mistake in a file: the file's own and
// this one, or everything that judges if the file belongs to what all of it reads. Those that
// usually notice it come first.
func packagesFor(file string) []string {
	switch dir := filepath.Dir(file); filepath.Base(dir) {
	case "facts", "history":
		first, second := "lease", "."
		if filepath.Base(file) == "attempt.go" { // which votes belong together
			first, second = second, first
		}
		return []string{first, second, "cause", "spans", "liveness", "resource"}
	case "mutex", "edn", ".":
		return []string{dir}
	case "spans": // lease compares overlaps with brute force
		return []string{dir, "lease", "."}
	default:
		return []string{dir, "."}
	}
}

// kill runs tests of a package with a mutant in it, and returns the test that failed, or "".
func kill(t *testing.T, pkg, tests string, x mutated) string {
	t.Helper()
	dir := t.TempDir()
	changed := filepath.Join(dir, filepath.Base(x.path))
	if err := os.WriteFile(changed, []byte(x.text), 0o644); err != nil {
		t.Fatal(err)
	}
	original, err := filepath.Abs(x.path)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "mutant.test")
	build := exec.Command("go", "test", "-c", "-ldflags=-w", "-o", binary, "-overlay", filepath.Join(dir, "overlay.json"), ".")
	build.Dir = pkg
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the mutant does not compile: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "-test.run", tests, "-test.failfast", "-test.timeout", "2m")
	cmd.Dir = pkg
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	if err == nil {
		return ""
	}
	return killer(string(out))
}

// killer finds the test that failed in what go test printed.
func killer(out string) string {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			return strings.TrimSpace(name)
		}
	}
	return "a panic, or the time"
}
