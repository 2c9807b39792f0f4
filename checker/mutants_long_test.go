//go:build long

package checker

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// proofs are the tests that compare the checker with porcupine, or with judges
// that are too dumb to be wrong.
const proofs = "Exhaustively|Against"

// causeTests are those that hold causes to the table; of no mistake in a judge.
const causeTests = "TestCause|TestWhyNobody|TestRefusedSets|TestSpareVotes|TestNoCause"

// TestMutants makes one mistake in a copy of the checker, or of the facts that it
// judges, for each patch in testdata/mutants, and expects the proofs to find it. By day
// every third has to do.
func TestMutants(t *testing.T) {
	patches, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	if out, err := exec.Command("go", "vet", "./...").CombinedOutput(); err != nil {
		t.Fatalf("the checker itself: %v\n%s", err, out)
	}
	for i, path := range patches {
		if i%mutantStride != 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".patch"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file, mutated, err := apply(string(text))
			if err != nil {
				t.Fatalf("the patch no longer applies: %v", err)
			}
			tests := proofs
			if _, of, ok := strings.Cut(head(text), "tests: "); ok {
				tests = of
			} else if strings.Contains(file, "/cause/") || strings.HasSuffix(file, "/why.go") || strings.HasSuffix(file, "/lives.go") {
				tests = causeTests
			}
			for _, room := range rooms(file) {
				if killer := kill(t, room, tests, file, mutated); killer != "" {
					t.Logf("killed by %s of %s", killer, room)
					return
				}
			}
			t.Errorf("it survived: no proof notices that %s", firstLine(text))
		})
	}
}

// rooms is the packages whose tests may find a mistake in a file: the file's own and this
// one, or for what is read and put in order all that judge it. Those that mostly find it come first.
func rooms(file string) []string {
	switch room := filepath.Dir(file); filepath.Base(room) {
	case "facts", "history":
		first, second := "lease", "."
		if name := filepath.Base(file); name == "round.go" || name == "attempt.go" { // of which votes belong together
			first, second = second, first
		}
		return []string{first, second, "cause", "windows", "liveness", "resource", "assumptions"}
	case "mutex", "edn", "checker":
		return []string{room}
	case "windows": // lease compares overlaps with brute force
		return []string{room, "lease", "."}
	default:
		return []string{room, "."}
	}
}

// kill runs tests of a package with another text of a file, and returns the one that
// failed, or "".
func kill(t *testing.T, room, tests, file, mutated string) string {
	t.Helper()
	dir := t.TempDir()
	changed := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(changed, []byte(mutated), 0o644); err != nil {
		t.Fatal(err)
	}
	original, err := filepath.Abs(file)
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
	build.Dir = room
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the mutant does not compile: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "-test.run", tests, "-test.failfast", "-test.timeout", "2m")
	cmd.Dir = room
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	if err == nil {
		return ""
	}
	return killer(string(out))
}

// killer is the test that failed.
func killer(out string) string {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			return strings.TrimSpace(name)
		}
	}
	return "a panic, or the time"
}

// apply applies a unified diff of one hunk to the file that it names. The hunk is
// found by its lines, not by their numbers: it must be there exactly once.
func apply(patch string) (file, mutated string, err error) {
	var was, is strings.Builder
	for line := range strings.Lines(patch[strings.Index(patch, "--- "):]) {
		switch {
		case strings.HasPrefix(line, "+++ "):
			file = filepath.Join("..", strings.TrimPrefix(strings.TrimSpace(line), "+++ b/"))
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "@@"):
		case line[0] == '-':
			was.WriteString(line[1:])
		case line[0] == '+':
			is.WriteString(line[1:])
		default:
			was.WriteString(line[1:])
			is.WriteString(line[1:])
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count(string(text), was.String()); n != 1 {
		return "", "", fmt.Errorf("%s has its lines %d times:\n%s", file, n, was.String())
	}
	return file, strings.Replace(string(text), was.String(), is.String(), 1), nil
}

// head is what a patch says before its diff: the mistake, and which tests are to find it if
// not those that its file calls for.
func head(patch []byte) string {
	text, _, _ := strings.Cut(string(patch), "\n\n")
	return text
}
