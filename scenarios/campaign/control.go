package campaign

import (
	"context"
	"maps"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// control runs the scenario with its own lock where another stands in for it: a lock that fails
// where that one holds is to blame, and one that holds where nothing was to be had has not shown
// much. It is tried again for the same reasons as any other run.
func (j Job) control(ctx context.Context, b harness.Backend) *outcome.Outcome {
	own := j
	own.Scenario, own.Control, own.Keep, own.Confirm = *j.Control, nil, KeepNone, false
	c := execute(ctx, b, own, nil)
	for range j.Retries {
		if again(c) == "" || ctx.Err() != nil {
			break
		}
		c = execute(ctx, b, own, nil)
	}
	return &c
}

// excused returns the expectations without the Relative ones that the control violated: under
// these settings no lock of its kind keeps them.
func (j Job) excused(control *outcome.Outcome) map[string]scenario.Expectation {
	expect := maps.Clone(j.Scenario.Expect)
	for _, property := range j.Relative {
		if r := control.Verdict.Result(property); r != nil && r.Outcome == checker.Violated {
			expect[property] = scenario.Expectation{Want: wantAny, Follows: expect[property].Follows}
		}
	}
	return expect
}

// compare sets what came of the control beside what came of the lock under test. It changes
// neither what was expected nor the exit code.
func (j Job) compare(c, o *outcome.Outcome) {
	lock := j.Control.Lock.Kind
	if c.Error != "" {
		o.Control = &outcome.Control{Lock: lock, Error: c.Error}
		return
	}
	o.Control = &outcome.Control{Lock: lock, Numbers: c.Numbers}
	for i := range o.Judgements {
		if r := c.Verdict.Result(o.Judgements[i].Property); r != nil {
			o.Judgements[i].Control = r.Outcome
		}
	}
	for _, r := range c.Verdict.Results {
		if r.Outcome == checker.Violated {
			o.Control.Violated = append(o.Control.Violated, outcome.Judgement{Property: r.Property, Got: r.Outcome, Cause: r.Cause, Node: r.Node, Because: r.Because})
		}
	}
}
