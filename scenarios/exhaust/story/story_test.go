package story

import (
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/exhaust"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

var known = suite.Known(kinds.All)

// shown is what a scenario's run in the simulation says of mutual exclusion, after it was
// written to a file and read again.
func shown(t *testing.T, s scenario.Scenario) (outcome.Judgement, outcome.Outcome, string) {
	t.Helper()
	text, err := scenario.Write(s, "", known)
	if err != nil {
		t.Fatal(err)
	}
	all, err := scenario.Parse("f.yaml", text, known)
	if err != nil {
		t.Fatal(err)
	}
	o := suite.Execute(t.Context(), sim.New(kinds.All), suite.Job{Scenario: all[0], Seed: 1, Backend: "sim", Keep: suite.KeepNone})
	for _, j := range o.Judgements {
		if j.Property == verdict.MutualExclusion {
			return j, o, string(text)
		}
	}
	return outcome.Judgement{}, o, string(text)
}

// Every violation that is known comes as a scenario, whose run by the unchanged lock on the
// simulated nodes violates mutual exclusion by the cause that the model's fault or mistake has.
func TestStoriesHappen(t *testing.T) {
	for _, row := range exhaust.Rows() {
		if row.Cause == "" {
			continue
		}
		t.Run(row.Name(), func(t *testing.T) {
			var s scenario.Scenario
			r := exhaust.New(row.Scope, exhaust.Fully).Search(t.Context(), exhaust.Bounds{}, func(path []exhaust.Step) bool {
				var err error
				s, err = Scenario(row.Name(), row.Scope, path, known)
				return err == nil
			})
			if r.Story == nil {
				t.Fatalf("no path with instants, of %d", r.Untimed)
			}
			j, o, text := shown(t, s)
			if j.Got != verdict.Violated || j.Cause != row.Cause || o.Code != outcome.ExitOK {
				t.Errorf("mutual exclusion %s (%s), want violated (%s); code %d %s %+v\n%s%s", j.Got, j.Cause, row.Cause, o.Code, o.Error, o.Judgements, Caption(r.Story), text)
			}
			t.Log(strings.ReplaceAll(j.Because, "\n", " "))
		})
	}
}
