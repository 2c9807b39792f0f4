//go:build long && !windows

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/nemesis"
)

// trace is all that a simulated run leaves: its history, and a digest of every
// message with its instants of sending and of delivery.
type trace struct {
	history []byte
	wire    uint64
}

func simulate(s harness.Scenario, seed uint64) (tr trace, err error) {
	var out bytes.Buffer
	b := sim.New(kinds.All)
	b.Digest = func(d uint64) { tr.wire = d }
	err = harness.Run(context.Background(), b, s, seed, history.NewRecorder(&out))
	tr.history = out.Bytes()
	return tr, err
}

// differs says what two traces don't have in common, "" if they are the same.
func (tr trace) differs(o trace) string {
	a, b := bytes.Split(tr.history, []byte("\n")), bytes.Split(o.history, []byte("\n"))
	for n := range max(len(a), len(b)) {
		if line(a, n) != line(b, n) {
			return fmt.Sprintf("line %d of the history:\n  %s\n  %s", n+1, line(a, n), line(b, n))
		}
	}
	if tr.wire != o.wire {
		return "the wire, though not the history"
	}
	return ""
}

// storm is a scenario of five clients in which everything that can go wrong does,
// often at once: what its plan is depends on the seed alone.
func storm(t *testing.T, seed uint64) harness.Scenario {
	t.Helper()
	found, err := choice{names: []string{"baseline/"}, sets: []string{
		"workload={think: 5ms..200ms, hold: 10ms..500ms, for: 15s}", "lock.ttl=2s"}}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	s := found[0].Scenario
	s.Name, s.Limit = "storm", 40*time.Second
	r := rand.New(rand.NewPCG(seed, 0))
	span := func(most time.Duration) *time.Duration { d := time.Duration(r.Int64N(int64(most))); return &d }
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	client := func() string { return pick("c1", "c2", "c3", "c4", "c5") }
	server := func() string { return pick("n1", "n2", "n3", "n4", "n5") }
	plan := func(w nemesis.Trigger, f nemesis.Fault) { s.Plan = append(s.Plan, nemesis.Step{When: w, Fault: f}) }
	for range 6 {
		plan(nemesis.Trigger{At: span(15 * time.Second)}, nemesis.Fault{Kind: "pause", Targets: []string{client()}, For: span(3 * time.Second)})
		plan(nemesis.Trigger{At: span(15 * time.Second)}, nemesis.Fault{Kind: "kill", Targets: []string{server()}, For: span(2 * time.Second)})
		plan(nemesis.Trigger{At: span(15 * time.Second)}, nemesis.Fault{Kind: "cut", Targets: []string{pick(client(), server(), "r1")}, For: span(2 * time.Second)})
		on := &nemesis.OnMessage{Link: client() + "-" + server(), Message: pick("set", "release"), Of: pick("request", "reply"), Nth: 1 + r.IntN(20)}
		plan(nemesis.Trigger{Message: on}, nemesis.Fault{Kind: pick("hold", "cut"), Targets: []string{on.Link}, For: span(3 * time.Second)})
		on = &nemesis.OnMessage{Link: client() + "-r1", Message: "write", Of: pick("request", "reply"), Nth: 1 + r.IntN(10)}
		plan(nemesis.Trigger{Message: on}, nemesis.Fault{Kind: "pause", Targets: []string{client()}, For: span(3 * time.Second)})
		seen := &nemesis.Event{Client: client(), Event: pick("acquiring", "acquired", "writing", "releasing"), Nth: 1 + r.IntN(8), After: *span(time.Second)}
		plan(nemesis.Trigger{Event: seen}, nemesis.Fault{Kind: "pause", Targets: []string{client(), client()}, For: span(time.Second)})

		at := func() nemesis.Trigger { return nemesis.Trigger{At: span(15 * time.Second)} }
		where := func() []string { return []string{pick(client(), server(), client()+"-r1")} }
		way := pick("", "", "request", "reply")
		plan(at(), nemesis.Fault{Kind: "cut", Mode: pick("hold", "drop"), Way: way, Targets: where(), For: span(2 * time.Second)})
		plan(at(), nemesis.Fault{Kind: "cut", Mode: pick("reset", "refuse"), Targets: where(), For: span(2 * time.Second)})
		plan(at(), nemesis.Fault{Kind: "delay", Mode: pick("even", "heavy-tailed"), Delay: nemesis.Span{Min: time.Millisecond, Max: *span(time.Second) + time.Millisecond},
			Share: r.Float64(), Way: way, Targets: where(), For: span(3 * time.Second)})
		plan(at(), nemesis.Fault{Kind: "throttle", Bandwidth: 500 + r.IntN(5000), Way: way, Targets: where(), For: span(3 * time.Second)})
		plan(at(), nemesis.Fault{Kind: "lose", Share: 0.3 * r.Float64(), Way: way, Targets: where(), For: span(3 * time.Second)})
		lost := &nemesis.OnMessage{Link: client() + "-" + server(), Message: pick("set", "release"), Of: pick("request", "reply"), Nth: 1 + r.IntN(20)}
		plan(nemesis.Trigger{Message: lost}, nemesis.Fault{Kind: "drop"})
	}
	plan(nemesis.Trigger{At: span(15 * time.Second)}, nemesis.Fault{Kind: "kill", Targets: []string{"c5"}})
	plan(nemesis.Trigger{At: span(15 * time.Second)}, nemesis.Fault{Kind: "kill", Targets: []string{client()}})
	return s
}

var pairs = flag.Uint64("pairs", 5, "seeds of each scenario that are run twice; of storms eight times as many")

// Every scenario and variant, and storms, each seed twice: on one processor, and
// on two with a garbage collector that interrupts all the time. What the
// scheduler does must not show, not even in the instants of messages.
func TestEverySeedTwice(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	picks, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	var all []harness.Scenario
	for _, p := range picks {
		all = append(all, p.Scenario)
	}
	for seed := uint64(1); seed <= *pairs; seed++ {
		for _, s := range all {
			twice(t, s, seed)
		}
	}
	for seed := uint64(1); seed <= 8**pairs; seed++ {
		twice(t, storm(t, seed), seed)
		twice(t, library(storm(t, seed), false), seed)
		if seed <= *pairs { // they take ten times as long
			twice(t, library(storm(t, seed), true), seed)
		}
	}
}

// library is a scenario with a lock that nobody changed, in the run's bubble, or,
// where clocks run fast and slow, with a bubble for each client.
func library(s harness.Scenario, skewed bool) harness.Scenario {
	s.Lock.Kind = "redsync"
	for i, client := range s.ClientNames() {
		if begin, lasts := time.Duration(i)*2*time.Second, 7*time.Second; skewed {
			s.Plan = append(s.Plan, nemesis.Step{When: nemesis.Trigger{At: &begin}, Fault: nemesis.Fault{
				Kind: "clock-rate", Targets: []string{client}, Rate: 0.6 + 0.25*float64(i), For: &lasts}})
		}
	}
	return s
}

// twice runs a scenario twice and complains if the runs differ.
func twice(t *testing.T, s harness.Scenario, seed uint64) {
	t.Helper()
	run := func(procs, gc int) trace {
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(gc)
		tr, err := simulate(s, seed)
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	if d := run(1, 100).differs(run(2, 5)); d != "" {
		t.Errorf("%s seed %d differs in %s", s.ID(), seed, d)
	}
}

// A thousand random plans, half of them within the assumptions, each twice.
func TestThousandRandomPlansTwice(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	picks, err := choice{names: []string{"random-faults/", "random-within-assumptions/"}}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	for seed := uint64(1); seed <= 1000; seed++ {
		twice(t, picks[seed%2].Scenario, seed)
	}
}
