package campaign

import (
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

func TestJudgeNumbers(t *testing.T) {
	measured := verdict.Verdict{Numbers: map[string]float64{verdict.Grants: 8}}
	vacuous := measured
	vacuous.Assumption = "no client acquired a lock"
	for _, c := range []struct {
		bound scenario.Bound
		v     verdict.Verdict
		text  string
		code  int
	}{
		{scenario.Bound{Operator: ">=", Value: 8}, measured, "grants 8 (>= 8)", outcome.ExitOK},
		{scenario.Bound{Operator: "<=", Value: 8}, measured, "grants 8 (<= 8)", outcome.ExitOK},
		{scenario.Bound{Operator: ">", Value: 8}, measured, "grants 8, expected > 8", outcome.ExitUnexpected},
		{scenario.Bound{Operator: "<", Value: 8}, measured, "grants 8, expected < 8", outcome.ExitUnexpected},
		{scenario.Bound{Operator: ">=", Value: 8}, verdict.Verdict{}, "grants inconclusive, expected >= 8", outcome.ExitUndecided},
		{scenario.Bound{Operator: ">=", Value: 8}, vacuous, "grants inconclusive, expected >= 8", outcome.ExitUndecided},
		{scenario.Bound{Operator: "<", Value: 0.5, Variant: "other"}, measured, "grants inconclusive, expected < 0.5 * other", outcome.ExitUndecided},
	} {
		js := judgeNumbers(map[string]scenario.Bound{verdict.Grants: c.bound}, c.v)
		if len(js) != 1 || js[0].String() != c.text || outcome.CodeOf(js) != c.code || js[0].Because == "" {
			t.Errorf("%v: %v, code %d, want %s, %d", c.bound, js, outcome.CodeOf(js), c.text, c.code)
		}
	}
}

// A number bounded by another variant's number waits for that number. Until then, the run is neither
// retried nor counted. Without the variant or its number, the judgement is undecided.
func TestSettle(t *testing.T) {
	bounds := map[string]scenario.Bound{
		verdict.Grants:    {Operator: "<", Value: 0.5, Variant: "other"},
		"split-vote-rate": {Operator: ">", Value: 1, Variant: "base"},
	}
	v := verdict.Verdict{Numbers: map[string]float64{verdict.Grants: 8, "split-vote-rate": 0.3}}
	newOutcome := func() *outcome.Outcome { return &outcome.Outcome{Judgements: judgeNumbers(bounds, v)} }
	if o := newOutcome(); len(o.PendingVariants()) != 2 || retryReason(*o) != "" {
		t.Errorf("waits for %v, retry reason %q", o.PendingVariants(), retryReason(*o))
	}
	for _, c := range []struct {
		other, base map[string]float64
		code        int
	}{
		{map[string]float64{verdict.Grants: 17}, map[string]float64{"split-vote-rate": 0.2}, outcome.ExitOK},
		{map[string]float64{verdict.Grants: 16}, map[string]float64{"split-vote-rate": 0.2}, outcome.ExitUnexpected},
		{map[string]float64{verdict.Grants: 17}, map[string]float64{}, outcome.ExitUndecided},
		{nil, map[string]float64{"split-vote-rate": 0.2}, outcome.ExitUndecided},
	} {
		o := newOutcome()
		settle(o, "other", c.other)
		if len(o.PendingVariants()) != 1 {
			t.Errorf("waits for %v, want one variant", o.PendingVariants())
		}
		settle(o, "base", c.base)
		if o.Code != c.code || len(o.PendingVariants()) != 0 {
			t.Errorf("%v, %v: code %d, want %d: %v", c.other, c.base, o.Code, c.code, o.Judgements)
		}
	}
}
