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
	holds := verdict.Result{Property: me, Outcome: verdict.Holds, Occasions: 3}
	notExercised := verdict.Result{Property: me, Outcome: verdict.NotExercised}
	violated := verdict.Result{Property: me, Outcome: verdict.Violated, Occasions: 3, Cause: verdict.RestartedAndForgot, Node: "n3"}
	undecided := verdict.Result{Property: me, Outcome: verdict.Undecided}
	for _, c := range []struct {
		name string
		want scenario.Expectation
		got  verdict.Result
		ok   bool
		code int
	}{
		{"holds", scenario.Expectation{Want: "holds"}, holds, true, outcome.ExitOK},
		{"should hold, is violated", scenario.Expectation{Want: "holds"}, violated, false, outcome.ExitUnexpected},
		{"named, but not exercised", scenario.Expectation{Want: "holds"}, notExercised, false, outcome.ExitUndecided},
		{"implied, and not exercised", scenario.Expectation{Want: "holds", Implied: true}, notExercised, true, outcome.ExitOK},
		{"any, and not exercised", scenario.Expectation{Want: "any"}, notExercised, true, outcome.ExitOK},
		{"should be violated, but not exercised", scenario.Expectation{Want: "violated"}, notExercised, false, outcome.ExitUnexpected},
		{"violated", scenario.Expectation{Want: "violated"}, violated, true, outcome.ExitOK},
		{"violated with the right cause", scenario.Expectation{Want: "violated", Cause: verdict.RestartedAndForgot, Node: "n3"}, violated, true, outcome.ExitOK},
		{"violated with the wrong cause", scenario.Expectation{Want: "violated", Cause: verdict.ExpiredEarly}, violated, false, outcome.ExitUnexpected},
		{"violated at the wrong node", scenario.Expectation{Want: "violated", Cause: verdict.RestartedAndForgot, Node: "n1"}, violated, false, outcome.ExitUnexpected},
		{"should be violated, but holds", scenario.Expectation{Want: "violated"}, holds, false, outcome.ExitUnexpected},
		{"undecided, should hold", scenario.Expectation{Want: "holds"}, undecided, false, outcome.ExitUndecided},
		{"undecided, should be violated", scenario.Expectation{Want: "violated"}, undecided, false, outcome.ExitUndecided},
		{"any", scenario.Expectation{Want: "any"}, violated, true, outcome.ExitOK},
	} {
		js := Judge(map[string]scenario.Expectation{me: c.want}, verdict.Verdict{Results: []verdict.Result{c.got}})
		if len(js) != 1 || js[0].AsExpected != c.ok || outcome.CodeOf(js) != c.code {
			t.Errorf("%s: %+v, code %d", c.name, js, outcome.CodeOf(js))
		}
	}
}

// A vacuous run is never as expected, whatever was expected.
func TestJudgeVacuous(t *testing.T) {
	v := verdict.Verdict{Assumption: "step 1 never happened", Results: []verdict.Result{{Property: verdict.MutualExclusion, Outcome: verdict.Undecided}}}
	for _, want := range []string{"any", "holds", "violated"} {
		js := Judge(map[string]scenario.Expectation{verdict.MutualExclusion: {Want: want}}, v)
		if outcome.CodeOf(js) != outcome.ExitUndecided {
			t.Errorf("%s: %+v, code %d", want, js, outcome.CodeOf(js))
		}
	}
}

func TestJudgeUnknownProperty(t *testing.T) {
	js := Judge(map[string]scenario.Expectation{"no-such-property": {Want: "holds"}}, verdict.Verdict{})
	if len(js) != 1 || js[0].AsExpected || outcome.CodeOf(js) != outcome.ExitUndecided {
		t.Errorf("%+v", js)
	}
}

// lease-linearizable follows from mutual-exclusion but is judged nevertheless.
func TestJudgeFollowingProperty(t *testing.T) {
	expect := map[string]scenario.Expectation{verdict.MutualExclusion: {Want: "violated", Cause: verdict.NeverSet}}
	scenario.AddImplied(expect, "")
	for got, code := range map[verdict.Outcome]int{verdict.Violated: outcome.ExitOK, verdict.Holds: outcome.ExitUnexpected, verdict.Undecided: outcome.ExitUndecided} {
		js := Judge(expect, verdict.Verdict{Results: []verdict.Result{
			{Property: verdict.MutualExclusion, Outcome: verdict.Violated, Cause: verdict.NeverSet},
			{Property: verdict.LeaseLinearizable, Outcome: got, Cause: verdict.Overlap},
		}})
		if len(js) != 2 || js[1].ImpliedBy != verdict.MutualExclusion || outcome.CodeOf(js) != code {
			t.Errorf("%s: %+v, code %d, want %d", got, js, outcome.CodeOf(js), code)
		}
	}
	if e := defaultExpectations()[verdict.LeaseLinearizable]; e.Want != "holds" || !e.Implied {
		t.Errorf("default expectation: %+v", e)
	}
}

// An unexpected violation is final. A run without its expected violation, or a vacuous run, is
// retried. If no retry succeeds, the result is undecided.
func TestRetries(t *testing.T) {
	missed := outcome.Judgement{Property: "a", Got: verdict.Holds, Missed: true}
	vacuous := outcome.Judgement{Property: "b", Got: verdict.Undecided}
	violated := outcome.Judgement{Property: "c", Got: verdict.Violated}
	notExercised := outcome.Judgement{Property: "e", Got: verdict.NotExercised, Expected: "holds"}
	exempt := outcome.Judgement{Property: "f", Got: verdict.NotExercised, AsExpected: true}
	asExpected := outcome.Judgement{Property: "d", Got: verdict.Holds, AsExpected: true}
	for i, c := range []struct {
		js      []outcome.Judgement
		retried bool
		code    int // after several runs
	}{
		{[]outcome.Judgement{asExpected}, false, outcome.ExitOK},
		{[]outcome.Judgement{asExpected, missed}, true, outcome.ExitUndecided},
		{[]outcome.Judgement{vacuous}, true, outcome.ExitUndecided},
		{[]outcome.Judgement{notExercised, asExpected}, true, outcome.ExitUndecided},
		{[]outcome.Judgement{notExercised, violated}, false, outcome.ExitUnexpected},
		{[]outcome.Judgement{exempt, asExpected}, false, outcome.ExitOK},
		{[]outcome.Judgement{missed, violated}, false, outcome.ExitUnexpected},
		{[]outcome.Judgement{violated, vacuous}, false, outcome.ExitUnexpected},
	} {
		o := outcome.Outcome{Judgements: c.js, Code: outcome.CodeOf(c.js)}
		if (retryReason(o) != "") != c.retried {
			t.Errorf("case %d: retry reason %q", i, retryReason(o))
		}
		failed := o
		if failed.Error = "the disk is full"; retryReason(failed) != "" {
			t.Errorf("case %d: retried after an error", i)
		}
		o.Verdict.Numbers = map[string]float64{verdict.StalledMax: 0.25}
		if got := retryReason(o); (got != "") != c.retried || c.retried && !strings.HasSuffix(got, StallReason+"0.25 s") {
			t.Errorf("case %d: after a host stall: retry reason %q", i, got)
		}
		o.RetryReasons = []string{"once"}
		o.Judgements = slices.Clone(o.Judgements)
		giveUp(&o)
		if o.Code != c.code {
			t.Errorf("case %d: code %d, want %d (%s)", i, o.Code, c.code, fmt.Sprint(c.js))
		}
		// The exit code must be ExitUnexpected exactly if a property's result is unexpected.
		unexpected := slices.ContainsFunc(o.Judgements, func(j outcome.Judgement) bool { return !j.AsExpected && !j.Unresolved() })
		if unexpected != (o.Code == outcome.ExitUnexpected) {
			t.Errorf("case %d: code %d, but unexpected properties: %v", i, o.Code, unexpected)
		}
	}
}

// A cause is confirmed only if the reruns removed it on every node blamed for it. The explanation
// always says what the reruns showed.
func TestConcludeConfirmation(t *testing.T) {
	end := func(cause, node string) *earlyEnd {
		return &earlyEnd{cause: cause, replacement: &history.Event{Process: node}}
	}
	lost, late := verdict.RestartedAndForgot, verdict.GivenShorter
	for name, row := range map[string]struct {
		ends         []*earlyEnd
		untried      []string
		cause        string
		alone        []string
		later, named bool
		state        outcome.Certainty
		why          string
	}{
		"each node": {ends: []*earlyEnd{end(lost, "n1"), end(lost, "n2")}, cause: lost, alone: []string{"n1"}, state: outcome.CauseConfirmed,
			why: "rerun with the key preserved on n1 and n2 (restarted-and-forgot): c2 is refused there, and the two do not overlap"},
		"later": {ends: []*earlyEnd{end(lost, "n1")}, cause: lost, alone: []string{"n1"}, later: true, state: outcome.OverlapPostponed,
			why: "rerun with the key preserved on n1 (restarted-and-forgot): c2 is refused there, and the two do not overlap then, but they do later, after another loss"},
		"another loss on another node": {ends: []*earlyEnd{end(lost, "n5")}, untried: []string{"n1", "n2"}, cause: late, alone: []string{"n5"}, state: outcome.CausePartlyTested,
			why: "given-shorter can't be checked on n1 and n2, where no key was cut short; result: rerun with the key preserved on n5 (restarted-and-forgot): c2 is refused there, and the two do not overlap"},
		"one of its nodes": {ends: []*earlyEnd{end(lost, "n1")}, untried: []string{"n2"}, cause: lost, alone: []string{"n1"}, state: outcome.CausePartlyTested,
			why: "restarted-and-forgot can't be checked on n2, where no key was cut short; result: rerun with the key preserved on n1 (restarted-and-forgot): c2 is refused there, and the two do not overlap"},
		"no node alone suffices": {ends: []*earlyEnd{end(lost, "n1"), end(lost, "n2")}, cause: lost, state: outcome.CausesJointlyNecessary,
			why: "rerun with the key preserved on n1 and n2 (restarted-and-forgot): c2 is refused there, and the two do not overlap; with the key preserved on only one of these 2, the two still overlap"},
		"only with the other losses": {ends: []*earlyEnd{end(lost, "n1"), end(lost, "n2"), end(verdict.Flushed, "n3")}, cause: lost, alone: []string{"n3"}, named: true, state: outcome.CausesJointlyNecessary,
			why: "rerun with the key preserved on n1 and n2 (restarted-and-forgot) and n3 (flushed): c2 is refused there, and the two do not overlap; with only the keys lost to restarted-and-forgot preserved, the two still overlap"},
		"unexplained": {ends: []*earlyEnd{end(verdict.Unexplained, "n1")}, cause: verdict.Unexplained, alone: []string{"n1"}, state: outcome.CausePartlyTested,
			why: "rerun with the key preserved on n1 (unexplained): c2 is refused there, and the two do not overlap"},
	} {
		x := &trial{earlyEnds: row.ends, uncheckedNodes: row.untried, secondClient: "c2"}
		c := &outcome.Confirmation{SufficientNodes: row.alone}
		x.conclude(c, row.cause, row.later, row.named)
		if c.State != row.state || c.Why != row.why {
			t.Errorf("%s: %s: %s", name, c.State, c.Why)
		}
	}
}
