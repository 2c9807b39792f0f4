package liveness

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

// TestAvailability draws when c1 reaches a majority of three nodes, one character per second: "#"
// if it does, "." if not. A fault's end takes another second (the slack), and after an outage the
// client has two more seconds to notice.
func TestAvailability(t *testing.T) {
	const begin = "params clients=c1,c2 nodes=n1,n2,n3 slack=1s nodeTimeout=500ms retryMax=500ms\n"
	faultEvents := func(fault string, from, to int, targets ...string) string {
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
		{"one node of three", faultEvents("kill", 3, 8, "n1"), "####################"},
		{"two nodes of three", faultEvents("kill", 3, 8, "n1", "n2"), "###........#########"},
		{"two nodes, overlapping", faultEvents("kill", 3, 8, "n1") + faultEvents("kill", 6, 12, "n2"), "######.....#########"},
		{"two nodes, not at the same time", faultEvents("kill", 3, 6, "n1") + faultEvents("kill", 8, 12, "n2"), "####################"},
		{"one node permanently, then another", faultEvents("kill", 2, 0, "n1") + faultEvents("kill", 10, 12, "n3"), "##########.....#####"},
		{"two links", faultEvents("cut", 3, 8, "c1-n1", "c1-n3"), "###........#########"},
		{"a link and a node", faultEvents("cut", 3, 8, "c1-n1") + faultEvents("kill", 3, 8, "n3"), "###........#########"},
		{"a link to a node that is down anyway", faultEvents("cut", 3, 8, "c1-n1") + faultEvents("kill", 3, 8, "n1"), "####################"},
		{"another client's links", faultEvents("cut", 3, 8, "c2-n1", "c2-n2", "c2-n3"), "####################"},
		{"the client", faultEvents("pause", 3, 8, "c1"), "###........#########"},
		{"the client permanently", faultEvents("kill", 3, 0, "c1"), "###................."},
		{"another client", faultEvents("pause", 3, 8, "c2"), "####################"},
		{"the resource", faultEvents("cut", 3, 8, "c1-r1"), "####################"},
		{"a single message", faultEvents("hold", 3, 8, "c1-n1", "c1-n2"), "####################"},
		{"a node's clock", faultEvents("clock", 3, 8, "n1"), "###........#########"},
		{"the host", faultEvents("stall", 3, 8, "machine"), "####################"},
		{"unknown fault on another client", faultEvents("earthquake", 3, 8, "c2"), "###........#########"},
		{"fault that could not be injected", "3 nemesis invoke kill node=n1\n3 nemesis fail kill node=n1\n" + faultEvents("kill", 5, 8, "n2"), "#####.............."[:5] + strings.Repeat(".", 6) + "#########"},
		{"up for less time than clients need to notice", faultEvents("kill", 3, 5, "n1", "n2") + faultEvents("kill", 7, 9, "n1", "n2"), "###.........########"},
	} {
		r := newConditions(facts.Read(histories.MustParse(begin + row.faults + "20 harness end run")))
		available := r.outages.trimRecovery(r.outages.majority("c1"))
		if got := draw(available); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.name, got, row.want)
		}
	}
}

func draw(list []spans.Span) string {
	var b strings.Builder
	for at := range int64(20) {
		if spans.Meets(list, spans.New(at*1e9+5e8, at*1e9+5e8+1)) {
			b.WriteByte('#')
		} else {
			b.WriteByte('.')
		}
	}
	return b.String()
}

// A client that can never reach one of three nodes needs both of the other nodes.
func TestAvailabilityWithUnreachableNode(t *testing.T) {
	h := histories.MustParse("params clients=c1 nodes=n1,n2,n3 slack=1s nodeTimeout=500ms retryMax=500ms\n3 nemesis begin kill node=n2\n8 nemesis end kill node=n2\n20 harness end run")
	for _, row := range []struct {
		reach []string
		want  string
	}{
		{[]string{"n1", "n3"}, "####################"},
		{[]string{"n1", "n2"}, "###........#########"},
		{[]string{"n1"}, "...................."},
	} {
		h.Params.Reach = []history.Reach{{Client: "c1", Nodes: row.reach}}
		r := newConditions(facts.Read(h))
		if got := draw(r.outages.trimRecovery(r.outages.majority("c1"))); got != row.want {
			t.Errorf("%v:\ngot  %s\nwant %s", row.reach, got, row.want)
		}
	}
}

// TestIsolatedSpansAgainstNaive compares the spans during which a client was cut off from a
// majority with a count of its links at each instant. A client that can never reach a majority is
// not cut off.
func TestIsolatedSpansAgainstNaive(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	numCutOff, numNeverConnected := 0, 0
	for range 2000 {
		nodes := histories.NumberedNames("n", 1+rnd.IntN(5))
		faultOutages := &outages{nodes: nodes, quorum: 1 + rnd.IntN(len(nodes)), reachable: map[string]map[string]bool{}}
		if rnd.IntN(2) == 0 {
			faultOutages.reachable["c1"] = map[string]bool{}
			for _, n := range nodes {
				faultOutages.reachable["c1"][n] = rnd.IntN(3) > 0
			}
		}
		var cuts []*facts.Fault
		for range rnd.IntN(8) {
			f := &facts.Fault{Kind: facts.Cut, Target: "c1-" + nodes[rnd.IntN(len(nodes))], Begin: &history.Event{T: rnd.Int64N(20)}}
			if rnd.IntN(4) > 0 {
				f.End = &history.Event{T: f.Begin.T + rnd.Int64N(8)}
			}
			cuts = append(cuts, f)
		}
		numReachable := func(at int64) (n int) {
			for _, node := range nodes {
				isUp := !faultOutages.neverReaches("c1", node)
				for _, f := range cuts {
					isUp = isUp && !(f.Target == "c1-"+node && f.Begin.T <= at && (f.End == nil || at < f.End.T))
				}
				if isUp {
					n++
				}
			}
			return n
		}
		got := isolatedSpans(faultOutages, "c1", cuts)
		for at := int64(-1); at < 30; at++ {
			want := numReachable(at) < faultOutages.quorum && numReachable(-1) >= faultOutages.quorum
			if spans.Meets(got, spans.New(at, at+1)) != want {
				t.Fatalf("at %d in %v: cut off = %v, want %v; %d of %d nodes are reachable, quorum %d", at, got, !want, want, numReachable(at), len(nodes), faultOutages.quorum)
			}
			if want {
				numCutOff++
			}
		}
		if numReachable(-1) < faultOutages.quorum {
			numNeverConnected++
		}
	}
	if numCutOff < 2000 || numNeverConnected < 100 {
		t.Errorf("cut off at %d instants, never connected in %d cases: too few for a meaningful comparison", numCutOff, numNeverConnected)
	}
}

// A key kept by a fault stays until it is deleted or lapses a TTL after its last extension.
func TestKeptKeys(t *testing.T) {
	const holder = `params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms
0 c1 begin client
1 c1 invoke acquire session=c1/1
1.01 c1-n1 ok set token=A sent=1.001 applied=1.005 answered=1.01
1.01 c1 ok acquire session=c1/1 token=A until=11
`
	const extension = "5 c1 invoke extend session=c1/1\n5.01 c1-n1 ok extend token=A sent=5.001 applied=5.005 answered=5.01\n5.01 c1 ok extend session=c1/1 until=15\n"
	const death = "6 nemesis begin kill node=c1\n"
	const lostRelease = "6.9 nemesis begin cut node=c1-n1\n7 c1 invoke release session=c1/1\n7.2 c1 info release session=c1/1\n"
	const lateRelease = "7 c1 invoke release session=c1/1\n7.01 c1 info release session=c1/1\n8 nemesis begin cut node=c1-n1\n" +
		"8.1 c1 invoke release session=c1/1\n8.3 c1 info release session=c1/1\n"
	for name, row := range map[string]struct {
		text string
		want string
	}{
		"holder running":                       {holder, ""},
		"holder died":                          {holder + death, "from 1.005 s to 11.005 s (10 s)"},
		"holder extended it and died":          {holder + extension + death, "from 1.005 s to 15.005 s (14 s)"},
		"release lost":                         {holder + lostRelease, "from 7 s to 11.005 s (4.005 s)"},
		"extended, release lost":               {holder + extension + lostRelease, "from 7 s to 15.005 s (8.005 s)"},
		"second of two releases lost":          {holder + lateRelease, "from 7 s to 11.005 s (4.005 s)"},
		"deleted late, after a cut had healed": {holder + lostRelease + "8 nemesis end cut node=c1-n1\n8.5 c1-n1 ok release token=A sent=7.1 applied=8.4 answered=8.5\n", "from 7 s to 8.4 s (1.4 s)"},
	} {
		r := facts.Read(histories.MustParse(row.text + "20 harness end run"))
		byFault, byHost := findKeptKeys(newConditions(r), r.AttemptsByLock()["lock-1"])
		got := ""
		for _, s := range byFault["n1"] {
			got += facts.FromTo(s.From, s.To)
		}
		if got != row.want || len(byHost) > 0 || r.Defect != "" {
			t.Errorf("%s: kept by a fault %q, want %q; kept by a slow host %v, want none %s", name, got, row.want, byHost, r.Defect)
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
		t.Error("jainIndex returned an index for a single client")
	}
}

// A delayed link counts as down unless answers can arrive within the node timeout.
func TestDelayWithinNodeTimeout(t *testing.T) {
	for delay, want := range map[time.Duration]string{
		0:                      "###........#########",
		20 * time.Millisecond:  "####################",
		249 * time.Millisecond: "####################",
		250 * time.Millisecond: "###........#########",
	} {
		h := histories.MustParse(`params clients=c1 nodes=n1 slack=1s nodeTimeout=500ms retryMax=500ms
step 1 delay c1-n1 at 3s
3 nemesis begin delay node=c1-n1 step=1
8 nemesis end delay node=c1-n1 step=1
20 harness end run`)
		h.Params.Steps[0].Delay = delay
		r := newConditions(facts.Read(h))
		if got := draw(r.outages.trimRecovery(r.outages.majority("c1"))); got != want {
			t.Errorf("delay %v:\ngot  %s\nwant %s", delay, got, want)
		}
	}
}
