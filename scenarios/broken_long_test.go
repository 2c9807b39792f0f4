//go:build long

package scenarios_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"text/tabwriter"

	"lockpick/checker/verdict"
	"lockpick/harness/lock/broken"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// maxSeeds is how many seeds a scenario has to catch its broken lock.
const maxSeeds = 200

// TestBrokenLocks runs the scenarios that catch broken locks, and prints each violation with the
// first seed that shows it.
func TestBrokenLocks(t *testing.T) {
	all := choose(t)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "mistake\tscenario\tproperty\tcause\tseeds")
	for _, m := range broken.Mistakes() {
		catching := 0
		for _, s := range all {
			if s.Lock.Mistake != m.Name || !slices.ContainsFunc(slices.Collect(maps.Keys(s.Expect)), func(p string) bool {
				return s.Expect[p].Want == "violated"
			}) {
				continue
			}
			catching++
			seed, o := findCatchingSeed(t, s)
			if seed == 0 {
				t.Errorf("%s does not catch %s with any of %d seeds; last judgements: %+v", s.ID(), m.Name, maxSeeds, o.Judgements)
				continue
			}
			for _, j := range o.Judgements {
				if j.Got == verdict.Violated && j.ImpliedBy == "" {
					fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\n", m.Name, s.ID(), j.Property, j.Cause, seed)
				}
			}
		}
		if catching == 0 {
			t.Errorf("no scenario catches %s", m.Name)
		}
	}
	table.Flush()
}

// findCatchingSeed returns the first seed that gives the scenario's expected result, or 0.
func findCatchingSeed(t *testing.T, s scenarios.Found) (seed uint64, o outcome.Outcome) {
	t.Helper()
	for seed = 1; seed <= maxSeeds; seed++ {
		o = campaign.Execute(t.Context(), sim.New(kinds.All), campaign.Job{Scenario: s.Scenario, Seed: seed, Backend: "sim", Keep: campaign.KeepNone})
		if o.Error != "" || o.Skipped != "" {
			t.Errorf("%s, seed %d: %s%s", s.ID(), seed, o.Error, o.Skipped)
			return 0, o
		}
		if o.Code == outcome.ExitOK {
			return seed, o
		}
	}
	return 0, o
}
