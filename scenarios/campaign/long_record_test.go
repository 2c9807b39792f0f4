package campaign

import (
	"strings"
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// A run stopped because of too many events is undecided and is not retried.
func TestStoppedRunIsUndecided(t *testing.T) {
	const why = "stopped at event 2: too many"
	params := &history.Params{Schema: history.Schema, Clients: []string{"c1"}, Nodes: []string{"n1"}, Resource: "r1"}
	var o outcome.Outcome
	judgeRecorded(&o, scenario.Manifest{}, []history.Event{
		{N: 1, Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: params},
		{N: 2, T: 1, Process: history.Harness, Type: history.Info, Op: history.OpStop, Cause: why},
		{N: 3, T: 2, Process: history.Harness, Type: history.End, Op: history.OpRun},
	})
	if o.Code != outcome.ExitUndecided || !strings.Contains(o.Error, why) || retryReason(o) != "" {
		t.Errorf("code %d, error %q, retry reason %q", o.Code, o.Error, retryReason(o))
	}
}
