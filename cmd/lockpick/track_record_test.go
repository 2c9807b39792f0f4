//go:build !windows

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"lockpick/scenarios/outcome"
)

// publishedFinding is a row in the track record.
type publishedFinding struct{ lock, property, cause, command string }

func trackRecord(t *testing.T) (all []publishedFinding) {
	t.Helper()
	page, err := os.ReadFile(scorecards + "track-record.md")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(page), "\n## ")
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 6 || cells[0] == "lock" {
			continue
		}
		f := publishedFinding{lock: cells[0], command: strings.Trim(cells[3], "`")}
		f.property, f.cause, _ = strings.Cut(cells[2], ": ")
		for _, part := range []string{"lockpick run ", " --backend process ", " --expect " + f.property + "=violated"} {
			if !strings.Contains(f.command, part) {
				t.Errorf("%s: %q has no %q", f.lock, f.command, part)
			}
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		t.Fatal("the track record has no findings")
	}
	return all
}

// check checks the result of the finding's command: the exit code must be 0, and the property must
// be violated with the cause in the row.
func (f publishedFinding) check(t *testing.T, code int, all []outcome.Outcome) {
	t.Helper()
	if code != 0 || len(all) != 1 {
		t.Errorf("exit code %d, %d runs", code, len(all))
	}
	for _, o := range all {
		if j := o.JudgementOf(f.property); j == nil || j.Got != "violated" || j.Cause != f.cause {
			t.Errorf("want %s: %s, got %s %+v", f.property, f.cause, o.Error, o.Judgements)
		}
	}
}

// TestTrackRecord reproduces the findings about Go locks in the simulation, except findings that
// need a fault that the simulation does not support. TestTrackRecordOnServers reproduces all of
// them.
func TestTrackRecord(t *testing.T) {
	numSimulated := 0
	for _, f := range trackRecord(t) {
		if !strings.Contains(f.command, " --lock ") {
			continue
		}
		command := strings.NewReplacer(" --backend process", "", " --scale 1", "").Replace(f.command)
		t.Run(f.lock+" "+f.cause, func(t *testing.T) {
			code, all := outcomes(t, "lockpick", strings.Fields(command)[1:]...)
			if slices.ContainsFunc(all, func(o outcome.Outcome) bool { return o.Skipped != "" }) {
				t.Skip(all[0].Skipped)
			}
			numSimulated++
			f.check(t, code, all)
		})
	}
	if numSimulated < 8 {
		t.Errorf("the simulation shows %d findings, want at least 8", numSimulated)
	}
}
