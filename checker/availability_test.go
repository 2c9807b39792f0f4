package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// TestFaultToleranceBound checks how each parameter affects the bound. Unless all of them are set,
// there is no bound.
func TestFaultToleranceBound(t *testing.T) {
	const attempts = `
0   c1 begin client
0   c2 begin client
1   c1 invoke acquire session=c1/1
%g  c1 ok acquire session=c1/1 until=90
95  c1 invoke release session=c1/1
95  c1 ok release session=c1/1
99  harness end run`
	fullParams := "params clients=c1,c2 nodes=n1 ttl=10s nodeTimeout=50ms retryMax=200ms slack=500ms rounds=4"
	for _, row := range []struct {
		params string
		at     float64
		want   verdict.Outcome
	}{
		{fullParams, 2.5, verdict.Holds},
		{fullParams, 2.501, verdict.Violated},
		{strings.Replace(fullParams, "rounds=4", "rounds=5", 1), 2.501, verdict.Holds},
		{strings.Replace(fullParams, " rounds=4", "", 1), 50, verdict.Undecided},
		{strings.Replace(fullParams, " retryMax=200ms", "", 1), 50, verdict.Undecided},
		{strings.Replace(fullParams, " nodes=n1", "", 1), 50, verdict.Undecided},
		{fullParams + "\n1.2 nemesis begin stall node=machine\n1.9 nemesis end stall node=machine", 3, verdict.Undecided},
	} {
		if got := judge(newRecord(parseHistory(t, row.params+fmt.Sprintf(attempts, row.at))), verdict.FaultTolerance); got.Outcome != row.want {
			t.Errorf("%s, granted at %g: %s, want %s: %s", row.params, row.at, got.Outcome, row.want, got.Because)
		}
	}
}

// BenchmarkCheckUnderFaults judges a record in which every second holder is cut off from all nodes
// until its lease has expired, while other clients wait.
func BenchmarkCheckUnderFaults(b *testing.B) {
	h := turnTakingHistory(20_000)
	h.Params.Nodes, h.Params.Rounds, h.Params.Slack = []string{"n1", "n2", "n3"}, 10, time.Microsecond
	h.Params.TTL, h.Params.NodeTimeout, h.Params.RetryMax = 2*time.Microsecond, time.Microsecond, time.Microsecond
	events := h.Events
	for i, e := range h.Events {
		if e.Op != history.OpAcquire || e.Type != history.OK || i%12 != 5 {
			continue
		}
		for _, n := range h.Params.Nodes {
			for t, at := range map[history.Type]int64{history.Invoke: 5, history.Begin: 10, history.End: 3000} {
				events = append(events, history.Event{T: e.T + at, Process: history.Nemesis, Type: t, Op: facts.Cut, Node: e.Process + "-" + n})
			}
		}
	}
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	for i := range events {
		events[i].N = int64(i + 1)
	}
	h.Events = events
	if n := judge(newRecord(h), verdict.DeadlockFreedom).Occasions; n < 9000 {
		b.Fatalf("only %d holders were lost", n)
	}
	for b.Loop() {
		if v := Check(h); v.Assumption != "" {
			b.Fatal(v.Assumption)
		}
	}
}
