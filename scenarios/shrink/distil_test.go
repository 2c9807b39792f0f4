package shrink

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/nemesis"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

// What shows by the instants alone at which a hundred faults come is made small all the same, for the
// record tells which of them were in force: an extension that takes long, and a pause after it.
func TestDistils(t *testing.T) {
	s := read(t, "random-settings", "extending")
	s.Lock.Kind, s.Lock.Mistake = "broken", "extension-elapsed-not-subtracted"
	b := sim.New(kinds.All)
	k := Shrinker{Known: known,
		Run: func(ctx context.Context, s scenario.Scenario, seed uint64) bool {
			return suite.Execute(ctx, b, suite.Job{Scenario: s, Seed: seed, Backend: "sim", Keep: suite.KeepNone}).Code == outcome.ExitOK
		},
		Record: func(ctx context.Context, s scenario.Scenario, seed uint64) (*history.History, checker.Verdict, error) {
			return suite.Record(ctx, b, s, seed)
		}}
	var first Result
	for _, workers := range []int{1, 3} {
		k.Workers = workers
		r, err := k.Shrink(t.Context(), s, 9, Bug{verdict.MutualExclusion, verdict.GivenShorter})
		if err != nil {
			t.Fatal(err)
		}
		if r.Before.Steps < 100 || r.After.Steps != 2 || r.After.Clients != 2 || r.After.Nodes != 1 || r.Runs > 300 || !r.Whole {
			t.Errorf("%d workers: %s", workers, r.Caption())
		}
		if workers == 1 {
			first = r
		} else if !reflect.DeepEqual(r, first) {
			t.Errorf("%d workers: %s\none: %s", workers, r.Caption(), first.Caption())
		}
	}
	if plan := first.Scenario.Plan; !strings.HasPrefix(Tell(plan[0]), "extend reply 1 on c1-n1: c1 is paused") || !strings.HasPrefix(Tell(plan[1]), "c1 extended: c1 is paused") {
		t.Errorf("%s", first.Caption())
	}
}

// The plan that is made of a record has what was in force in the span of the harm, for as long as it
// was, and upon what its victim did last.
func TestPlanOfARecord(t *testing.T) {
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	lasts := func(n int64) *time.Duration { d := time.Duration(ms(n)); return &d }
	at := func(n int64) nemesis.Trigger { return nemesis.Trigger{At: lasts(n)} }
	fault := func(kind, target string, d *time.Duration) nemesis.Fault {
		return nemesis.Fault{Kind: kind, Targets: []string{target}, For: d}
	}
	s := scenario.Scenario{Topology: scenario.Topology{Nodes: 1}, Clients: []scenario.Client{{Name: "c1"}, {Name: "c2"}}, Plan: nemesis.Plan{
		{When: at(10), Fault: fault("pause", "c1", lasts(10))},                                                                                                    // over before
		{When: at(0), Fault: fault("clock-jump", "n1", nil)},                                                                                                      // how things are
		{When: at(120), Fault: nemesis.Fault{Kind: "gc", Targets: []string{"c1"}, Every: nemesis.Span{Min: 1, Max: 2}}, Drawn: true},                              // twice in the span
		{When: at(90), Fault: fault("kill", "n1", lasts(40))},                                                                                                     // begins before it
		{When: nemesis.Trigger{Message: &nemesis.OnMessage{Link: "c2-n1", Message: "set", Of: "reply", Nth: 7}}, Fault: nemesis.Fault{Kind: "drop"}},              // for ever
		{When: nemesis.Trigger{Point: &nemesis.OnPoint{Client: "c1", Point: "after-acquire", Nth: 3}}, Fault: fault("pause", "c1", lasts(500))},                   // goes on
		{When: at(250), Fault: fault("pause", "c1", lasts(10))},                                                                                                   // after it
		{When: nemesis.Trigger{Message: &nemesis.OnMessage{Link: "c2-n1", Message: "set", Of: "reply", Nth: 1}}, Fault: nemesis.Fault{Kind: "drop"}, Drawn: true}, // before it
	}}
	var events []history.Event
	add := func(e history.Event) { e.N = int64(len(events) + 1); events = append(events, e) }
	begin := func(t int64, step int, target string) {
		add(history.Event{T: ms(t), Process: history.Nemesis, Type: history.Begin, Step: step, Node: target, Op: "pause"})
	}
	end := func(t int64, step int, target string) {
		add(history.Event{T: ms(t), Process: history.Nemesis, Type: history.End, Step: step, Node: target, Op: "pause"})
	}
	begin(0, 2, "n1")
	begin(10, 1, "c1")
	end(20, 1, "c1")
	begin(30, 8, "c2-n1")
	begin(90, 4, "n1")
	add(history.Event{T: ms(102), Process: "c1-n1", Type: history.OK, Op: history.OpSet, Token: "t1", Sent: ms(100), Applied: ms(101)})
	add(history.Event{T: ms(102), Process: "c1", Type: history.OK, Op: history.OpAcquire, Session: "c1/2", Token: "t1"})
	begin(121, 3, "c1")
	end(125, 3, "c1")
	end(130, 4, "n1")
	add(history.Event{T: ms(142), Process: "c1", Type: history.OK, Op: history.OpExtend, Session: "c1/2"})
	begin(143, 3, "c1")
	begin(150, 5, "c2-n1")
	begin(160, 6, "c1")
	end(163, 3, "c1")
	add(history.Event{T: ms(200), Process: "c2", Type: history.OK, Op: history.OpAcquire, Session: "c2/1", Token: "t2"})
	begin(250, 7, "c1")
	end(260, 7, "c1")
	end(660, 6, "c1")
	l := lookAt(events, &verdict.Witness{Sessions: []string{"c1/2", "c2/1"}, From: ms(200), To: ms(300)})
	if l.from != ms(100) || l.to != ms(200) {
		t.Errorf("the span is %d to %d", l.from, l.to)
	}
	for nearest, want := range [][]string{{
		"at 0s: the clock of n1 goes wrong",
		"set request 1 on c1-n1: n1 is killed (for 30ms)",
		"19ms after c1 acquired: c1 is paused (for 4ms), or not",
		"1ms after c1 extended: c1 is paused (for 20ms), or not",
		"set reply 1 on c2-n1: the network loses it",
		"c1 at point after-acquire (time 1): c1 is paused (for 500ms)",
	}, {
		"at 0s: the clock of n1 goes wrong",
		"set request 1 on c1-n1: n1 is killed (for 30ms)",
		"set reply 1 on c1-n1: c1 is paused (for 4ms), or not",
		"41ms after c1 acquired: c1 is paused (for 20ms), or not",
		"set reply 1 on c2-n1: the network loses it",
		"c1 at point after-acquire (time 1): c1 is paused (for 500ms)",
	}} {
		var got []string
		for _, st := range l.plan(s, nearest) {
			got = append(got, Tell(st))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %s\nwant %s", nearest, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
