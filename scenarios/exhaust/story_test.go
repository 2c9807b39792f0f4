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

// simulate runs a scenario in the simulation. It returns the judgement of the scope's property, the
// outcome, and the scenario's file.
func simulate(t *testing.T, scope Scope, s scenario.Scenario) (outcome.Judgement, outcome.Outcome, string) {
	t.Helper()
	s, text := reread(t, s)
	o := campaign.Execute(t.Context(), sim.New(kinds.All), campaign.Job{Scenario: s, Seed: 1, Backend: "sim", Keep: campaign.KeepNone})
	return judgementOf(scope, o), o, text
}

// reread formats a scenario as a file and parses it again. It returns the scenario and the file.
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

// judgementOf returns a run's judgement of a scope's property.
func judgementOf(scope Scope, o outcome.Outcome) outcome.Judgement {
	if j := o.JudgementOf(string(cmp.Or(scope.Property, MutualExclusion))); j != nil {
		return *j
	}
	return outcome.Judgement{}
}

// search searches a scope and returns the first violation that times can be assigned to, as a
// scenario.
func search(t *testing.T, scope Scope, reductions Reductions) (Result, scenario.Scenario) {
	t.Helper()
	var s scenario.Scenario
	r := newModel(scope, reductions).Search(t.Context(), 20e6, func(path []Step) bool {
		var err error
		if s, err = newScenario(scope.Name(), scope, path, known); err != nil && !errors.Is(err, errUntimed) {
			t.Fatal(err)
		}
		return err == nil
	})
	return r, s
}

// Every known violation occurs with the real lock on simulated nodes, for the expected cause.
func TestStoriesOccur(t *testing.T) {
	for _, row := range knownScopes() {
		if row.Cause == "" || !row.CanRun() {
			continue
		}
		t.Run(row.Name(), func(t *testing.T) {
			r, s := search(t, row.Scope, fullReductions)
			if r.Counterexample == nil {
				t.Fatalf("none of %d paths has possible times", r.RejectedPaths)
			}
			j, o, text := simulate(t, row.Scope, s)
			if j.Got != verdict.Violated || j.Cause != row.Cause || o.Code != outcome.ExitOK {
				t.Errorf("%s (%s), want violated (%s); code %d %s\n%s%s", j.Got, j.Cause, row.Cause, o.Code, o.Error, caption(r.Counterexample), text)
			}
		})
	}
}

// In this path, two clients set the same node's key within its TTL.
func TestImpossibleTimesAreReported(t *testing.T) {
	step := func(a action, client, node int) Step {
		return Step{Action: a, Client: client, Attempt: 1, Node: node, Yes: true}
	}
	path := []Step{
		step(setArrived, 1, 1), step(setArrived, 1, 2), step(lockAcquired, 1, 0),
		step(setArrived, 2, 1), step(setArrived, 2, 2), step(lockAcquired, 2, 0),
	}
	if _, err := newScenario("untimed", Scope{Nodes: 3, Attempts: 1}, path, known); !errors.Is(err, errUntimed) {
		t.Errorf("got %v", err)
	}
}

func TestSolve(t *testing.T) {
	var s instants
	a, b, c := s.newInstant(), s.newInstant(), s.newInstant()
	s.atLeast(a, b, 3)
	s.exact(b, c, 4)
	s.atMost(a, c, 7)
	if !s.solve() || s.times[a] != 0 || s.times[b] != 3 || s.times[c] != 7 {
		t.Errorf("got %v", s.times)
	}
	s.atMost(a, c, 6)
	if s.solve() {
		t.Errorf("got %v for unsatisfiable constraints", s.times)
	}
}
