package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"lockpick/scenarios/campaign"
)

// minimizedForms is a file with a line for each scenario in the catalog that expects a violation.
// The line describes the minimized scenario.
const minimizedForms = "testdata/shrunk.txt"

// violatingScenario is a scenario that expects a violation.
type violatingScenario struct {
	pick
	bug campaign.Bug // the first expected violation with a cause
}

func violatingScenarios(t *testing.T) []violatingScenario {
	t.Helper()
	all, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	var list []violatingScenario
	for _, p := range all {
		for _, property := range knownNames().Properties {
			if e := p.Expect[property]; e.Want == "violated" && e.LeadProperty == "" {
				list = append(list, violatingScenario{p, campaign.Bug{Property: property, Cause: e.Cause}})
				break
			}
		}
	}
	return list
}

// readMinimizedForms returns the lines of the file minimizedForms, by scenario.
func readMinimizedForms(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(minimizedForms)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{}
	for line := range strings.Lines(string(text)) {
		id, form, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if _, exists := forms[id]; exists {
			t.Errorf("%s has two lines for %s", minimizedForms, id)
		}
		forms[id] = form
	}
	return forms
}

// TestMinimizedFormsAreComplete checks that each scenario that expects a violation has a line in
// minimizedForms, with the expected cause. TestMinimizedForms, which minimizes all of them, takes
// minutes.
func TestMinimizedFormsAreComplete(t *testing.T) {
	forms := readMinimizedForms(t)
	for _, s := range violatingScenarios(t) {
		form, ok := forms[s.ID()]
		if delete(forms, s.ID()); !ok || !strings.HasPrefix(form, s.bug.String()+", ") && form != noViolationForm(s.bug) {
			t.Errorf("%s expects %s, and %s has %q: go test -tags nightly ./cmd/lockpick -run '^TestMinimizedForms$/^%s$' -update",
				s.ID(), s.bug, minimizedForms, form, strings.ReplaceAll(s.ID(), "/", "$/^"))
		}
	}
	for id := range forms {
		t.Errorf("%s has a line for %s, which is not in the catalog or expects no violation", minimizedForms, id)
	}
}

// noViolationForm returns the line for a scenario whose violation does not occur with seed 1.
func noViolationForm(bug campaign.Bug) string {
	return fmt.Sprintf("seed 1 does not show %s", bug.Property)
}
