//go:build nightly && !windows

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockpick/scenarios/outcome"
)

// counterexamplePattern matches a counterexample on a card, and captures the type of fault, the
// violations, and the command that shows them. Earlier cards name the run in the heading.
var counterexamplePattern = regexp.MustCompile("(?s)(?:### |Shortest run: )[^\n]* \\(([^\n]*)\\)\n\n(.*?)\n`lockpick (run [^`]*)`")

var violationPattern = regexp.MustCompile(`(?m)^- ([a-z-]+) ([a-z-]+): `)

// TestScorecardsReplay reruns the commands on the stored scorecards in the simulation. The current
// scenarios and checker must give the same verdicts and causes.
func TestScorecardsReplay(t *testing.T) {
	all, err := filepath.Glob(scorecards + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		numShown := 0
		for _, f := range counterexamplePattern.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(f[3], "--backend") || strings.Contains(f[1], " on process") {
				continue
			}
			out, _ := exec.Command("sh", "-c", fmt.Sprintf("lockpick %s --json --store '%s'", f[3], filepath.Join(t.TempDir(), "store"))).Output()
			var got struct{ Outcomes []outcome.Outcome }
			if err := json.Unmarshal(out, &got); err != nil || len(got.Outcomes) != 1 {
				t.Errorf("%s: %s: %d runs, %v", path, f[3], len(got.Outcomes), err)
				continue
			}
			for _, h := range violationPattern.FindAllStringSubmatch(f[2], -1) {
				j := got.Outcomes[0].JudgementOf(h[1])
				if j == nil || j.Got != "violated" || j.Cause != h[2] {
					t.Errorf("%s: %s: %s is not violated (%s), but %+v", path, f[3], h[1], h[2], j)
				}
				numShown++
			}
		}
		t.Logf("%s: %d violations reproduced", filepath.Base(path), numShown)
	}
}
