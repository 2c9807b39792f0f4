package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockpick/checker"
	"lockpick/harness/lock/broken"
	"lockpick/reports"
)

// TestReadme holds what the README shows against what a reader gets. With
// -update it is rewritten.
func TestReadme(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	printed := lockpick(t, "run", "--store", store)
	drawn := lockpick(t, "explain", filepath.Join(store, "gc-pause-after-acquire", "latest"))
	asShown(t, filepath.Join(store, "gc-pause-after-acquire", "latest", reports.DrawingFile), "testdata/gc-pause-after-acquire.svg")
	inReadme(t, map[string]string{
		"run": fence(shortened(printed)), "explain gc-pause-after-acquire/": fence(drawn), "broken": brokenLocks(t),
	})
}

// inReadme holds blocks of the README to what they should be.
func inReadme(t *testing.T, blocks map[string]string) {
	t.Helper()
	const path = "../../README.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, block := range blocks {
		mark := regexp.MustCompile(`(?s)(<!-- begin ` + regexp.QuoteMeta(name) + ` -->\n).*?(<!-- end -->)`)
		if !mark.MatchString(want) {
			t.Errorf("README.md has no block %q", name)
		}
		want = mark.ReplaceAllStringFunc(want, func(m string) string {
			parts := mark.FindStringSubmatch(m)
			return parts[1] + block + parts[2]
		})
	}
	if want == string(text) {
		return
	}
	if !*update {
		t.Errorf("README.md does not show what one gets: run go test ./cmd/lockpick -run %s -update\n%s", t.Name(), want)
		return
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// asShown holds the README's picture to the one that a reader gets.
func asShown(t *testing.T, drawn, shown string) {
	t.Helper()
	got, err := os.ReadFile(drawn)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(shown, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(shown); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what one gets: run go test ./cmd/lockpick -run Readme -update (%v)", shown, err)
	}
}

func lockpick(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("lockpick", args...) // TestMain has put it on PATH
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lockpick %v: %v\n%s%s", args, err, out, errs.String())
	}
	return string(out)
}

// shortened leaves out the middle of a long text: a reader has five minutes.
func shortened(text string) string {
	const first, last = 22, 8
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) <= first+last {
		return text
	}
	return strings.Join(slices.Concat(lines[:first], []string{"…"}, lines[len(lines)-last:]), "\n")
}

func fence(text string) string { return "```\n" + strings.TrimSpace(text) + "\n```\n" }

// brokenLocks is the table of locks with a mistake: where each is caught, and as what.
func brokenLocks(t *testing.T) string {
	t.Helper()
	all, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| mistake | what its author thought | what it does wrong | caught by | as |\n|---|---|---|---|---|\n")
	for _, m := range broken.Mistakes() {
		caught := false
		for _, s := range all {
			if s.Lock.Mistake != m.Name {
				continue
			}
			for _, property := range checker.Properties() {
				if e := s.Expect[property]; !caught && e.Want == "violated" && e.Cause != "" {
					fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s violated: %s |\n", m.Name, m.Thought, m.Doc, s.ID(), property, e.Cause)
					caught = true
				}
			}
		}
		if !caught {
			t.Errorf("no scenario says how it catches the mistake %s", m.Name)
		}
	}
	return b.String()
}
