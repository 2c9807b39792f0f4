package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// TestFaultToleranceBound goes through what the bound is made of, and what is missing without it.
func TestFaultToleranceBound(t *testing.T) {
	const tries = `
0   c1 begin client
0   c2 begin client
1   c1 invoke acquire session=c1/1
%g  c1 ok acquire session=c1/1 until=90
95  c1 invoke release session=c1/1
95  c1 ok release session=c1/1
99  harness end run`
	full := "params clients=c1,c2 nodes=n1 ttl=10s nodeTimeout=50ms retryMax=200ms slack=500ms rounds=4"
	for _, row := range []struct {
		params string
		at     float64
		want   Outcome
	}{
		{full, 2.5, Holds},
		{full, 2.501, Violated},
		{strings.Replace(full, "rounds=4", "rounds=5", 1), 2.501, Holds},
		{strings.Replace(full, " rounds=4", "", 1), 50, Undecided},
		{strings.Replace(full, " retryMax=200ms", "", 1), 50, Undecided},
		{strings.Replace(full, " nodes=n1", "", 1), 50, Undecided},
		{full + "\n1.2 nemesis begin stall node=machine\n1.9 nemesis end stall node=machine", 3, Undecided},
	} {
		if got := judge(newRecord(tale(t, row.params+fmt.Sprintf(tries, row.at))), FaultTolerance); got.Outcome != row.want {
			t.Errorf("%s, granted at %g: %s, want %s: %s", row.params, row.at, got.Outcome, row.want, got.Because)
		}
	}
}

// TestBypassesAgainstDumb counts pairs: one called earlier, the other was granted before it returned.
func TestBypassesAgainstDumb(t *testing.T) {
	h := tale(t, "params clients=c1,c2,c3 nodes=n1")
	for seed := range uint64(300) {
		h.Events = oddTimes(seed)
		r := newRecord(h)
		var all []*facts.Session
		for s := range r.Sessions() {
			all = append(all, s)
		}
		want := 0
		for _, s := range all {
			for _, o := range all {
				until := s.Acquire.Ended()
				if at, dead := r.Gone[s.Client()]; dead {
					until = min(until, at)
				}
				if o.Granted() && o.Acquire.Call.T > s.Acquire.Call.T && o.Acquire.Return.T < until {
					want++
				}
			}
		}
		if got := r.Bypasses; got != want {
			t.Fatalf("seed %d: %d bypasses, want %d", seed, got, want)
		}
	}
}

// oddTimes is three clients that acquire one lock again and again, at odd times.
func oddTimes(seed uint64) []history.Event {
	var events []history.Event
	for c, name := range []string{"c1", "c2", "c3"} {
		at := int64(c)
		for i := range 8 {
			draw := func(n int64) int64 { seed = seed*6364136223846793005 + 1442695040888963407; return int64(seed>>33) % n }
			s := fmt.Sprintf("%s/%d", name, i+1)
			at += 3 * (1 + draw(20))
			events = append(events, history.Event{T: at, Process: name, Type: history.Invoke, Op: history.OpAcquire, Key: "k", Session: s})
			if i == 7 && draw(2) == 0 { // it waits to the end, or is killed
				if at += 3 * (1 + draw(60)); draw(2) == 0 {
					events = append(events, history.Event{T: at, Process: history.Nemesis, Type: history.Begin, Op: facts.Kill, Node: name})
				}
				break
			}
			at += 3 * (1 + draw(60))
			outcome := []history.Type{history.OK, history.OK, history.Fail, history.Info}[draw(4)]
			events = append(events, history.Event{T: at, Process: name, Type: outcome, Op: history.OpAcquire, Key: "k", Session: s})
		}
	}
	for i := range events {
		events[i].N = int64(i + 1)
	}
	history.Sort(events)
	return events
}

// BenchmarkCheckUnderFaults judges a record in which every other holder is cut off
// from all nodes until its lease is over, and others wait.
func BenchmarkCheckUnderFaults(b *testing.B) {
	h := turns(20_000)
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
	if n := judge(newRecord(h), DeadlockFreedom).Occasions; n < 9000 {
		b.Fatalf("%d holders are lost", n)
	}
	for b.Loop() {
		if v := Check(h); v.Assumption != "" {
			b.Fatal(v.Assumption)
		}
	}
}
