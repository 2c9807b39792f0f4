package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	adapters "lockpick/harness/lock/exec"
	"lockpick/harness/lock/kinds"
)

const scorecards = "../../reports/scorecards/"

// TestScorecardsOfAll checks that "make scorecards" makes a card for each kind of lock and each
// adapter in the repository.
func TestScorecardsOfAll(t *testing.T) {
	script, err := os.ReadFile("../../.ci/scorecards")
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		t.Skip("the script needs the bash of Linux")
	}
	names, err := exec.Command("bash", "-c", "cd ../..; "+regexp.MustCompile(`(?m)^mapfile .* kinds .*$`).FindString(string(script))+`; printf '%s\n' broken "${kinds[@]}"`).Output()
	if got := strings.Fields(string(names)); err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), kinds.Names()) {
		t.Errorf("%q, %v: want a card of each kind except broken", got, err)
	}
	for _, a := range adapters.Libraries {
		if line := `"` + strings.Join([]string{a.Name, a.Set, "redis-server", a.Command(adapters.AdapterFolder)}, "|") + `"`; !strings.Contains(string(script), line) {
			t.Errorf("no line %s", line)
		}
	}
}

// runCommandPattern matches a run command on a card or in the track record, and captures the scenario and
// the rest.
var runCommandPattern = regexp.MustCompile("`lockpick run '?([^ '`]+)'?([^`]*)`")

// TestScorecardsAreComplete checks that each stored scorecard has a date and versions and is listed
// in the README, and that the cards and the track record name existing scenarios.
func TestScorecardsAreComplete(t *testing.T) {
	all, err := filepath.Glob(scorecards + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(path)] = string(text)
	}
	table, cards := pages["README.md"], 0
	for name, text := range pages {
		for _, m := range runCommandPattern.FindAllStringSubmatch(text, -1) {
			if _, err := (choice{names: []string{m[1]}}).scenarios(); err != nil {
				t.Errorf("%s: %s: %v", name, m[0], err)
			}
		}
		if name == "README.md" || name == "track-record.md" {
			continue
		}
		cards++
		lock, ok := strings.CutPrefix(strings.SplitN(text, "\n", 2)[0], "# Scorecard of ")
		if !ok || !regexp.MustCompile(`(?m)^Made on 20\d\d-\d\d-\d\d with \S+ \d+\.\d+\.\d+, `).MatchString(text) {
			t.Errorf("%s does not contain the lock, the date or the versions", name)
		}
		if !strings.Contains(table, "["+lock+"]("+name+")") {
			t.Errorf("%s is not in the table: run .ci/scorecards", name)
		}
	}
	if cards == 0 {
		t.Error("no scorecards")
	}
}

// TestWithdrawnMarks checks that withdrawn marks don't reappear, for example because a card was
// remade with the same settings.
func TestWithdrawnMarks(t *testing.T) {
	page, err := os.ReadFile(scorecards + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "<!-- begin withdrawn -->")
	list, _, _ = strings.Cut(list, "<!-- end withdrawn -->")
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z0-9-]+) \| (.+?) \| (.+?) \|$`).FindAllStringSubmatch(list, -1) {
		name, mark := row[1], row[2]
		if name == "card" {
			continue
		}
		text, err := os.ReadFile(scorecards + name + ".md")
		switch {
		case mark == "the card" && !os.IsNotExist(err):
			t.Errorf("%s.md was withdrawn but exists again: %s", name, row[3])
		case mark == "the card":
		case err != nil:
			t.Error(err)
		case strings.HasPrefix(mark, "`"):
			_, violations, _ := strings.Cut(string(text), "\n## Violated and required\n")
			violations, _, _ = strings.Cut(violations, "\n## ")
			if strings.Contains(violations, strings.Trim(mark, "`")) { // a run that is shown, or another one with the same cause
				t.Errorf("%s.md has %s as a violation again: %s", name, mark, row[3])
			}
		default:
			marks := regexp.MustCompile(`(?m)^\| ` + mark + ` \|.*$`).FindString(string(text))
			if marks == "" || strings.Contains(marks, "✗") {
				t.Errorf("%s.md has its marks for %s again: %s", name, mark, row[3])
			}
		}
	}
}
