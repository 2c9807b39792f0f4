package suite

import (
	"context"
	"strings"
	"testing"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// refuted is a backend on which a release arrives after the run was stopped for
// want of it.
type refuted struct{ idle }

func (refuted) Run(_ context.Context, _ scenario.Scenario, _ uint64, rec *history.Recorder, _ harness.Body) error {
	c := func(t int64, client string, typ history.Type, op string, until int64) {
		e := history.Event{T: t, Process: client, Type: typ, Op: op, ValidUntil: until}
		if op != history.OpClient {
			e.Key, e.Session = "k", client+"/1"
		}
		rec.Record(e)
	}
	rec.Record(history.Event{Process: history.Harness, Type: history.Begin, Op: history.OpRun,
		Params: &history.Params{Schema: history.Schema, Clients: []string{"c1", "c2"}}})
	for _, client := range []string{"c1", "c2"} {
		c(0, client, history.Begin, history.OpClient, 0)
	}
	c(1, "c1", history.Invoke, history.OpAcquire, 0)
	c(2, "c1", history.OK, history.OpAcquire, 100)
	c(4, "c2", history.Invoke, history.OpAcquire, 0)
	c(5, "c2", history.OK, history.OpAcquire, 100)
	rec.Record(history.Event{T: 7, Process: history.Harness, Type: history.Info, Op: history.OpStop, Key: "k", Cause: "stopped at event 7"})
	c(3, "c1", history.Invoke, history.OpRelease, 0)
	rec.Record(history.Event{T: 9, Process: history.Harness, Type: history.End, Op: history.OpRun})
	return nil
}

// A stop that the whole record does not bear out is no pass.
func TestStoppedInVain(t *testing.T) {
	o := Execute(t.Context(), refuted{}, Job{Scenario: scenario.Scenario{Name: "x", Expect: Unconditional()}, Keep: KeepNone, Retries: 3})
	if o.Code != outcome.ExitUndecided || o.Stopped == "" || !strings.Contains(o.Error, "whole record does not show") || len(o.Retried) > 0 {
		t.Errorf("code %d, stopped %q, retried %q: %s", o.Code, o.Stopped, o.Retried, o.Error)
	}
}
