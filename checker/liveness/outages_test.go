package liveness

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
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
		{"the host", both("stall", 3, 8, "machine"), "####################"},
		{"what nobody knows, on anybody", both("earthquake", 3, 8, "c2"), "###........#########"},
		{"what could not be injected", "3 nemesis invoke kill node=n1\n3 nemesis fail kill node=n1\n" + both("kill", 5, 8, "n2"), "#####.............."[:5] + strings.Repeat(".", 6) + "#########"},
		{"back for less than it takes to notice", both("kill", 3, 5, "n1", "n2") + both("kill", 7, 9, "n1", "n2"), "###.........########"},
	} {
		r := conditionsOf(facts.Read(histories.Story(begin + row.faults + "20 harness end run")))
		up := r.down.settled(r.down.majority("c1"))
		if got := draw(up); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.name, got, row.want)
		}
	}
}

func draw(list []spans.Span) string {
	var b strings.Builder
	for at := range int64(20) {
		if spans.Meets(list, spans.Of(at*1e9+5e8, at*1e9+5e8+1)) {
			b.WriteByte('#')
		} else {
			b.WriteByte('.')
		}
	}
	return b.String()
}

// Who can't reach a node at all needs all the others.
func TestAvailabilityOfOneWhoReachesFewer(t *testing.T) {
	h := histories.Story("params clients=c1 nodes=n1,n2,n3 slack=1s nodeTimeout=500ms retryMax=500ms\n3 nemesis begin kill node=n2\n8 nemesis end kill node=n2\n20 harness end run")
	for _, row := range []struct {
		reach []string
		want  string
	}{
		{[]string{"n1", "n3"}, "####################"},
		{[]string{"n1", "n2"}, "###........#########"},
		{[]string{"n1"}, "...................."},
	} {
		h.Params.Reach = []history.Reach{{Client: "c1", Nodes: row.reach}}
		r := conditionsOf(facts.Read(h))
		if got := draw(r.down.settled(r.down.majority("c1"))); got != row.want {
			t.Errorf("%v:\ngot  %s\nwant %s", row.reach, got, row.want)
		}
	}
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

// A link that is late takes its answers away where they can't come in time.
func TestDelayThatTakesLittle(t *testing.T) {
	for delay, want := range map[time.Duration]string{
		0:                      "###........#########",
		20 * time.Millisecond:  "####################",
		249 * time.Millisecond: "####################",
		250 * time.Millisecond: "###........#########",
	} {
		h := histories.Story(`params clients=c1 nodes=n1 slack=1s nodeTimeout=500ms retryMax=500ms
step 1 delay c1-n1 at 3s
3 nemesis begin delay node=c1-n1 step=1
8 nemesis end delay node=c1-n1 step=1
20 harness end run`)
		h.Params.Steps[0].Delay = delay
		r := conditionsOf(facts.Read(h))
		if got := draw(r.down.settled(r.down.majority("c1"))); got != want {
			t.Errorf("%v late:\ngot  %s\nwant %s", delay, got, want)
		}
	}
}
