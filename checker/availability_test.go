package checker

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
)

// TestAvailability draws where c1 reaches a majority of three nodes, a letter a
// second: "#" it does, "." it does not. An end takes another second (the slack),
// and after an outage two more seconds go by until the client must have noticed.
func TestAvailability(t *testing.T) {
	const begin = "params clients=c1,c2 nodes=n1,n2,n3 slack=1s nodeTimeout=500ms retryMax=500ms\n"
	both := func(fault string, from, to int, targets ...string) string {
		var b strings.Builder
		for _, n := range targets {
			fmt.Fprintf(&b, "%d nemesis invoke %s node=%s\n%d.1 nemesis begin %s node=%s\n", from, fault, n, from, fault, n)
			if to > 0 {
				fmt.Fprintf(&b, "%d nemesis end %s node=%s\n", to, fault, n)
			}
		}
		return b.String()
	}
	for _, row := range []struct{ name, faults, want string }{
		{"no fault", "", "####################"},
		{"one node of three", both("kill", 3, 8, "n1"), "####################"},
		{"two nodes of three", both("kill", 3, 8, "n1", "n2"), "###........#########"},
		{"two nodes, one after the other", both("kill", 3, 8, "n1") + both("kill", 6, 12, "n2"), "######.....#########"},
		{"two nodes, never together", both("kill", 3, 6, "n1") + both("kill", 8, 12, "n2"), "####################"},
		{"a node for good, and another", both("kill", 2, 0, "n1") + both("kill", 10, 12, "n3"), "##########.....#####"},
		{"two links", both("cut", 3, 8, "c1-n1", "c1-n3"), "###........#########"},
		{"a link and a node", both("cut", 3, 8, "c1-n1") + both("kill", 3, 8, "n3"), "###........#########"},
		{"a link to a node that is down anyway", both("cut", 3, 8, "c1-n1") + both("kill", 3, 8, "n1"), "####################"},
		{"somebody else's links", both("cut", 3, 8, "c2-n1", "c2-n2", "c2-n3"), "####################"},
		{"the client", both("pause", 3, 8, "c1"), "###........#########"},
		{"the client for good", both("kill", 3, 0, "c1"), "###................."},
		{"another client", both("pause", 3, 8, "c2"), "####################"},
		{"the resource", both("cut", 3, 8, "c1-r1"), "####################"},
		{"a single message", both("hold", 3, 8, "c1-n1", "c1-n2"), "####################"},
		{"a clock", both("clock", 3, 8, "n1"), "###........#########"},
		{"the machine itself", both("stall", 3, 8, "machine"), "###........#########"},
		{"what nobody knows, on anybody", both("earthquake", 3, 8, "c2"), "###........#########"},
		{"what could not be injected", "3 nemesis invoke kill node=n1\n3 nemesis fail kill node=n1\n" + both("kill", 5, 8, "n2"), "#####.............."[:5] + strings.Repeat(".", 6) + "#########"},
		{"back for less than it takes to notice", both("kill", 3, 5, "n1", "n2") + both("kill", 7, 9, "n1", "n2"), "###.........########"},
	} {
		r := newRecord(tale(t, begin+row.faults+"20 harness end run"))
		up := r.settled(r.outages().majority("c1"))
		if got := draw(up); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.name, got, row.want)
		}
	}
}

func draw(list []interval) string {
	var b strings.Builder
	for at := range int64(20) {
		if meets(list, interval{at*1e9 + 5e8, at*1e9 + 5e8 + 1}) {
			b.WriteByte('#')
		} else {
			b.WriteByte('.')
		}
	}
	return b.String()
}

// Who can't reach a node at all needs all the others.
func TestAvailabilityOfOneWhoReachesFewer(t *testing.T) {
	h := tale(t, "params clients=c1 nodes=n1,n2,n3 slack=1s nodeTimeout=500ms retryMax=500ms\n3 nemesis begin kill node=n2\n8 nemesis end kill node=n2\n20 harness end run")
	for _, row := range []struct {
		reach []string
		want  string
	}{
		{[]string{"n1", "n3"}, "####################"},
		{[]string{"n1", "n2"}, "###........#########"},
		{[]string{"n1"}, "...................."},
	} {
		h.Params.Reach = []history.Reach{{Client: "c1", Nodes: row.reach}}
		r := newRecord(h)
		if got := draw(r.settled(r.outages().majority("c1"))); got != row.want {
			t.Errorf("%v:\ngot  %s\nwant %s", row.reach, got, row.want)
		}
	}
}

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
		var all []*session
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
					events = append(events, history.Event{T: at, Process: history.Nemesis, Type: history.Begin, Op: killed, Node: name})
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

func TestJainIndex(t *testing.T) {
	for _, row := range []struct {
		grants []int
		want   float64
	}{
		{[]int{5, 5, 5}, 1},
		{[]int{5, 0, 0}, 1. / 3},
		{[]int{1, 3}, 0.8},
	} {
		if got, ok := jainIndex(row.grants); !ok || math.Abs(got-row.want) > 1e-9 {
			t.Errorf("%v: %g, want %g", row.grants, got, row.want)
		}
	}
	if _, ok := jainIndex([]int{5}); ok {
		t.Error("one client alone has no index")
	}
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
				events = append(events, history.Event{T: e.T + at, Process: history.Nemesis, Type: t, Op: cutOff, Node: e.Process + "-" + n})
			}
		}
	}
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	for i := range events {
		events[i].N = int64(i + 1)
	}
	h.Events = events
	if n := len(newRecord(h).losses()); n < 9000 {
		b.Fatalf("%d holders are lost", n)
	}
	for b.Loop() {
		if v := Check(h); v.Assumption != "" {
			b.Fatal(v.Assumption)
		}
	}
}
