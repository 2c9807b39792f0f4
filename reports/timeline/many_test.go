package timeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/internal/histories"
)

// The number of listed incidents is limited, but the incident that the verdict shows is always listed.
func TestManyIncidents(t *testing.T) {
	h := &history.History{Params: history.Params{Resource: "r1"}}
	add := func(e history.Event) {
		e.N = int64(len(h.Events) + 1)
		h.Events = append(h.Events, e)
	}
	const writes = maxViews + 50
	for i := range int64(writes) {
		add(history.Event{T: 1e12, Process: "r1", Type: history.OK, Op: history.OpLog, Cause: history.OpWrite, Key: "k", Session: []string{"c1/1", "c2/1"}[i%2],
			Value: "v", Version: max(0, i-1), AppliedAt: 1e9 + i*1e6})
	}
	add(history.Event{T: 2e12, Process: history.Harness, Type: history.End, Op: history.OpRun})
	last := h.Events[writes-1]
	tl := New(h, verdict.Verdict{Results: []verdict.Result{{Property: verdict.ResourceSafety, Outcome: verdict.Violated, Incidents: writes - 1,
		Witness: &verdict.Witness{Sessions: []string{"c2/1", "c1/1"}, Events: []int64{last.N - 1, last.N}, Key: "k", From: last.AppliedAt - 1e6, To: last.AppliedAt}}}})
	if n := len(tl.Views); n != maxViews+1 || tl.Unlisted == "" || !slices.Equal(tl.Views[tl.First].Events, []int64{last.N - 1, last.N}) {
		t.Errorf("%d incidents listed, first view is %v, Unlisted is %q", n, tl.Views[tl.First], tl.Unlisted)
	}
}

// All holds that exceed the limit are listed, in order of time.
func TestEveryLongHoldIsListed(t *testing.T) {
	h, err := histories.Parse(`params clients=c1,c2 nodes=n1 maxExtends=1
0 c1 begin client
0 c2 begin client
1 c1 invoke acquire session=c1/1 key=lock-1
1 c1 ok acquire session=c1/1 key=lock-1 until=9
2 c2 invoke acquire session=c2/1 key=lock-2
2 c2 ok acquire session=c2/1 key=lock-2 until=9
3 c1 invoke extend session=c1/1
3 c1 ok extend session=c1/1 until=10
4 c1 invoke extend session=c1/1
4 c1 ok extend session=c1/1 until=11
5 c2 invoke extend session=c2/1 key=lock-2
5 c2 ok extend session=c2/1 key=lock-2 until=12
6 c2 invoke extend session=c2/1 key=lock-2
6 c2 ok extend session=c2/1 key=lock-2 until=13
14 harness end run
`)
	if err != nil {
		t.Fatal(err)
	}
	tl := checkLayout(t, h)
	var got []string
	for _, v := range tl.Views {
		got = append(got, fmt.Sprint(v.Property, " ", v.From, "–", v.To, ": ", v.Because))
	}
	want := []string{
		"bounded-hold 1000000–11000000: c1 extended its hold of lock-1 2 times (limit 1) and held it from 1 s to 11 s (10 s)",
		"bounded-hold 2000000–13000000: c2 extended its hold of lock-2 2 times (limit 1) and held it from 2 s to 13 s (11 s)",
	}
	if !slices.Equal(got, want) || tl.Unlisted != "" {
		t.Errorf("listed incidents: %s; Unlisted is %q", strings.Join(got, "\n"), tl.Unlisted)
	}
}
