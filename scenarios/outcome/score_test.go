package outcome

import (
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

const mutualExclusion = verdict.MutualExclusion

// scenarioWithFaults returns a scenario with a fault of each given kind.
func scenarioWithFaults(name string, kinds ...string) scenario.Scenario {
	s := scenario.Scenario{Name: name}
	for _, kind := range kinds {
		s.Plan = append(s.Plan, nemesis.Step{Fault: nemesis.Fault{Kind: kind}})
	}
	return s
}

// newEntry returns a run with one judgement.
func newEntry(n int, s scenario.Scenario, expected string, got, control verdict.Outcome, length int) CardEntry {
	j := Judgement{Property: mutualExclusion, Expected: expected, Got: got, Comparison: control, Length: length,
		AsExpected: expected != "holds" || got == verdict.Holds}
	if got == verdict.Violated {
		j.Cause = verdict.DeletedByOther
	}
	return CardEntry{Scenario: s, RunID: n, Outcome: Outcome{Scenario: s.ID(), Backend: "sim", Seed: 1, Judgements: []Judgement{j},
		Numbers: map[string]float64{verdict.Grants: 2, verdict.UnavailableMax: float64(n)}, Comparison: &Comparison{Numbers: map[string]float64{verdict.Grants: 3}}}}
}

func newTestCard() *Card { return NewCard("mine", lock.Kind{}, nil, "sim", 1) }

// A cell shows its most serious state, how many runs have it, and how many runs decided the property.
// What the mark does not say is in the note and in the reason why a property was not tested.
func TestMarks(t *testing.T) {
	const holds, any = "holds", "any"
	h, v, u := verdict.Holds, verdict.Violated, verdict.Undecided
	held, heldFreely := newEntry(1, scenarioWithFaults("a"), holds, h, h, 0), newEntry(2, scenarioWithFaults("b"), any, h, h, 0)
	failed, alone := newEntry(3, scenarioWithFaults("c"), holds, v, v, 9), newEntry(4, scenarioWithFaults("d"), any, v, h, 9)
	alike, undecided := newEntry(5, scenarioWithFaults("e"), any, v, v, 9), newEntry(6, scenarioWithFaults("f"), holds, u, h, 0)
	for _, x := range []struct {
		runs           []CardEntry
		mark           Mark
		count, decided int
		note, why      string
		code           int
	}{
		{[]CardEntry{held, failed, alone, alike, undecided}, MarkViolated, 2, 4, "", "", ExitUnexpected},
		{[]CardEntry{held, alone, alike}, MarkViolated, 1, 3, NoteNotRequired, "", ExitOK},
		{[]CardEntry{held, alike, heldFreely}, MarkComparisonViolated, 1, 3, "", "", ExitOK},
		{[]CardEntry{held, heldFreely, undecided}, MarkHolds, 1, 2, "", "", ExitUndecided},
		{[]CardEntry{alike, undecided}, MarkComparisonViolated, 1, 1, "", "", ExitUndecided},
		{[]CardEntry{undecided, heldFreely}, MarkNotTested, 0, 1, "", "inconclusive", ExitUndecided},
		{[]CardEntry{heldFreely}, MarkNotTested, 0, 1, "", "held, but not required", ExitOK},
		{[]CardEntry{newEntry(1, scenarioWithFaults("a"), any, verdict.NotExercised, h, 0)}, MarkNotTested, 0, 0, "", "not exercised", ExitOK},
	} {
		c := newTestCard()
		for _, e := range x.runs {
			c.Add(e)
		}
		c.Finalize()
		cell := c.row(mutualExclusion).Cells[0]
		count, decided := cell.Count()
		if cell.Mark != x.mark || count != x.count || decided != x.decided || cell.Note() != x.note || cell.Why != x.why {
			t.Errorf("%s %d of %d, note %q, not tested because %q; want %+v", cell.Mark, count, decided, cell.Note(), cell.Why, x)
		}
		if c.Code() != x.code {
			t.Errorf("%s: exit code %d, want %d", x.mark, c.Code(), x.code)
		}
	}
}

// A card names the topology of most runs first, and the servers on each backend.
func TestCardSetup(t *testing.T) {
	c := newTestCard()
	for i, top := range []scenario.Topology{{Nodes: 1, Replicas: 1, DownAfter: 1}, {Nodes: 5}, {Nodes: 5}, {Nodes: 3, Server: "etcd"}, {Nodes: 1}, {Nodes: 5, Replicas: 1}} {
		s := scenarioWithFaults(string(rune('a' + i)))
		s.Topology = top
		c.Add(newEntry(i, s, "holds", verdict.Holds, verdict.Holds, 0))
	}
	for _, server := range []string{"redis 7.0.15", "", "redis 7.0.15"} { // an empty one if the run failed
		e := newEntry(9, scenarioWithFaults("z"), "holds", verdict.Holds, verdict.Holds, 0)
		e.Outcome.Backend, e.Outcome.Server = "process", server
		c.Add(e)
	}
	c.Finalize()
	if want := "5 nodes; in some scenarios 5 nodes with a replica each (1), a cluster of 3 etcd servers (1), one node (1), one node with a replica and sentinels (1)"; c.Topology != want {
		t.Errorf("topology %q, want %q", c.Topology, want)
	}
	if want := []string{"simulated Redis 7.0", "redis 7.0.15 on process"}; !slices.Equal(c.Servers, want) {
		t.Errorf("servers %q, want %q", c.Servers, want)
	}
}

func TestUnsupportedDiffersFromNotExercised(t *testing.T) {
	c := newTestCard()
	c.Add(newEntry(1, scenarioWithFaults("a"), "holds", verdict.Holds, verdict.Holds, 0))
	c.Skip(scenarioWithFaults("b", "pause"), "sim", "pauses are unavailable")
	c.Skip(scenarioWithFaults("c", "kill"), "sim", "kills are unavailable")
	c.Add(newEntry(2, scenarioWithFaults("d", "kill"), "holds", verdict.Holds, verdict.Holds, 0))
	c.Finalize()
	if want := []string{NoFailure, "crashes", "pauses"}; !slices.Equal(c.Columns, want) {
		t.Fatalf("columns %v, want %v", c.Columns, want)
	}
	row := c.row(mutualExclusion).Cells
	if row[0].Mark != MarkHolds || row[1].Mark != MarkHolds || row[2].Mark != MarkNotTested || row[2].Why != "pauses are unavailable" {
		t.Errorf("%+v", row)
	}
	if x := c.row(verdict.DeadlockFreedom).Cells[1]; x.Mark != MarkNotTested || x.Why != "not exercised" {
		t.Errorf("property that no run in the column judged: %+v", x)
	}
	for _, property := range []string{verdict.BoundedHold, verdict.FencingOrder} {
		if x := c.row(property).Cells[0]; x.Mark != MarkNotTested || !strings.HasPrefix(x.Why, "the lock does not ") {
			t.Errorf("%s: %+v", property, x)
		}
	}
}

// Results on the second backend have their own columns and are not retried.
func TestSecondBackendColumns(t *testing.T) {
	c := newTestCard()
	c.SecondBackend = "process"
	for i, backend := range []string{"process", "sim"} {
		for k, kind := range []string{"pause", "cut"} {
			e := newEntry(2*i+k, scenarioWithFaults(kind, kind), "holds", verdict.Violated, verdict.Holds, 10)
			if e.Outcome.Backend = backend; backend == "sim" && kind == "cut" {
				continue
			}
			c.Add(e)
		}
	}
	c.Skip(scenarioWithFaults("d", "kill"), "process", "no")
	c.Finalize()
	c.Reproduce(func(s ShownRun) Reproduction {
		if s.Outcome.Backend != "sim" {
			t.Errorf("a violation on %s was retried", s.Outcome.Backend)
		}
		return Reproduction{State: ReproductionNotConfirmed}
	})
	if want := []string{"crashes on process", "networks on process", "pauses", "pauses on process"}; !slices.Equal(c.Columns, want) {
		t.Fatalf("columns %q, want %q", c.Columns, want)
	}
	var marks []string
	for _, x := range c.row(mutualExclusion).Cells {
		marks = append(marks, string(x.Mark)+x.Note())
	}
	if want := []string{"–", "✗", "✗not confirmed", "✗"}; !slices.Equal(marks, want) || c.Runs != 1 || c.SecondBackendRuns != 2 {
		t.Errorf("marks %q, want %q; %d runs, %d on the second backend", marks, want, c.Runs, c.SecondBackendRuns)
	}
}

func TestColumnsAreSorted(t *testing.T) {
	c := newTestCard()
	for i, s := range []scenario.Scenario{scenarioWithFaults("a", "pause", "kill"), scenarioWithFaults("b", "touch"), scenarioWithFaults("c", "pause"), scenarioWithFaults("d", "cut"), scenarioWithFaults("e")} {
		c.Add(newEntry(i, s, "holds", verdict.Holds, verdict.Holds, 0))
	}
	if want := []string{NoFailure, "networks", "pauses", otherKind, SeveralKinds}; !slices.Equal(c.Columns, want) {
		t.Errorf("columns %v, want %v", c.Columns, want)
	}
}

// cardWithViolations returns a card with three runs that fail for the same cause, and one that
// fails under another kind of failure.
func cardWithViolations() *Card {
	c := newTestCard()
	for i, length := range []int{30, 10, 20} {
		c.Add(newEntry(i, scenarioWithFaults(string(rune('a'+i)), "pause"), "holds", verdict.Violated, verdict.Holds, length))
	}
	c.Add(newEntry(3, scenarioWithFaults("d", "cut"), "holds", verdict.Violated, verdict.Holds, 5))
	c.Finalize()
	return c
}

// A finding shows the shortest run and names the other scenarios with the same violation.
func TestFindingShowsShortestRun(t *testing.T) {
	c := cardWithViolations()
	if len(c.Findings) != 2 || c.Findings[0].Column != "networks" || c.Findings[1].Scenario != "b" || c.Findings[1].Events != 10 {
		t.Fatalf("%+v", c.Findings)
	}
	if also := c.Findings[1].Violations[0].Also; !slices.Equal(also, []string{"c", "a"}) {
		t.Errorf("also %v", also)
	}
	if n := c.Measurements[0]; n.Lock != (CardNumbers{Grants: 6, MaxUnavailable: 2}) || n.Comparison.Grants != 9 {
		t.Errorf("%+v", n)
	}
}

// A run that shows one violation also shows its others, even if another run shows these sooner.
func TestOneRunShowsSeveralViolations(t *testing.T) {
	c := newTestCard()
	both, other := newEntry(1, scenarioWithFaults("both"), "holds", verdict.Violated, verdict.Holds, 10), newEntry(2, scenarioWithFaults("other"), "holds", verdict.Holds, verdict.Holds, 0)
	for e, length := range map[*CardEntry]int{&both: 20, &other: 5} {
		e.Outcome.Judgements = append(e.Outcome.Judgements, Judgement{Property: verdict.ResourceSafety, Expected: "holds", Got: verdict.Violated, Cause: verdict.LockBroken, Comparison: verdict.Holds, Length: length})
	}
	c.Add(other)
	c.Add(both)
	c.Finalize()
	if len(c.Findings) != 1 || len(c.Findings[0].Violations) != 2 || c.Findings[0].Scenario != "both" || !slices.Equal(c.Findings[0].Violations[1].Also, []string{"other"}) {
		t.Errorf("%+v", c.Findings)
	}
}

// A violation that does not recur on real servers does not count as a failure. If another run's
// violation recurs there, the finding shows that run.
func TestReproduce(t *testing.T) {
	for _, x := range []struct {
		shows string // the scenario that violates there; "" for none
		can   bool
		notes [2]string // networks, pauses
		first string    // the finding under pauses
		runs  int
		code  int
	}{
		{"", true, [2]string{NoteUnconfirmed, NoteUnconfirmed}, "b", 18, ExitUndecided},
		{"", false, [2]string{NoteUnconfirmed, NoteUnconfirmed}, "b", 0, ExitUndecided},
		{"c", true, [2]string{NoteUnconfirmed, ""}, "c", 7, ExitUnexpected},
		{"b", true, [2]string{NoteUnconfirmed, ""}, "b", 1, ExitUnexpected},
	} {
		c := cardWithViolations()
		c.Reproduce(func(s ShownRun) Reproduction {
			switch {
			case !x.can:
				return Reproduction{State: ReproductionImpossible, Why: "no servers"}
			case s.Outcome.Scenario == x.shows:
				return Reproduction{State: ReproductionConfirmed, Runs: 1}
			}
			return Reproduction{State: ReproductionNotConfirmed, Runs: 6}
		})
		cells := c.row(mutualExclusion).Cells
		if got := [2]string{cells[0].Note(), cells[1].Note()}; got != x.notes || c.Code() != x.code {
			t.Errorf("%q: notes %q, code %d", x.shows, got, c.Code())
		}
		f := c.Findings[1]
		if f.Scenario != x.first || f.Violations[0].Reproduction.Runs != x.runs || f.Confirmed() != (x.notes[1] == "") {
			t.Errorf("%q: %+v, %+v", x.shows, f, f.Violations[0].Reproduction)
		}
	}
}

// Each fault is in the set of all faults, in its own kind's set, and in every set that leaves out
// another kind.
func TestFaultSets(t *testing.T) {
	s := scenario.Scenario{Random: &nemesis.Random{Faults: []string{"pause", "kill", "cut", "drop", "clock-rate", "touch"}}}
	sets := FaultSets(s)
	kinds := []string{"clocks", "crashes", "networks", otherKind, "pauses"}
	if len(sets) != 1+2*len(kinds) || sets[0].Kind != "" {
		t.Fatalf("%+v", sets)
	}
	for _, word := range sets[0].Faults {
		n := 0
		for _, d := range sets {
			if slices.Contains(d.Faults, word) {
				n++
			}
		}
		if n != 1+len(kinds) {
			t.Errorf("%s is in %d sets, want %d", word, n, 1+len(kinds))
		}
	}
	pauseOnly := scenario.Scenario{Random: &nemesis.Random{Faults: []string{"pause"}}}
	if sets := FaultSets(pauseOnly); len(sets) != 2 { // no set without it
		t.Errorf("%+v", sets)
	}
}

// A kind of failure is a cause if it leads to violations alone, or if violations are much rarer
// without it. One violation in two runs is not enough.
func TestRandomPlansCauses(t *testing.T) {
	sets := FaultSets(scenario.Scenario{Random: &nemesis.Random{Faults: []string{"pause", "kill", "cut"}}})
	c := newTestCard()
	for i, d := range sets {
		got := verdict.Holds
		if slices.Contains(d.Faults, "cut") {
			got = verdict.Violated
		}
		for range 4 {
			e := newEntry(i, scenarioWithFaults("random-plan"), "holds", got, verdict.Holds, 10-i)
			e.FaultSet = &sets[i]
			c.AddRandom(e, 4, sets)
		}
	}
	c.Finalize()
	sufficient, necessary := c.RandomPlans.Causes(mutualExclusion)
	if !slices.Equal(sufficient, []string{"networks"}) || !slices.Equal(necessary, []string{"networks"}) {
		t.Errorf("alone %v, needed %v", sufficient, necessary)
	}
	few := RandomPlans{FaultSets: sets, Rows: []RandomPlansRow{{Property: mutualExclusion, Shares: make([]Share, len(sets))}}}
	for k := range sets {
		few.Rows[0].Shares[k].add(Judgement{Got: verdict.Holds})
	}
	few.Rows[0].Shares[0].add(Judgement{Got: verdict.Violated})
	if sufficient, necessary := few.Causes(mutualExclusion); len(sufficient)+len(necessary) > 0 {
		t.Errorf("one of two: alone %v, needed %v", sufficient, necessary)
	}
	if s := c.RandomPlans.Rows[0].Shares[0]; s.Runs != 4 || s.Violated != 4 || s.ComparisonViolated != 0 || s.High != 1 {
		t.Errorf("%+v", s)
	}
	if len(c.Findings) != 1 || c.Findings[0].Column != randomPlan || c.Code() != ExitUnexpected {
		t.Errorf("%+v", c.Findings)
	}
}
