package exhaust

import (
	"cmp"
	"errors"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

var known = campaign.KnownLocks(kinds.All)

// shown is what a scenario's run in the simulation says of a scope's property.
func shown(t *testing.T, scope Scope, s scenario.Scenario) (outcome.Judgement, outcome.Outcome, string) {
	t.Helper()
	s, text := reread(t, s)
	o := campaign.Execute(t.Context(), sim.New(kinds.All), campaign.Job{Scenario: s, Seed: 1, Backend: "sim", Keep: campaign.KeepNone})
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
func judged(scope Scope, o outcome.Outcome) outcome.Judgement {
	if j := o.Of(string(cmp.Or(scope.Property, MutualExclusion))); j != nil {
		return *j
	}
	return outcome.Judgement{}
}

// search is the first path of a scope that has instants, as a scenario.
func search(t *testing.T, scope Scope, reductions Reductions) (Result, scenario.Scenario) {
	t.Helper()
	var s scenario.Scenario
	r := newModel(scope, reductions).Search(t.Context(), 20e6, func(path []Step) bool {
		var err error
		if s, err = scenarioOf(scope.Name(), scope, path, known); err != nil && !errors.Is(err, errUntimed) {
			t.Fatal(err)
		}
		return err == nil
	})
	return r, s
}

// Every violation that is known comes as a scenario, whose run by the unchanged lock on the
// simulated nodes violates mutual exclusion by the cause that the model's fault or mistake has.
func TestStoriesHappen(t *testing.T) {
	for _, row := range knownRows() {
		if row.Cause == "" || !row.Runs() {
			continue
		}
		t.Run(row.Name(), func(t *testing.T) {
			r, s := search(t, row.Scope, fully)
			if r.Story == nil {
				t.Fatalf("no path with instants, of %d", r.Untimed)
			}
			j, o, text := shown(t, row.Scope, s)
			if j.Got != verdict.Violated || j.Cause != row.Cause || o.Code != outcome.ExitOK {
				t.Errorf("mutual exclusion %s (%s), want violated (%s); code %d %s\n%s%s", j.Got, j.Cause, row.Cause, o.Code, o.Error, caption(r.Story), text)
			}
		})
	}
}

// A path that no instants fit is told as such: both can't have one node's key within its TTL.
func TestUntimed(t *testing.T) {
	step := func(a action, client, node int) Step {
		return Step{Action: a, Client: client, Attempt: 1, Node: node, Yes: true}
	}
	path := []Step{
		step(set, 1, 1), step(set, 1, 2), step(acquired, 1, 0),
		step(set, 2, 1), step(set, 2, 2), step(acquired, 2, 0),
	}
	if _, err := scenarioOf("untimed", Scope{Nodes: 3, Attempts: 1}, path, known); !errors.Is(err, errUntimed) {
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
