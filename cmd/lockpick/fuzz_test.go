package main

import (
	"cmp"
	"strings"
	"testing"
)

// TestFuzzTokenExpectations checks that a scenario's expectation about its own lock's token scheme
// does not apply to other locks, unless the user sets it. An expectation about the specification's
// tokens applies to every lock that issues tokens.
func TestFuzzTokenExpectations(t *testing.T) {
	for _, c := range []struct {
		scenario string
		lock     []string
		want     string
	}{
		{"clocks-agree", []string{"hardened"}, "holds"},
		{"clocks-agree", []string{"redlock"}, "any"},
		{"clocks-agree", []string{"redlock", "fencing-order=holds"}, "holds"},
		{"always", []string{"redlock"}, "holds"},
		{"always", []string{"hardened"}, "holds"},
		{"base", []string{"redlock"}, "any"},
		{"clocks-agree", []string{"broken"}, "any"},
		{"clocks-agree", []string{"broken", "fencing-order=holds"}, "holds"},
		{"always", []string{"broken"}, "holds"},
	} {
		flags := runFlags{lock: c.lock[0], expectations: c.lock[1:], backend: simulation}
		if flags.lock == "broken" {
			flags.settings = []string{"lock.mistake=fence-from-one-node"}
		}
		picks, err := (&fuzzFlags{runFlags: flags}).pickScenarios([]string{"random-within-assumptions/" + strings.TrimPrefix(c.scenario, "base")})
		if err != nil {
			t.Fatal(err)
		}
		if got := cmp.Or(picks[0].Expect["fencing-order"].Want, "any"); len(picks) != 1 || got != c.want {
			t.Errorf("%s, %v: fencing-order=%s in %d scenarios, want %s in one", c.scenario, c.lock, got, len(picks), c.want)
		}
	}
}

// TestExpectationsCanBeChecked checks that fuzz sets no expectation that a scenario can't check,
// such as bounded-hold without limits. A stored run with that expectation could not be opened.
func TestExpectationsCanBeChecked(t *testing.T) {
	for _, expectations := range [][]string{nil, {"bounded-hold=holds"}} {
		flags := runFlags{lock: "broken", settings: []string{"lock.mistake=plain-del"}, expectations: expectations, backend: simulation}
		picks, err := (&fuzzFlags{runFlags: flags}).pickScenarios([]string{"random-settings", "random-within-assumptions"})
		if err != nil {
			t.Fatal(err)
		}
		numLimited := 0
		for _, p := range picks {
			if err := p.Check(knownNames()); err != nil {
				t.Errorf("%s with %v: %v", p.ID(), expectations, err)
			}
			if p.Expect["bounded-hold"].Want == "holds" {
				numLimited++
			}
		}
		if numLimited == 0 || numLimited == len(picks) {
			t.Errorf("bounded-hold is expected in %d of %d scenarios, want only scenarios with limits", numLimited, len(picks))
		}
	}
	flags := runFlags{expectations: []string{"bounded-hold=holds"}, backend: simulation}
	if _, _, err := flags.chooseScenarios("baseline/"); err == nil {
		t.Error("bounded-hold is expected in a scenario without limits")
	}
}
