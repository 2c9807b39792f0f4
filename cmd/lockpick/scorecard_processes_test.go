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

// TestScorecardsOnProcesses makes a library's scorecard in the simulation and on real servers,
// where violations found in the simulation are tried again. Regular runs cover a scenario for each
// type of fault; nightly runs cover all scenarios and configurations. Each counterexample must show
// what the card says.
func TestScorecardsOnProcesses(t *testing.T) {
	t.Parallel() // this test mostly waits
	needRedis(t)
	libraries := []string{"redislock"}
	scoreFlags := []string{"--tag", "score"}
	if night {
		libraries, scoreFlags = nil, []string{"--seeds", "20"}
		for _, kind := range kinds.Names() {
			if kinds.All[kind].OwnTime {
				libraries = append(libraries, kinds.Setups(kind)...)
			}
		}
	}
	for _, lock := range libraries {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			dir, book, code := makeScorecards(t, append([]string{"scorecard", lock, "--beside", "process", "--jobs", "2"}, scoreFlags...)...)
			c := onlyCard(t, book, code)
			checkComplete(t, c)
			t.Logf("exit code %d, %d counterexamples: %s", code, replayCounterexamples(t, dir, book), suites.CardHeadline(c))
		})
	}
}

// checkComplete checks that a card exercises mutual exclusion on both backends under each type of
// fault that tier every covers.
func checkComplete(t *testing.T, c *outcome.Card) {
	t.Helper()
	for _, failureType := range []string{outcome.NoFailure, "clocks", "crashes", "disks", "networks", "pauses", outcome.SeveralKinds} {
		for _, backend := range []string{c.Backend, c.SecondBackend} {
			k := slices.Index(c.Columns, c.ColumnOn(failureType, backend))
			i := slices.IndexFunc(c.Rows, func(r outcome.CardRow) bool { return r.Property == verdict.MutualExclusion })
			var x outcome.CardCell
			if k >= 0 {
				x = c.Rows[i].Cells[k]
			}
			if _, decided := x.Count(); decided+x.NumUndecided == 0 {
				t.Errorf("%s on %s: mutual exclusion was not exercised under %s", c.Lock, backend, failureType)
			}
		}
	}
	for _, e := range c.Errors {
		t.Error(e)
	}
}
