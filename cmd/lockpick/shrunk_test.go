package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"lockpick/scenarios/campaign"
)

// minimizedForms has a line for each scenario of the catalogue that expects a violation, with its minimized
// form.
const shrunkForms = "testdata/shrunk.txt"

// minimizable is a scenario that expects a violation.
type shrinkable struct {
	pick
	bug campaign.Bug // the first expected violation with a cause
}

// minimizables lists the scenarios of the catalogue that expect a violation.
func shrinkables(t *testing.T) []shrinkable {
	t.Helper()
	all, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	var list []shrinkable
	for _, p := range all {
		for _, property := range known().Properties {
			if e := p.Expect[property]; e.Want == "violated" && e.Follows == "" {
				list = append(list, shrinkable{p, campaign.Bug{Property: property, Cause: e.Cause}})
				break
			}
		}
	}
	return list
}

// readMinimizedForms returns the lines by scenario.
func readShrunkForms(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(shrunkForms)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{}
	for line := range strings.Lines(string(text)) {
		id, form, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if _, twice := forms[id]; twice {
			t.Errorf("%s has two lines for %s", shrunkForms, id)
		}
		forms[id] = form
	}
	return forms
}

// TestMinimizedFormsAreComplete checks that each scenario that expects a violation has a line with the
// expected cause. TestMinimizedForms, which minimizes them all, takes minutes.
func TestShrunkFormsAreComplete(t *testing.T) {
	forms := readShrunkForms(t)
	for _, s := range shrinkables(t) {
		form, ok := forms[s.ID()]
		if delete(forms, s.ID()); !ok || !strings.HasPrefix(form, s.bug.String()+", ") && form != notShown(s.bug) {
			t.Errorf("%s expects %s, and %s has %q: go test -tags nightly ./cmd/lockpick -run '^TestShrunkForms$/^%s$' -update",
				s.ID(), s.bug, shrunkForms, form, strings.ReplaceAll(s.ID(), "/", "$/^"))
		}
	}
	for id := range forms {
		t.Errorf("%s has a line for %s, which is not in the catalogue or expects no violation", shrunkForms, id)
	}
}

// notShown is the form of a scenario whose violation does not occur with seed 1.
func notShown(bug campaign.Bug) string {
	return fmt.Sprintf("seed 1 does not show %s", bug.Property)
}
