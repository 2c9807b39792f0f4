package story

import (
	"cmp"
	"errors"
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

// shown is what a scenario's run in the simulation says of a scope's property.
func shown(t *testing.T, scope exhaust.Scope, s scenario.Scenario) (outcome.Judgement, outcome.Outcome, string) {
	t.Helper()
	s, text := reread(t, s)
	o := suite.Execute(t.Context(), sim.New(kinds.All), suite.Job{Scenario: s, Seed: 1, Backend: "sim", Keep: suite.KeepNone})
	return judged(scope, o), o, text
}

// reread is a scenario after it was written to a file and read again, and the file.
func reread(t *testing.T, s scenario.Scenario) (scenario.Scenario, string) {
	t.Helper()
	text, err := scenario.Write(s, "", known)
	if err != nil {
		t.Fatal(err)
	}
	all, err := scenario.Parse("f.yaml", text, known)
	if err != nil {
		t.Fatal(err)
	}
	return all[0], string(text)
}

// judged is what a run says of a scope's property.
func judged(scope exhaust.Scope, o outcome.Outcome) outcome.Judgement {
	if j := o.Of(string(cmp.Or(scope.Property, exhaust.MutualExclusion))); j != nil {
		return *j
	}
	return outcome.Judgement{}
}

// search is the first path of a scope that has instants, as a scenario.
func search(t *testing.T, scope exhaust.Scope, reductions exhaust.Reductions) (exhaust.Result, scenario.Scenario) {
	t.Helper()
	var s scenario.Scenario
	r := exhaust.New(scope, reductions).Search(t.Context(), exhaust.Bounds{Bytes: 20e6}, func(path []exhaust.Step) bool {
		var err error
		if s, err = Scenario(scope.Name(), scope, path, known); err != nil && !errors.Is(err, ErrUntimed) {
			t.Fatal(err)
		}
		return err == nil
	})
	return r, s
}

// Every violation that is known comes as a scenario, whose run by the unchanged lock on the
// simulated nodes violates mutual exclusion by the cause that the model's fault or mistake has.
func TestStoriesHappen(t *testing.T) {
	for _, row := range exhaust.Rows() {
		if row.Cause == "" || !row.Runs() {
			continue
		}
		t.Run(row.Name(), func(t *testing.T) {
			r, s := search(t, row.Scope, exhaust.Fully)
			if r.Story == nil {
				t.Fatalf("no path with instants, of %d", r.Untimed)
			}
			j, o, text := shown(t, row.Scope, s)
			if j.Got != verdict.Violated || j.Cause != row.Cause || o.Code != outcome.ExitOK {
				t.Errorf("mutual exclusion %s (%s), want violated (%s); code %d %s\n%s%s", j.Got, j.Cause, row.Cause, o.Code, o.Error, Caption(r.Story), text)
			}
		})
	}
}

// A path that no instants fit is told as such: both can't have one node's key within its TTL.
func TestUntimed(t *testing.T) {
	step := func(a exhaust.Action, client, node int) exhaust.Step {
		return exhaust.Step{Action: a, Client: client, Attempt: 1, Node: node, Yes: true}
	}
	path := []exhaust.Step{
		step(exhaust.Set, 1, 1), step(exhaust.Set, 1, 2), step(exhaust.Acquired, 1, 0),
		step(exhaust.Set, 2, 1), step(exhaust.Set, 2, 2), step(exhaust.Acquired, 2, 0),
	}
	if _, err := Scenario("untimed", exhaust.Scope{Nodes: 3, Attempts: 1}, path, known); !errors.Is(err, ErrUntimed) {
		t.Errorf("got %v", err)
	}
}

// The earliest instants are found, and that there are none.
func TestInstants(t *testing.T) {
	var s instants
	a, b, c := s.add(), s.add(), s.add()
	s.least(a, b, 3)
	s.exact(b, c, 4)
	s.most(a, c, 7)
	if !s.solve() || s.at[a] != 0 || s.at[b] != 3 || s.at[c] != 7 {
		t.Errorf("got %v", s.at)
	}
	s.most(a, c, 6)
	if s.solve() {
		t.Errorf("got %v where nothing fits", s.at)
	}
}
