package campaign

import (
	"context"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// Record runs a scenario once, for who wants to look at what happened: what was recorded, and
// what the checker says of it.
func Record(ctx context.Context, b harness.Backend, s scenario.Scenario, seed uint64) (*history.History, checker.Verdict, error) {
	rec := history.NewRecorder(nil)
	var events []history.Event
	rec.Watch(func(e history.Event) { events = append(events, e) })
	if err := harness.Run(ctx, b, s, seed, rec); err != nil {
		return nil, checker.Verdict{}, err
	}
	h, err := history.New(events)
	if err != nil {
		return nil, checker.Verdict{}, err
	}
	return h, checker.Check(h), nil
}
