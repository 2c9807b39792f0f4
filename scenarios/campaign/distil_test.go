package campaign

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/nemesis"
	"lockpick/scenarios/outcome"
)

// A bug that depends on the timing of a hundred faults can be minimized because the history shows
// which ones were active: a slow extension, followed by a pause.
func TestDistillPlan(t *testing.T) {
	s := catalogScenario(t, "random-settings", "extending")
	s.Lock.Kind, s.Lock.Mistake = "broken", "extension-elapsed-not-subtracted"
	b := sim.New(kinds.All)
	k := Minimizer{Known: knownKinds,
		Run: func(ctx context.Context, s scenario.Scenario, seed uint64) bool {
			return Execute(ctx, b, Job{Scenario: s, Seed: seed, Backend: "sim", Keep: KeepNone}).Code == outcome.ExitOK
		},
		Record: func(ctx context.Context, s scenario.Scenario, seed uint64) (*history.History, verdict.Verdict, error) {
			return Record(ctx, b, s, seed)
		}}
	k.Workers = 3 // any number does, see TestMinimizeFakeBug
	r, err := k.Minimize(t.Context(), s, 9, Bug{verdict.MutualExclusion, verdict.GivenShorter})
	if err != nil {
		t.Fatal(err)
	}
	if r.SizeBefore.Steps < 100 || r.SizeAfter.Steps != 2 || r.SizeAfter.Clients != 2 || r.SizeAfter.Nodes != 1 || r.Runs > 300 || !r.Complete {
		t.Error(r.Caption())
	}
	if plan := r.Scenario.Plan; !strings.HasPrefix(DescribeStep(plan[0]), "extend reply 1 on c1-n1: c1 is paused") || !strings.HasPrefix(DescribeStep(plan[1]), "c1 extended: c1 is paused") {
		t.Error(r.Caption())
	}
}

func milliseconds(ms int64) *time.Duration { d := time.Duration(ms) * time.Millisecond; return &d }

// recordedPlan returns the plan behind the history in TestPlanFromHistory.
func recordedPlan() nemesis.Plan {
	timedStep := func(ms int64, kind, target string, d *time.Duration) nemesis.Step {
		return nemesis.Step{When: nemesis.Trigger{At: milliseconds(ms)}, Fault: nemesis.Fault{Kind: kind, Targets: []string{target}, For: d}}
	}
	drop := func(nth int) nemesis.Step {
		return nemesis.Step{When: nemesis.Trigger{Message: &nemesis.OnMessage{Link: "c2-n1", Message: "set", Of: "reply", Nth: nth}}, Fault: nemesis.Fault{Kind: "drop"}}
	}
	gc := timedStep(120, "gc", "c1", nil)
	gc.Fault.Every, gc.Drawn = nemesis.Span{Min: 1, Max: 2}, true
	point := timedStep(0, "pause", "c1", milliseconds(500))
	point.When = nemesis.Trigger{Point: &nemesis.OnPoint{Client: "c1", Point: "after-acquire", Nth: 3}}
	return nemesis.Plan{
		timedStep(10, "pause", "c1", milliseconds(10)), // ends before the span
		timedStep(0, "clock-jump", "n1", nil),          // active throughout the span
		gc,                                             // twice in the span
		timedStep(90, "kill", "n1", milliseconds(40)), // begins before the span
		drop(7), // in the span, without an end
		point,   // ends after the span
		timedStep(250, "pause", "c1", milliseconds(10)), // begins after the span
		drop(1), // before the span
	}
}

// The plan contains the faults that were active in the violation's span, with their durations, each
// triggered by its victim's last action.
func TestPlanFromHistory(t *testing.T) {
	s := scenario.Scenario{Topology: scenario.Topology{Nodes: 1}, Clients: []scenario.Client{{Name: "c1"}, {Name: "c2"}}, Plan: recordedPlan()}
	h := &history.History{}
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	add := func(t int64, e history.Event) {
		e.N, e.T = int64(len(h.Events)+1), ms(t)
		h.Events = append(h.Events, e)
	}
	addFault := func(t int64, typ history.Type, step int, target string) {
		add(t, history.Event{Process: history.Nemesis, Type: typ, Step: step, Node: target, Op: s.Plan[step-1].Fault.Kind})
	}
	addFault(0, history.Begin, 2, "n1")
	addFault(10, history.Begin, 1, "c1")
	addFault(20, history.End, 1, "c1")
	addFault(30, history.Begin, 8, "c2-n1")
	addFault(90, history.Begin, 4, "n1")
	add(102, history.Event{Process: "c1-n1", Type: history.OK, Op: history.OpSet, Token: "t1", SentAt: ms(100), AppliedAt: ms(101)})
	add(102, history.Event{Process: "c1", Type: history.OK, Op: history.OpAcquire, Session: "c1/2", Token: "t1"})
	addFault(121, history.Begin, 3, "c1")
	addFault(125, history.End, 3, "c1")
	addFault(130, history.End, 4, "n1")
	add(142, history.Event{Process: "c1", Type: history.OK, Op: history.OpExtend, Session: "c1/2"})
	addFault(143, history.Begin, 3, "c1")
	addFault(150, history.Begin, 5, "c2-n1")
	addFault(160, history.Begin, 6, "c1")
	addFault(163, history.End, 3, "c1")
	add(200, history.Event{Process: "c2", Type: history.OK, Op: history.OpAcquire, Session: "c2/1", Token: "t2"})
	addFault(250, history.Begin, 7, "c1")
	addFault(260, history.End, 7, "c1")
	addFault(660, history.End, 6, "c1")
	l := newViolationRecord(h, &verdict.Witness{Sessions: []string{"c1/2", "c2/1"}, From: ms(200), To: ms(300)})
	if l.from != ms(100) || l.to != ms(200) {
		t.Errorf("span from %d to %d", l.from, l.to)
	}
	common := []string{"at 0s: the clock of n1 goes wrong", "set request 1 on c1-n1: n1 is killed (for 30ms)", "", "",
		"set reply 1 on c2-n1: the network loses it", "c1 at point after-acquire (time 1): c1 is paused (for 500ms)"}
	for nearest, gc := range [][]string{
		{"19ms after c1 acquired: c1 is paused (for 4ms), with some probability", "1ms after c1 extended: c1 is paused (for 20ms), with some probability"},
		{"set reply 1 on c1-n1: c1 is paused (for 4ms), with some probability", "41ms after c1 acquired: c1 is paused (for 20ms), with some probability"},
	} {
		want := slices.Concat(common[:2], gc, common[4:])
		var got []string
		for _, st := range l.planOf(s, nearest) {
			got = append(got, DescribeStep(st))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("nearest %d: %s\nwant %s", nearest, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
