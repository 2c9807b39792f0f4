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

	"lockpick/harness/lock/exec/adapters"
	"lockpick/harness/lock/kinds"
)

const scorecards = "../../reports/scorecards/"

// make scorecards makes a card of each kind of lock and of each adapter that is shipped.
func TestScorecardsOfAll(t *testing.T) {
	script, err := os.ReadFile("../../.ci/scorecards")
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		t.Skip("the script wants the bash of Linux")
	}
	names, err := exec.Command("bash", "-c", "cd ../..; "+regexp.MustCompile(`(?m)^mapfile .* kinds .*$`).FindString(string(script))+`; printf '%s\n' broken "${kinds[@]}"`).Output()
	if got := strings.Fields(string(names)); err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), kinds.Names()) {
		t.Errorf("%q, %v: there is a card of each kind but broken", got, err)
	}
	for _, a := range adapters.Libraries {
		if line := `"` + strings.Join([]string{a.Name, a.Set, "redis-server", a.Command(adapters.Folder)}, "|") + `"`; !strings.Contains(string(script), line) {
			t.Errorf("no line %s", line)
		}
	}
}

// commandLine is a run as a card or the track record has it: what was chosen, and the rest.
var commandLine = regexp.MustCompile("`lockpick run '?([^ '`]+)'?([^`]*)`")

// The cards that are kept say when and with what they were made, stand in the table, and name
// scenarios that there are; so does the track record, whose findings are violations that are expected.
func TestScorecardsAreWhole(t *testing.T) {
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
	table, record, cards := pages["README.md"], pages["track-record.md"], 0
	for name, text := range pages {
		for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
			if _, err := (choice{names: []string{m[1]}}).scenarios(); err != nil {
				t.Errorf("%s: %s: %v", name, m[0], err)
			}
		}
		if name == "README.md" || name == "track-record.md" {
			continue
		}
		cards++
		lock, is := strings.CutPrefix(strings.SplitN(text, "\n", 2)[0], "# Scorecard of ")
		if !is || !regexp.MustCompile(`(?m)^Made on 20\d\d-\d\d-\d\d with \S+ \d+\.\d+\.\d+, `).MatchString(text) {
			t.Errorf("%s says not of what it is, or when it was made with what", name)
		}
		if !strings.Contains(table, "["+lock+"]("+name+")") {
			t.Errorf("%s is not in the table: .ci/scorecards writes it", name)
		}
	}
	if cards == 0 {
		t.Error("there are no cards")
	}
	found := commandLine.FindAllStringSubmatch(record, -1)
	if len(found) == 0 {
		t.Error("the track record has no finding")
	}
	for _, m := range found {
		if !strings.Contains(m[2], "--backend process") || !strings.Contains(m[2], "=violated") {
			t.Errorf("%s does not expect a violation on real servers", m[0])
		}
	}
}
