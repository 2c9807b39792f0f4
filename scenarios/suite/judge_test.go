package suite

import (
	"fmt"
	"testing"

	"lockpick/checker"
	"lockpick/harness"
)

func TestJudge(t *testing.T) {
	const me = checker.MutualExclusion
	yes := checker.Result{Property: me, Outcome: checker.Holds, Occasions: 3}
	idle := checker.Result{Property: me, Outcome: checker.Holds}
	no := checker.Result{Property: me, Outcome: checker.Violated, Occasions: 3, Cause: checker.RestartedAndForgot, Node: "n3"}
	open := checker.Result{Property: me, Outcome: checker.Undecided}
	for _, c := range []struct {
		name string
		want harness.Expectation
		got  checker.Result
		ok   bool
		code int
	}{
		{"holds", harness.Expectation{Want: "holds"}, yes, true, ExitOK},
		{"should hold, is violated", harness.Expectation{Want: "holds"}, no, false, ExitUnexpected},
		{"named, but never put to the test", harness.Expectation{Want: "holds"}, idle, false, ExitUndecided},
		{"implied, and never put to the test", harness.Expectation{Want: "holds", Implied: true}, idle, true, ExitOK},
		{"violated", harness.Expectation{Want: "violated"}, no, true, ExitOK},
		{"for the right reason", harness.Expectation{Want: "violated", Cause: checker.RestartedAndForgot, Node: "n3"}, no, true, ExitOK},
		{"for the wrong reason", harness.Expectation{Want: "violated", Cause: checker.ExpiredEarly}, no, false, ExitUnexpected},
		{"by the wrong node", harness.Expectation{Want: "violated", Cause: checker.RestartedAndForgot, Node: "n1"}, no, false, ExitUnexpected},
		{"should be violated, holds", harness.Expectation{Want: "violated"}, yes, false, ExitUnexpected},
		{"undecided is no pass", harness.Expectation{Want: "holds"}, open, false, ExitUndecided},
		{"nor a violation", harness.Expectation{Want: "violated"}, open, false, ExitUndecided},
		{"any", harness.Expectation{Want: "any"}, no, true, ExitOK},
	} {
		js := Judge(map[string]harness.Expectation{me: c.want}, checker.Verdict{Results: []checker.Result{c.got}})
		if len(js) != 1 || js[0].AsExpected != c.ok || CodeOf(js) != c.code {
			t.Errorf("%s: %+v, code %d", c.name, js, CodeOf(js))
		}
	}
}

// A run that shows nothing is as nobody expected, whatever they would have taken.
func TestJudgeVacuous(t *testing.T) {
	v := checker.Verdict{Assumption: "step 1 never came", Results: []checker.Result{{Property: checker.MutualExclusion, Outcome: checker.Undecided}}}
	for _, want := range []string{"any", "holds", "violated"} {
		js := Judge(map[string]harness.Expectation{checker.MutualExclusion: {Want: want}}, v)
		if CodeOf(js) != ExitUndecided {
			t.Errorf("%s: %+v, code %d", want, js, CodeOf(js))
		}
	}
}

func TestJudgeMissesNoExpectation(t *testing.T) {
	js := Judge(map[string]harness.Expectation{"no-such-property": {Want: "holds"}}, checker.Verdict{})
	if len(js) != 1 || js[0].AsExpected || CodeOf(js) != ExitUndecided {
		t.Errorf("%+v", js)
	}
}

// Lease-linearizable follows mutual-exclusion, and is judged all the same.
func TestJudgeFollower(t *testing.T) {
	expect := map[string]harness.Expectation{checker.MutualExclusion: {Want: "violated", Cause: checker.NeverSet}}
	harness.Imply(expect)
	for got, code := range map[checker.Outcome]int{checker.Violated: ExitOK, checker.Holds: ExitUnexpected, checker.Undecided: ExitUndecided} {
		js := Judge(expect, checker.Verdict{Results: []checker.Result{
			{Property: checker.MutualExclusion, Outcome: checker.Violated, Cause: checker.NeverSet},
			{Property: checker.LeaseLinearizable, Outcome: got, Cause: checker.Overlap},
		}})
		if len(js) != 2 || js[1].Follows != checker.MutualExclusion || CodeOf(js) != code {
			t.Errorf("%s: %+v, code %d, want %d", got, js, CodeOf(js), code)
		}
	}
	if e := Unconditional()[checker.LeaseLinearizable]; e.Want != "holds" || !e.Implied {
		t.Errorf("where nobody says, %+v", e)
	}
}

func TestWorse(t *testing.T) {
	order := []int{ExitBug, ExitUsage, ExitUnexpected, ExitBackend, ExitUndecided, ExitOK}
	for i, a := range order {
		for _, b := range order[i:] {
			if Worse(a, b) != a || Worse(b, a) != a {
				t.Errorf("Worse(%d, %d) is not %d", a, b, a)
			}
		}
	}
}

// A violation that nobody expected is final; a missed one and a vacuous run are
// tried again, and are undecided in the end.
func TestRetries(t *testing.T) {
	missed := Judgement{Property: "a", Got: checker.Holds, Missed: true}
	vacuous := Judgement{Property: "b", Got: checker.Undecided}
	harm := Judgement{Property: "c", Got: checker.Violated}
	fine := Judgement{Property: "d", Got: checker.Holds, AsExpected: true}
	for i, c := range []struct {
		js    []Judgement
		again bool
		code  int // after several tries
	}{
		{[]Judgement{fine}, false, ExitOK},
		{[]Judgement{fine, missed}, true, ExitUndecided},
		{[]Judgement{vacuous}, true, ExitUndecided},
		{[]Judgement{missed, harm}, false, ExitUnexpected},
		{[]Judgement{harm, vacuous}, false, ExitUnexpected},
	} {
		o := Outcome{Judgements: c.js, Code: CodeOf(c.js)}
		if (o.again() != "") != c.again {
			t.Errorf("case %d: again %q", i, o.again())
		}
		failed := o
		if failed.Error = "the disk is full"; failed.again() != "" {
			t.Errorf("case %d: tried again after an error", i)
		}
		o.Retried = []string{"once"}
		o.giveUp()
		if o.Code != c.code {
			t.Errorf("case %d: code %d, want %d (%s)", i, o.Code, c.code, fmt.Sprint(c.js))
		}
	}
}
