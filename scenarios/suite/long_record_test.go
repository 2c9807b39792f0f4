package suite

import (
	"strings"
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// A run that records too much is stopped at that event, and what it shows is undecided,
// whether or not it was to stop for something else, too.
func TestRecordIsBounded(t *testing.T) {
	for _, stop := range []bool{false, true} {
		until := Job{StopAtViolation: stop}.until(3)
		for n, want := range []string{"", "", tooLong} {
			if h := until(history.Event{N: int64(n + 1), Process: "c1", Type: history.Begin, Op: history.OpClient}); h.Why != want {
				t.Errorf("event %d: %q, want %q", n+1, h.Why, want)
			}
		}
	}
	params := &history.Params{Schema: history.Schema, Clients: []string{"c1"}, Nodes: []string{"n1"}, Resource: "r1"}
	var o outcome.Outcome
	judged(&o, scenario.Manifest{}, []history.Event{
		{N: 1, Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: params},
		{N: 2, T: 1, Process: history.Harness, Type: history.Info, Op: history.OpStop, Cause: "stopped at event 2: " + tooLong},
		{N: 3, T: 2, Process: history.Harness, Type: history.End, Op: history.OpRun},
	})
	if o.Code != outcome.ExitUndecided || !strings.Contains(o.Error, tooLong) || again(o) != "" {
		t.Errorf("code %d, error %q, again %q", o.Code, o.Error, again(o))
	}
}
