package suite

import (
	"lockpick/checker"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// excuse leaves open what did not come as expected where the machine stood still so that
// it may be why: an expected violation that was missed or had another cause, for the plan
// was late; and one that nobody expected of what has to be done in time. That two clients
// held one lock, or that a fence let the wrong one pass, no machine is to blame for.
func excuse(j *outcome.Judgement, want scenario.Expectation, r checker.Result) {
	if j.AsExpected || r.Stalled == 0 || want.Want != wantViolated && !excusable(r) {
		return
	}
	switch r.Outcome {
	case checker.Violated:
		j.Because = "the machine stood still, which may be why: " + r.Because
	case checker.Holds:
		j.Because = "the machine stood still, and the violation may have been missed for that: " + r.Because
	default:
		return
	}
	j.Got = checker.Undecided
}

// excusable says whether a machine that stands still can bring a violation about.
func excusable(r checker.Result) bool {
	switch r.Property {
	case checker.MutualExclusion, checker.LeaseLinearizable, checker.FencingOrder:
		return false
	case checker.ResourceSafety:
		return r.Cause == checker.Overrun
	}
	return true
}
