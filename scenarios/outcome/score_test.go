package outcome

import (
	"slices"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

const me = verdict.MutualExclusion

// withFaults returns a scenario with one fault of each kind.
func under(name string, kinds ...string) scenario.Scenario {
	s := scenario.Scenario{Name: name}
	for _, kind := range kinds {
		s.Plan = append(s.Plan, nemesis.Step{Fault: nemesis.Fault{Kind: kind}})
	}
	return s
}

// entry returns a run with one judgement.
func ran(n int, s scenario.Scenario, expected string, got, control verdict.Outcome, length int) CardEntry {
	j := Judgement{Property: me, Expected: expected, Got: got, Control: control, Length: length,
		AsExpected: expected != "holds" || got == verdict.Holds}
	if got == verdict.Violated {
		j.Cause = verdict.DeletedByOther
	}
	return CardEntry{Scenario: s, Run: n, Outcome: Outcome{Scenario: s.ID(), Backend: "sim", Seed: 1, Judgements: []Judgement{j},
		Numbers: map[string]float64{verdict.Grants: 2, verdict.UnavailableMax: float64(n)}, Control: &Control{Numbers: map[string]float64{verdict.Grants: 3}}}}
}

func card() *Card { return NewCard("mine", lock.Kind{}, nil, "sim", 1) }

// A cell shows the most serious of its marks.
func TestMarks(t *testing.T) {
	const holds, any = "holds", "any"
	h, v, u := verdict.Holds, verdict.Violated, verdict.Undecided
	for want, runs := range map[Mark][]CardEntry{
		MarkFailed: {ran(1, under("a"), holds, h, h, 0), ran(2, under("b"), holds, v, v, 9), ran(3, under("c"), any, v, h, 9)},
		Alone:      {ran(1, under("a"), holds, h, h, 0), ran(2, under("b"), any, v, h, 9)},
		KeptAlike:  {ran(1, under("a"), holds, h, h, 0), ran(2, under("b"), any, v, v, 9)},
		Kept:       {ran(1, under("a"), holds, h, v, 0), ran(2, under("b"), any, h, h, 0)},
		Alike:      {ran(1, under("a"), any, v, v, 9), ran(2, under("b"), holds, u, h, 0)},
		Open:       {ran(1, under("a"), holds, u, h, 0), ran(2, under("b"), any, h, h, 0)},
		free:       {ran(1, under("a"), any, h, h, 0)},
		Idle:       {ran(1, under("a"), any, verdict.NotExercised, h, 0)},
	} {
		c := card()
		for _, e := range runs {
			c.Add(e)
		}
		c.Settle()
		if got := c.row(me).Cells[0].Mark; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if bad := want == MarkFailed; (c.Code() == ExitUnexpected) != bad {
			t.Errorf("%s: exit code %d", want, c.Code())
		}
	}
}

// Cells for unsupported properties and skipped scenarios differ from cells that no run exercised.
func TestCannot(t *testing.T) {
	c := card()
	c.Add(ran(1, under("a"), "holds", verdict.Holds, verdict.Holds, 0))
	c.Skip(under("b", "pause"), "sim", "pauses are unavailable")
	c.Skip(under("c", "kill"), "sim", "kills are unavailable")
	c.Add(ran(2, under("d", "kill"), "holds", verdict.Holds, verdict.Holds, 0))
	c.Settle()
	if want := []string{NoFailure, "crashes", "pauses"}; !slices.Equal(c.Columns, want) {
		t.Fatalf("columns %v, want %v", c.Columns, want)
	}
	row := c.row(me).Cells
	if row[0].Mark != Kept || row[1].Mark != Kept || row[2].Mark != Cannot || row[2].Why != "pauses are unavailable" {
		t.Errorf("%+v", row)
	}
	if x := c.row(verdict.DeadlockFreedom).Cells[1]; x.Mark != Idle {
		t.Errorf("property that no run of the column judged: %+v", x)
	}
	for _, property := range []string{verdict.BoundedHold, verdict.FencingOrder} {
		if x := c.row(property).Cells[0]; x.Mark != Cannot || x.Why == "" {
			t.Errorf("%s: %+v", property, x)
		}
	}
}

// Results from the second backend have their own columns and are not retried.
func TestBeside(t *testing.T) {
	c := card()
	c.Beside = "process"
	for i, backend := range []string{"process", "sim"} {
		for k, kind := range []string{"pause", "cut"} {
			e := ran(2*i+k, under(kind, kind), "holds", verdict.Violated, verdict.Holds, 10)
			if e.Outcome.Backend = backend; backend == "sim" && kind == "cut" {
				continue
			}
			c.Add(e)
		}
	}
	c.Skip(under("d", "kill"), "process", "no")
	c.Settle()
	c.Confirm(func(s Shown) Try {
		if s.Outcome.Backend != "sim" {
			t.Errorf("a violation on %s was retried", s.Outcome.Backend)
		}
		return Try{State: NotConfirmed}
	})
	if want := []string{"crashes on process", "networks on process", "pauses", "pauses on process"}; !slices.Equal(c.Columns, want) {
		t.Fatalf("columns %q, want %q", c.Columns, want)
	}
	var marks []Mark
	for _, x := range c.row(me).Cells {
		marks = append(marks, x.Mark)
	}
	if want := []Mark{Cannot, MarkFailed, Unconfirmed, MarkFailed}; !slices.Equal(marks, want) || c.Runs != 1 || c.There != 2 {
		t.Errorf("marks %q, want %q; %d runs, %d on the second backend", marks, want, c.Runs, c.There)
	}
}

func TestColumnsInOrder(t *testing.T) {
	c := card()
	for i, s := range []scenario.Scenario{under("a", "pause", "kill"), under("b", "touch"), under("c", "pause"), under("d", "cut"), under("e")} {
		c.Add(ran(i, s, "holds", verdict.Holds, verdict.Holds, 0))
	}
	if want := []string{NoFailure, "networks", "pauses", otherSort, Several}; !slices.Equal(c.Columns, want) {
		t.Errorf("columns %v, want %v", c.Columns, want)
	}
}

// violated returns a card with three runs that fail for one cause, and one run that fails under another
// kind of failure.
func violated() *Card {
	c := card()
	for i, length := range []int{30, 10, 20} {
		c.Add(ran(i, under(string(rune('a'+i)), "pause"), "holds", verdict.Violated, verdict.Holds, length))
	}
	c.Add(ran(3, under("d", "cut"), "holds", verdict.Violated, verdict.Holds, 5))
	c.Settle()
	return c
}

// A finding shows the shortest of the runs with the same violation, and names the other scenarios.
func TestShortestIsShown(t *testing.T) {
	c := violated()
	if len(c.Findings) != 2 || c.Findings[0].Column != "networks" || c.Findings[1].Scenario != "b" || c.Findings[1].Events != 10 {
		t.Fatalf("%+v", c.Findings)
	}
	if also := c.Findings[1].Harms[0].Also; !slices.Equal(also, []string{"c", "a"}) {
		t.Errorf("also %v", also)
	}
	if n := c.Measured[0]; n.Lock != (CardNumbers{Grants: 6, Longest: 2}) || n.Own.Grants != 9 {
		t.Errorf("%+v", n)
	}
}

// A violation that does not recur on real servers does not count as a failure. If another of its runs
// recurs there, that run is shown.
func TestConfirm(t *testing.T) {
	for _, x := range []struct {
		shows string // the scenario that violates there; "" for none
		can   bool
		marks [2]Mark // networks, pauses
		first string  // the finding under pauses
		runs  int
		code  int
	}{
		{"", true, [2]Mark{Unconfirmed, Unconfirmed}, "b", 18, ExitUndecided},
		{"", false, [2]Mark{Unconfirmed, Unconfirmed}, "b", 0, ExitUndecided},
		{"c", true, [2]Mark{Unconfirmed, MarkFailed}, "c", 7, ExitUnexpected},
		{"b", true, [2]Mark{Unconfirmed, MarkFailed}, "b", 1, ExitUnexpected},
	} {
		c := violated()
		c.Confirm(func(s Shown) Try {
			switch {
			case !x.can:
				return Try{State: CannotRun, Why: "no servers"}
			case s.Outcome.Scenario == x.shows:
				return Try{State: StateConfirmed, Runs: 1}
			}
			return Try{State: NotConfirmed, Runs: 6}
		})
		cells := c.row(me).Cells
		if got := [2]Mark{cells[0].Mark, cells[1].Mark}; got != x.marks || c.Code() != x.code {
			t.Errorf("%q: marks %v, code %d", x.shows, got, c.Code())
		}
		f := c.Findings[1]
		if f.Scenario != x.first || f.Harms[0].Try.Runs != x.runs || f.Confirmed() != (x.marks[1] == MarkFailed) {
			t.Errorf("%q: %+v, %+v", x.shows, f, f.Harms[0].Try)
		}
	}
}

// Each fault is in the set of its own kind and in all others except the one without its kind.
func TestDraws(t *testing.T) {
	s := scenario.Scenario{Random: &nemesis.Random{Faults: []string{"pause", "kill", "cut", "drop", "clock-rate", "touch"}}}
	draws := Draws(s)
	sorts := []string{"clocks", "crashes", "networks", otherSort, "pauses"}
	if len(draws) != 1+2*len(sorts) || draws[0].Sort != "" {
		t.Fatalf("%+v", draws)
	}
	for _, word := range draws[0].Faults {
		n := 0
		for _, d := range draws {
			if slices.Contains(d.Faults, word) {
				n++
			}
		}
		if n != 1+len(sorts) {
			t.Errorf("%s is in %d sets, want %d", word, n, 1+len(sorts))
		}
	}
	one := scenario.Scenario{Random: &nemesis.Random{Faults: []string{"pause"}}}
	if draws := Draws(one); len(draws) != 2 { // no set without it
		t.Errorf("%+v", draws)
	}
}

// A kind of failure that violates a property alone, and without which violations are much rarer, is
// reported as a cause. Too few runs do not suffice for that.
func TestBlame(t *testing.T) {
	draws := Draws(scenario.Scenario{Random: &nemesis.Random{Faults: []string{"pause", "kill", "cut"}}})
	c := card()
	for i, d := range draws {
		got := verdict.Holds
		if slices.Contains(d.Faults, "cut") {
			got = verdict.Violated
		}
		for range 4 {
			e := ran(i, under("random-plan"), "holds", got, verdict.Holds, 10-i)
			e.Draw = &draws[i]
			c.Throw(e, 4, draws)
		}
	}
	c.Settle()
	alone, needed := c.Dice.Blame(me)
	if !slices.Equal(alone, []string{"networks"}) || !slices.Equal(needed, []string{"networks"}) {
		t.Errorf("alone %v, needed %v", alone, needed)
	}
	few := Dice{Draws: draws, Rows: []DiceRow{{Property: me, Shares: make([]Share, len(draws))}}}
	for k := range draws {
		few.Rows[0].Shares[k].add(Judgement{Got: verdict.Holds})
	}
	few.Rows[0].Shares[0].add(Judgement{Got: verdict.Violated})
	if alone, needed := few.Blame(me); len(alone)+len(needed) > 0 {
		t.Errorf("one of two: alone %v, needed %v", alone, needed)
	}
	if s := c.Dice.Rows[0].Shares[0]; s.Runs != 4 || s.Violated != 4 || s.Own != 0 || s.High != 1 {
		t.Errorf("%+v", s)
	}
	if len(c.Findings) != 1 || c.Findings[0].Column != drawn || c.Code() != ExitUnexpected {
		t.Errorf("%+v", c.Findings)
	}
}
