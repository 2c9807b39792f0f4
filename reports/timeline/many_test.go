package timeline

import (
	"slices"
	"testing"

	"lockpick/checker"
	"lockpick/harness/history"
)

// Each harm of many is listed, up to a bound; the one that the verdict shows always is.
func TestManyIncidents(t *testing.T) {
	h := &history.History{Params: history.Params{Resource: "r1"}}
	add := func(e history.Event) {
		e.N = int64(len(h.Events) + 1)
		h.Events = append(h.Events, e)
	}
	const writes = mostViews + 50
	for i := range int64(writes) {
		add(history.Event{T: 1e12, Process: "r1", Type: history.OK, Op: history.OpLog, Cause: history.OpWrite, Key: "k", Session: []string{"c1/1", "c2/1"}[i%2],
			Value: "v", Version: max(0, i-1), Applied: 1e9 + i*1e6})
	}
	add(history.Event{T: 2e12, Process: history.Harness, Type: history.End, Op: history.OpRun})
	last := h.Events[writes-1]
	tl := Of(h, checker.Verdict{Results: []checker.Result{{Property: checker.ResourceSafety, Outcome: checker.Violated, Incidents: writes - 1,
		Witness: &checker.Witness{Sessions: []string{"c2/1", "c1/1"}, Events: []int64{last.N - 1, last.N}, Key: "k", From: last.Applied - 1e6, To: last.Applied}}}})
	if n := len(tl.Views); n != mostViews+1 || tl.Unlisted == "" || !slices.Equal(tl.Views[tl.First].Events, []int64{last.N - 1, last.N}) {
		t.Errorf("%d incidents, the page opens with %v; %q", n, tl.Views[tl.First], tl.Unlisted)
	}
}
