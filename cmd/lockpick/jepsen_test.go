package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// modelFlags lists the models against which each history in testdata/jepsen is checked. Its order
// is that of the columns in jepsenVerdicts and in the README there.
var modelFlags = [][]string{{"--model", "mutex"}, {"--model", "owner-mutex"}, {"--model", "handle"}, {"--model", "lease"}, {"--model", "lease", "--ttl", "1s"}}

// jepsenVerdicts maps each history to its verdicts by model: + holds, - violated.
var jepsenVerdicts = map[string]string{
	"sequential":                        "+ + + + +",
	"concurrent-acquires":               "+ + + + +",
	"two-holders":                       "- - - - -",
	"lease-lapsed":                      "- - - + +",
	"lease-lapsed-in-release":           "- - + + +",
	"lease-not-yet-lapsed":              "- - - + -",
	"lease-counts-from-call":            "- - - + +",
	"lease-lapsed-and-released":         "- - - - -",
	"not-held-too-early":                "+ + - + -",
	"not-held-after-lapse":              "+ + - + +",
	"released-by-another":               "+ - + + +",
	"released-by-another-and-taken":     "+ - - + -",
	"double-release":                    "- - + + +",
	"release-of-a-free-lock":            "- - + + +",
	"failed-release":                    "- - + + +",
	"failed-release-again":              "+ + + + +",
	"failed-release-of-another":         "+ + + + +",
	"failed-acquire":                    "+ + + + +",
	"failed-acquire-released":           "- - + + +",
	"unknown-acquire-takes-effect-late": "+ - + + +",
	"unknown-acquire-called-too-late":   "- - + + +",
	"unknown-acquire-never":             "+ + + + +",
	"unknown-release":                   "+ + + + +",
	"unknown-release-never":             "+ + + + +",
	"unknown-release-called-too-late":   "- - - + -",
	"unknown-release-counts-once":       "- - - + -",
	"unknown-release-of-another":        "+ - - + -",
	"crashed-holder":                    "- - - + +",
	"re-entrant":                        "- - - - -",
	"release-returns-late":              "+ + + + +",
	"release-called-late":               "- - - - -",
	"equal-stamps":                      "+ + + + +",
	"equal-stamps-two-holders":          "- - - - -",
	"no-stamps":                         "+ + + + +",
	"two-locks":                         "+ + + + +",
	"two-locks-one-broken":              "- - - + -",
	"nested-holders":                    "- - - - -",
	"nested-holder":                     "- - - - -",
	"three-holders":                     "- - - - -",
	"not-held-then-released":            "+ + - - -",
	"no-stamps-two-holders":             "- - - - -",
	"holder-and-unknown-release":        "- - - - -",
	"second-holder-after-refusals":      "- - - - -",
	"never-returned":                    "+ + + + +",
}

// TestJepsenHistories checks each history in testdata/jepsen against each model, and that the
// README there is up to date.
func TestJepsenHistories(t *testing.T) {
	const dir = "testdata/jepsen"
	paths, err := filepath.Glob(dir + "/*.edn")
	must(t, err)
	readme := "# Histories of a lock in Jepsen's format\n\nEach file tests one rule. `lockpick check FILE` checks it by a model: + holds, − violated.\n" +
		"`go test ./cmd/lockpick -run Jepsen -update` rewrites this table.\n\n| file | rule |"
	for _, args := range modelFlags {
		readme += " `" + strings.Join(args[1:], " ") + "` |"
	}
	readme += "\n|---|---|" + strings.Repeat("---|", len(modelFlags)) + "\n"
	unusedVerdicts := maps.Clone(jepsenVerdicts)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".edn")
		text, err := os.ReadFile(path)
		must(t, err)
		rule, _, _ := strings.Cut(string(text), "\n")
		rule, ok := strings.CutPrefix(rule, "; ")
		want := strings.Fields(unusedVerdicts[name])
		delete(unusedVerdicts, name)
		if !ok || len(want) != len(modelFlags) {
			t.Fatalf("%s: its comment with the rule or its line in the table is missing", name)
		}
		readme += fmt.Sprintf("| %s | %s |", name, rule)
		for i, args := range modelFlags {
			readme += " " + strings.Replace(want[i], "-", "−", 1) + " |"
			code, out, errs := runLockpick(t, append([]string{"check", path}, args...)...)
			if got := map[int]string{0: "+", 1: "-"}[code]; got != want[i] {
				t.Errorf("%s by %s: %d\n%s%s", name, args, code, out, errs)
			}
		}
		readme += "\n"
	}
	for _, name := range slices.Sorted(maps.Keys(unusedVerdicts)) {
		t.Errorf("%s does not exist", name)
	}
	for i, args := range modelFlags {
		n := map[string]int{}
		for _, want := range jepsenVerdicts {
			n[strings.Fields(want)[i]]++
		}
		if n["+"] < 12 || n["-"] < 12 {
			t.Errorf("%s: %v, want at least 12 of each", args, n)
		}
	}
	oldReadme, _ := os.ReadFile(dir + "/README.md")
	if string(oldReadme) == readme {
		return
	}
	if !*update {
		t.Fatal("the README is out of date (-update rewrites it)")
	}
	must(t, os.WriteFile(dir+"/README.md", []byte(readme), 0o644))
}
