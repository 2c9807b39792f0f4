//go:build nightly

package exhaust

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockpick/harness/lock/broken"
	reflock "lockpick/harness/lock/redlock"
	"lockpick/harness/lock/redsync"
)

var update = flag.Bool("update", false, "update the table of locks in README.md")

// For each broken lock and each configuration of redsync, the table shows whether the lock's
// messages are as specified, and the result of a search with the lock's mistake.
func TestTableOfLocksIsUpToDate(t *testing.T) {
	const path = "README.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mark := regexp.MustCompile(`(?s)(<!-- begin locks -->\n).*?(<!-- end -->)`)
	if !mark.Match(text) {
		t.Fatalf("%s has no table of locks", path)
	}
	table := tableOfLocks(t)
	want := mark.ReplaceAllStringFunc(string(text), func(m string) string {
		parts := mark.FindStringSubmatch(m)
		return parts[1] + table + parts[2]
	})
	switch {
	case want == string(text):
	case !*update:
		t.Errorf("%s is out of date: run go test -tags nightly ./scenarios/exhaust -run '^%s$' -update\n%s", path, t.Name(), table)
	default:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// This is like TestLocksOnTheWire and TestRedsyncOnTheWire, but with five nodes and one combination
// of replies for each vote count.
func TestFiveNodesOnTheWire(t *testing.T) {
	checkLocksOnTheWire(t, 5)
	checkRedsyncOnTheWire(t, 5)
}

func tableOfLocks(t *testing.T) string {
	all := []library{{"redlock", "", nil, reflock.New}}
	for _, o := range [][2]string{{"driver", "bounded"}, {"driver", "defaults"}, {"fail-fast", "yes"}, {"set-nx-on-extend", "yes"}} {
		all = append(all, library{"redsync", "", map[string]string{o[0]: o[1]}, redsync.New})
	}
	for _, m := range broken.Mistakes() {
		all = append(all, brokenLibrary(m.Name))
	}
	three, five := newModel(Scope{Nodes: 3, Attempts: 2, Extensions: 1}, Reductions{}), newModel(Scope{Nodes: 5, Attempts: 2, Extensions: 1}, Reductions{})
	one := newModel(Scope{Nodes: 1, Attempts: 1, Extensions: 1}, exactReductions)
	var b strings.Builder
	b.WriteString("| lock | differing cases of 262 | first difference | of 567 with five nodes | nodes with its requests | search with its mistake |\n|---|---:|---|---:|---|---|\n")
	for _, lib := range all {
		name := lib.kind
		if lib.mistake != "" {
			name = lib.mistake
		}
		for option, value := range lib.options {
			name += fmt.Sprintf(", %s: %s", option, value)
		}
		requests, cases, numDifferent, first := three.findWireDifference(t, lib)
		if cases != 262 {
			t.Errorf("%s: %d cases", name, cases)
		}
		nodes := one.findNodeRequestDifference(t, requests)
		if nodes == "" {
			nodes = "as specified"
		}
		_, fiveCases, fiveDifferent, _ := five.findWireDifference(t, lib)
		if fiveCases != 567 {
			t.Errorf("%s: %d cases with five nodes", name, fiveCases)
		}
		counted, withFive := fmt.Sprint(numDifferent), fmt.Sprint(fiveDifferent)
		if lib.options["fail-fast"] != "" { // the first reply cancels the other requests, and all replies arrive at the same time
			counted, withFive, first = checkMostDiffer(t, name, numDifferent, cases), checkMostDiffer(t, name, fiveDifferent, fiveCases), "the scheduler determines which requests are sent"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, counted, first, withFive, nodes, searchResult(t, lib.mistake))
	}
	return b.String()
}

// checkMostDiffer checks that most cases differ, for a lock where the exact number depends on the
// scheduler.
func checkMostDiffer(t *testing.T, name string, numDifferent, cases int) string {
	if 2*numDifferent <= cases {
		t.Errorf("%s: only %d of %d cases differ", name, numDifferent, cases)
	}
	return "most"
}

// searchResult describes the result of searching the first known scope with a mistake.
func searchResult(t *testing.T, mistake string) string {
	i := slices.IndexFunc(knownScopes(), func(r knownScope) bool { return r.Mistake == mistake })
	if mistake == "" || i < 0 {
		return ""
	}
	r := newModel(knownScopes()[i].Scope, fullReductions).Search(t.Context(), 0, nil)
	return fmt.Sprintf("violated in %d steps", len(r.Counterexample))
}
