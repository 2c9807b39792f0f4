package main

import (
	"bytes"
	"context"
	"reflect"
	"testing"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/scenarios/suite"
)

// A run is judged from memory, and stored. Whoever judges the stored bytes again
// must come to the very same verdict, in every scenario. What was never put to the test
// does not hold.
func TestStoredRunIsWhatWasJudged(t *testing.T) {
	t.Parallel()
	all, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		o := suite.Execute(context.Background(), sim.New(kinds.All), suite.Job{Scenario: s.Scenario, Seed: 3, Store: t.TempDir(), Keep: suite.KeepAll})
		if o.Error != "" {
			t.Fatalf("%s: %s", s.ID(), o.Error)
		}
		text, err := suite.Facts(o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		h, err := history.Read(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range o.Verdict.Results {
			if r.Outcome == checker.Holds && r.Occasions == 0 || r.Outcome == checker.Violated && r.Occasions == 0 || r.Outcome == checker.NotExercised && r.Occasions > 0 {
				t.Errorf("%s: %s %s with %d occasions", s.ID(), r.Property, r.Outcome, r.Occasions)
			}
		}
		if v := checker.Check(h); !reflect.DeepEqual(v, o.Verdict) || len(h.Events) != o.Events {
			t.Errorf("%s: from disk\n%+v\nfrom memory\n%+v", s.ID(), v, o.Verdict)
		}
	}
}
