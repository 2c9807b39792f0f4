//go:build long

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/checker"
	"lockpick/harness/lock/broken"
)

// TestReadme checks that the READMEs show the commands' actual output. -update rewrites the READMEs.
func TestReadme(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	runOutput := lockpick(t, "run", "--store", store)
	if n := strings.Count(runOutput, "\n"); n > 25 {
		t.Errorf("the output for the whole catalog has %d lines, too many for a screen", n)
	}
	diagramText := lockpick(t, "explain", filepath.Join(store, "gc-pause-after-acquire", "latest"))
	lockpick(t, "report", filepath.Join(store, "gc-pause-after-acquire", "latest"))
	checkPicture(t, filepath.Join(store, "gc-pause-after-acquire", "latest", "sequence.svg"), "testdata/gc-pause-after-acquire.svg")
	checkReadme(t, "../../README.md", map[string]string{"run": codeBlock(runOutput)})
	checkReadme(t, "README.md", map[string]string{"explain gc-pause-after-acquire/": codeBlock(diagramText)})
	checkReadme(t, "../../harness/lock/README.md", map[string]string{"broken": brokenLocks(t), "own lock": exampleLock(t)})
	checkReadme(t, "../../scenarios/exhaust/README.md", map[string]string{"exhaust": lockpick(t, "model-check", "--markdown")})
}

// exampleLock returns the example lock that harness/lock/README.md shows.
func exampleLock(t *testing.T) string {
	t.Helper()
	a, err := txtar.ParseFile("testdata/contributing/lock.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return "```go\n" + string(a.Files[0].Data) + "```\n"
}

// checkPicture compares a picture that lockpick drew with the file that the README shows.
func checkPicture(t *testing.T, gotPath, wantPath string) {
	t.Helper()
	got, err := os.ReadFile(gotPath)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(wantPath, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(wantPath); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from what the run draws; run go test -tags long ./cmd/lockpick -run Readme -update (%v)", wantPath, err)
	}
}

func codeBlock(text string) string { return "```\n" + strings.TrimSpace(text) + "\n```\n" }

// brokenLocks returns the table of broken locks. It names the scenario and the violation that
// reveal each mistake.
func brokenLocks(t *testing.T) string {
	t.Helper()
	all, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| mistake | what its author thought | what it does wrong | caught by | as |\n|---|---|---|---|---|\n")
	for _, m := range broken.Mistakes() {
		isCaught := false
		for _, s := range all {
			if s.Lock.Mistake != m.Name {
				continue
			}
			for _, property := range checker.Properties() {
				if e := s.Expect[property]; !isCaught && e.Want == "violated" && e.Cause != "" {
					fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s violated: %s |\n", m.Name, m.Thought, m.Doc, s.ID(), property, e.Cause)
					isCaught = true
				}
			}
		}
		if !isCaught {
			t.Errorf("no scenario catches the mistake %s", m.Name)
		}
	}
	return b.String()
}
