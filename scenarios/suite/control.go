package suite

import (
	"context"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/scenarios/outcome"
)

// control runs the scenario with its own lock where another stands in for it, and sets what
// came of that beside what came of the other: a lock that fails where that one holds is to
// blame, and one that holds where nothing was to be had has not shown much. As a run that misses
// what its scenario expects is tried again, so is this. It changes neither what was expected
// nor the exit code.
func (j Job) control(ctx context.Context, b harness.Backend, o *outcome.Outcome) {
	if j.Control == nil || len(o.Judgements) == 0 || ctx.Err() != nil {
		return
	}
	own := j
	own.Scenario, own.Control, own.Keep, own.Confirm = *j.Control, nil, KeepNone, false
	c := execute(ctx, b, own, nil)
	for range j.Retries {
		if again(c) == "" || ctx.Err() != nil {
			break
		}
		c = execute(ctx, b, own, nil)
	}
	if c.Error != "" {
		o.Control = &outcome.Control{Lock: own.Scenario.Lock.Kind, Error: c.Error}
		return
	}
	o.Control = &outcome.Control{Lock: own.Scenario.Lock.Kind, Numbers: c.Numbers}
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
