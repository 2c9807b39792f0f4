package campaign

import (
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// After a host stall, an expected violation that did not occur or had another cause is undecided.
// Unexpected violations stay final, because the checker accounts for stalls itself.
func TestStallExcusesExpectedViolations(t *testing.T) {
	violated := func(property, cause string) verdict.Result {
		return verdict.Result{Property: property, Outcome: verdict.Violated, Cause: cause, Occasions: 1}
	}
	holds := func(property string) verdict.Result {
		return verdict.Result{Property: property, Outcome: verdict.Holds, Occasions: 1}
	}
	wantHold, wantForgotten := scenario.Expectation{Want: wantHolds}, scenario.Expectation{Want: wantViolated, Cause: verdict.RestartedAndForgot}
	for _, c := range []struct {
		want    scenario.Expectation
		got     verdict.Result
		code    int // without a stall
		excused bool
	}{
		{wantForgotten, violated(verdict.MutualExclusion, verdict.RestartedAndForgot), outcome.ExitOK, false},
		{wantForgotten, violated(verdict.MutualExclusion, verdict.ExpiredEarly), outcome.ExitUnexpected, true},
		{wantForgotten, holds(verdict.MutualExclusion), outcome.ExitUnexpected, true},
		{wantForgotten, violated(verdict.FencingOrder, verdict.TokenOrder), outcome.ExitUnexpected, true},
		{wantHold, violated(verdict.MutualExclusion, verdict.ExpiredEarly), outcome.ExitUnexpected, false},
		{wantHold, violated(verdict.LeaseLinearizable, verdict.Overlap), outcome.ExitUnexpected, false},
		{wantHold, violated(verdict.FencingOrder, verdict.TokenOrder), outcome.ExitUnexpected, false},
		{wantHold, violated(verdict.ResourceSafety, verdict.LockBroken), outcome.ExitUnexpected, false},
		{wantHold, violated(verdict.ResourceSafety, verdict.FenceBroken), outcome.ExitUnexpected, false},
		{wantHold, violated(verdict.ResourceSafety, verdict.Overrun), outcome.ExitUnexpected, false},
		{wantHold, violated(verdict.DeadlockFreedom, ""), outcome.ExitUnexpected, false},
		{wantHold, violated(verdict.FaultTolerance, verdict.SplitVote), outcome.ExitUnexpected, false},
		{wantHold, violated(verdict.BoundedHold, verdict.HeldTooLong), outcome.ExitUnexpected, false},
		{wantHold, violated(verdict.ValidOnReturn, verdict.ReturnedLate), outcome.ExitUnexpected, false},
		{wantHold, holds(verdict.MutualExclusion), outcome.ExitOK, false},
	} {
		for _, stalled := range []float64{0, 4} {
			c.got.Stalled = stalled
			o := outcome.Outcome{Judgements: Judge(map[string]scenario.Expectation{c.got.Property: c.want}, verdict.Verdict{Results: []verdict.Result{c.got}})}
			o.Code = outcome.CodeOf(o.Judgements)
			want, retried := c.code, o.Judgements[0].Missed
			if c.excused && stalled > 0 {
				want, retried = outcome.ExitUndecided, true
			}
			if o.Code != want || (retryReason(o) != "") != retried {
				t.Errorf("%s %s (%s), expected %s, after a stall of %g s: code %d, want %d; retry reason %q",
					c.got.Property, c.got.Outcome, c.got.Cause, c.want, stalled, o.Code, want, retryReason(o))
			}
		}
	}
}

// A number that misses its bound is undecided if a host stall may explain it.
func TestStallExcusesNumbers(t *testing.T) {
	count, wait := scenario.Bound{Operator: ">=", Value: 3}, scenario.Bound{Operator: "<=", Value: 1}
	for _, row := range []struct {
		name    string
		bound   scenario.Bound
		is      float64
		stalled float64
		code    int
	}{
		{verdict.Grants, count, 2, 0, outcome.ExitUnexpected},
		{verdict.Grants, count, 2, 0.5, outcome.ExitUndecided},
		{verdict.UnavailableMax, wait, 1.4, 0, outcome.ExitUnexpected},
		{verdict.UnavailableMax, wait, 1.4, 0.5, outcome.ExitUndecided},
		{verdict.UnavailableMax, wait, 1.6, 0.5, outcome.ExitUnexpected},
	} {
		v := verdict.Verdict{Numbers: map[string]float64{row.name: row.is, verdict.StalledMax: row.stalled, verdict.StalledSeconds: row.stalled}}
		if got := outcome.CodeOf(judgeNumbers(map[string]scenario.Bound{row.name: row.bound}, v)); got != row.code {
			t.Errorf("%s is %g after a stall of %g s: code %d, want %d", row.name, row.is, row.stalled, got, row.code)
		}
	}
}

// A run with an unplanned event does not count, whatever its error and expectations.
func TestUnplannedEventsAreRetried(t *testing.T) {
	v := verdict.Verdict{Assumption: "unplanned: n1 ended at 1 s", Unplanned: true}
	for _, o := range []outcome.Outcome{{}, {Error: "the resource is gone", Code: outcome.ExitBackend}, {StopReason: "at a violation"}} {
		o.Verdict = v
		if retryReason(o) != v.Assumption {
			t.Errorf("%+v: retry reason %q", o, retryReason(o))
		}
	}
}
