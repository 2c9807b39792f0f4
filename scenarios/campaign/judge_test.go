package campaign

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

func TestJudge(t *testing.T) {
	const me = verdict.MutualExclusion
	yes := verdict.Result{Property: me, Outcome: verdict.Holds, Occasions: 3}
	idle := verdict.Result{Property: me, Outcome: verdict.NotExercised}
	no := verdict.Result{Property: me, Outcome: verdict.Violated, Occasions: 3, Cause: verdict.RestartedAndForgot, Node: "n3"}
	open := verdict.Result{Property: me, Outcome: verdict.Undecided}
	for _, c := range []struct {
		name string
		want scenario.Expectation
		got  verdict.Result
		ok   bool
		code int
	}{
		{"holds", scenario.Expectation{Want: "holds"}, yes, true, outcome.ExitOK},
		{"should hold, is violated", scenario.Expectation{Want: "holds"}, no, false, outcome.ExitUnexpected},
		{"named, but never put to the test", scenario.Expectation{Want: "holds"}, idle, false, outcome.ExitUndecided},
		{"implied, and never put to the test", scenario.Expectation{Want: "holds", Implied: true}, idle, true, outcome.ExitOK},
		{"any, and never put to the test", scenario.Expectation{Want: "any"}, idle, true, outcome.ExitOK},
		{"should be violated, and was never put to the test", scenario.Expectation{Want: "violated"}, idle, false, outcome.ExitUnexpected},
		{"violated", scenario.Expectation{Want: "violated"}, no, true, outcome.ExitOK},
		{"for the right reason", scenario.Expectation{Want: "violated", Cause: verdict.RestartedAndForgot, Node: "n3"}, no, true, outcome.ExitOK},
		{"for the wrong reason", scenario.Expectation{Want: "violated", Cause: verdict.ExpiredEarly}, no, false, outcome.ExitUnexpected},
		{"by the wrong node", scenario.Expectation{Want: "violated", Cause: verdict.RestartedAndForgot, Node: "n1"}, no, false, outcome.ExitUnexpected},
		{"should be violated, holds", scenario.Expectation{Want: "violated"}, yes, false, outcome.ExitUnexpected},
		{"undecided is no pass", scenario.Expectation{Want: "holds"}, open, false, outcome.ExitUndecided},
		{"nor a violation", scenario.Expectation{Want: "violated"}, open, false, outcome.ExitUndecided},
		{"any", scenario.Expectation{Want: "any"}, no, true, outcome.ExitOK},
	} {
		js := Judge(map[string]scenario.Expectation{me: c.want}, verdict.Verdict{Results: []verdict.Result{c.got}})
		if len(js) != 1 || js[0].AsExpected != c.ok || outcome.CodeOf(js) != c.code {
			t.Errorf("%s: %+v, code %d", c.name, js, outcome.CodeOf(js))
		}
	}
}

// A run that shows nothing is as nobody expected, whatever they would have taken.
func TestJudgeVacuous(t *testing.T) {
	v := verdict.Verdict{Assumption: "step 1 never came", Results: []verdict.Result{{Property: verdict.MutualExclusion, Outcome: verdict.Undecided}}}
	for _, want := range []string{"any", "holds", "violated"} {
		js := Judge(map[string]scenario.Expectation{verdict.MutualExclusion: {Want: want}}, v)
		if outcome.CodeOf(js) != outcome.ExitUndecided {
			t.Errorf("%s: %+v, code %d", want, js, outcome.CodeOf(js))
		}
	}
}

func TestJudgeMissesNoExpectation(t *testing.T) {
	js := Judge(map[string]scenario.Expectation{"no-such-property": {Want: "holds"}}, verdict.Verdict{})
	if len(js) != 1 || js[0].AsExpected || outcome.CodeOf(js) != outcome.ExitUndecided {
		t.Errorf("%+v", js)
	}
}

// Lease-linearizable follows mutual-exclusion, and is judged all the same.
func TestJudgeFollower(t *testing.T) {
	expect := map[string]scenario.Expectation{verdict.MutualExclusion: {Want: "violated", Cause: verdict.NeverSet}}
	scenario.Imply(expect, "")
	for got, code := range map[verdict.Outcome]int{verdict.Violated: outcome.ExitOK, verdict.Holds: outcome.ExitUnexpected, verdict.Undecided: outcome.ExitUndecided} {
		js := Judge(expect, verdict.Verdict{Results: []verdict.Result{
			{Property: verdict.MutualExclusion, Outcome: verdict.Violated, Cause: verdict.NeverSet},
			{Property: verdict.LeaseLinearizable, Outcome: got, Cause: verdict.Overlap},
		}})
		if len(js) != 2 || js[1].Follows != verdict.MutualExclusion || outcome.CodeOf(js) != code {
			t.Errorf("%s: %+v, code %d, want %d", got, js, outcome.CodeOf(js), code)
		}
	}
	if e := unconditional()[verdict.LeaseLinearizable]; e.Want != "holds" || !e.Implied {
		t.Errorf("where nobody says, %+v", e)
	}
}

// A violation that nobody expected is final; a missed one and a vacuous run are
// tried again, and are undecided in the end.
func TestRetries(t *testing.T) {
	missed := outcome.Judgement{Property: "a", Got: verdict.Holds, Missed: true}
	vacuous := outcome.Judgement{Property: "b", Got: verdict.Undecided}
	harm := outcome.Judgement{Property: "c", Got: verdict.Violated}
	idle := outcome.Judgement{Property: "e", Got: verdict.NotExercised, Expected: "holds"}
	spared := outcome.Judgement{Property: "f", Got: verdict.NotExercised, AsExpected: true}
	fine := outcome.Judgement{Property: "d", Got: verdict.Holds, AsExpected: true}
	for i, c := range []struct {
		js    []outcome.Judgement
		again bool
		code  int // after several tries
	}{
		{[]outcome.Judgement{fine}, false, outcome.ExitOK},
		{[]outcome.Judgement{fine, missed}, true, outcome.ExitUndecided},
		{[]outcome.Judgement{vacuous}, true, outcome.ExitUndecided},
		{[]outcome.Judgement{idle, fine}, true, outcome.ExitUndecided},
		{[]outcome.Judgement{idle, harm}, false, outcome.ExitUnexpected},
		{[]outcome.Judgement{spared, fine}, false, outcome.ExitOK},
		{[]outcome.Judgement{missed, harm}, false, outcome.ExitUnexpected},
		{[]outcome.Judgement{harm, vacuous}, false, outcome.ExitUnexpected},
	} {
		o := outcome.Outcome{Judgements: c.js, Code: outcome.CodeOf(c.js)}
		if (again(o) != "") != c.again {
			t.Errorf("case %d: again %q", i, again(o))
		}
		failed := o
		if failed.Error = "the disk is full"; again(failed) != "" {
			t.Errorf("case %d: tried again after an error", i)
		}
		o.Verdict.Numbers = map[string]float64{verdict.StalledMax: 0.25}
		if got := again(o); (got != "") != c.again || c.again && !strings.HasSuffix(got, Stalls+"0.25 s") {
			t.Errorf("case %d: where the machine stood still: again %q", i, got)
		}
		o.Retried = []string{"once"}
		o.Judgements = slices.Clone(o.Judgements)
		giveUp(&o)
		if o.Code != c.code {
			t.Errorf("case %d: code %d, want %d (%s)", i, o.Code, c.code, fmt.Sprint(c.js))
		}
		// What counts as unexpected by property is what makes the run so.
		unexpected := slices.ContainsFunc(o.Judgements, func(j outcome.Judgement) bool { return !j.AsExpected && !j.Open() })
		if unexpected != (o.Code == outcome.ExitUnexpected) {
			t.Errorf("case %d: code %d, and a property is unexpected: %v", i, o.Code, unexpected)
		}
	}
}

// A cause is confirmed only if it was undone on each node that it names. What was shown is said in any case.
func TestWhatATrialConfirms(t *testing.T) {
	end := func(cause, node string) *ending {
		return &ending{cause: cause, put: &history.Event{Process: node}}
	}
	lost, late := verdict.RestartedAndForgot, verdict.GivenShorter
	for name, row := range map[string]struct {
		ends         []*ending
		untried      []string
		cause        string
		alone        []string
		later, named bool
		state        outcome.Certainty
		why          string
	}{
		"each node": {ends: []*ending{end(lost, "n1"), end(lost, "n2")}, cause: lost, alone: []string{"n1"}, state: outcome.Confirmed,
			why: "run again with the key kept on n1 and n2 (restarted-and-forgot): c2 is refused there, and the two don't overlap"},
		"later": {ends: []*ending{end(lost, "n1")}, cause: lost, alone: []string{"n1"}, later: true, state: outcome.PutOff,
			why: "run again with the key kept on n1 (restarted-and-forgot): c2 is refused there, and the two don't overlap there, but later, through another loss"},
		"another loss on another node": {ends: []*ending{end(lost, "n5")}, untried: []string{"n1", "n2"}, cause: late, alone: []string{"n5"}, state: outcome.PartlyTried,
			why: "given-shorter can't be tried on n1 and n2, where the key was not cut short; what was shown: run again with the key kept on n5 (restarted-and-forgot): c2 is refused there, and the two don't overlap"},
		"one of its nodes": {ends: []*ending{end(lost, "n1")}, untried: []string{"n2"}, cause: lost, alone: []string{"n1"}, state: outcome.PartlyTried,
			why: "restarted-and-forgot can't be tried on n2, where the key was not cut short; what was shown: run again with the key kept on n1 (restarted-and-forgot): c2 is refused there, and the two don't overlap"},
		"none alone": {ends: []*ending{end(lost, "n1"), end(lost, "n2")}, cause: lost, state: outcome.Jointly,
			why: "run again with the key kept on n1 and n2 (restarted-and-forgot): c2 is refused there, and the two don't overlap; had one of these 2 alone kept its key, the two would have overlapped all the same"},
		"not without the other losses": {ends: []*ending{end(lost, "n1"), end(lost, "n2"), end(verdict.Flushed, "n3")}, cause: lost, alone: []string{"n3"}, named: true, state: outcome.Jointly,
			why: "run again with the key kept on n1 and n2 (restarted-and-forgot) and n3 (flushed): c2 is refused there, and the two don't overlap; had only those of restarted-and-forgot kept it, the two would have overlapped all the same"},
		"no reason": {ends: []*ending{end(verdict.Unexplained, "n1")}, cause: verdict.Unexplained, alone: []string{"n1"}, state: outcome.PartlyTried,
			why: "run again with the key kept on n1 (unexplained): c2 is refused there, and the two don't overlap"},
	} {
		x := &trial{ends: row.ends, untried: row.untried, client: "c2"}
		c := &outcome.Confirmation{Alone: row.alone}
		x.conclude(c, row.cause, row.later, row.named)
		if c.State != row.state || c.Why != row.why {
			t.Errorf("%s: %s: %s", name, c.State, c.Why)
		}
	}
}
