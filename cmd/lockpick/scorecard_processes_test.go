//go:build processes && !windows

package main

import (
	"slices"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/lock/kinds"
	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// A library's scorecard in the simulation, and beside it on real servers, which are asked for what
// the simulation finds, too: by day of a scenario for each sort of failure, at night of all scenarios
// and each set-up. Each counterexample shows what the card says.
func TestScoreOnProcesses(t *testing.T) {
	t.Parallel() // it mostly waits
	needRedis(t)
	libraries := []string{"redislock"}
	only := []string{"--tag", "score"}
	if night {
		libraries, only = nil, []string{"--seeds", "20"}
		for _, kind := range kinds.Names() {
			if kinds.All[kind].OwnTime {
				libraries = append(libraries, kinds.Setups(kind)...)
			}
		}
	}
	for _, lock := range libraries {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			dir, book, code := scored(t, append([]string{"scorecard", lock, "--beside", "process", "--jobs", "2"}, only...)...)
			c := onlyCard(t, book, code)
			complete(t, c)
			t.Logf("exit code %d, %d counterexamples: %s", code, replayed(t, dir, book), suites.CardHeadline(c))
		})
	}
}

// complete sees that mutual exclusion was put to the test under each sort of failure that the
// tier of every lock has, on both backends.
func complete(t *testing.T, c *outcome.Card) {
	t.Helper()
	for _, sort := range []string{outcome.NoFailure, "clocks", "crashes", "disks", "networks", "pauses", outcome.Several} {
		for _, backend := range []string{c.Backend, c.Beside} {
			k := slices.Index(c.Columns, c.On(sort, backend))
			i := slices.IndexFunc(c.Rows, func(r outcome.CardRow) bool { return r.Property == verdict.MutualExclusion })
			if k < 0 || c.Rows[i].Cells[k].Mark == outcome.Cannot || c.Rows[i].Cells[k].Mark == outcome.Idle {
				t.Errorf("%s on %s: mutual exclusion was not put to the test under %s", c.Lock, backend, sort)
			}
		}
	}
	for _, e := range c.Errors {
		t.Error(e)
	}
}
