package campaign

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/nemesis"
	"lockpick/scenarios"
	"lockpick/scenarios/outcome"
)

var knownKinds = KnownLocks(kinds.All)

// catalogScenario returns a variant of a scenario in the catalog.
func catalogScenario(t *testing.T, name, variant string) scenario.Scenario {
	t.Helper()
	text, err := scenarios.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	all, err := scenario.Parse(name, text, knownKinds)
	if err != nil {
		t.Fatal(err)
	}
	return all[slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.Variant == variant })]
}

var forgotBug = Bug{verdict.MutualExclusion, verdict.RestartedAndForgot}

// fakeRun shows a fake bug if the scenario has at least two clients, kills a node, and pauses a
// client for at least two seconds.
func fakeRun(_ context.Context, s scenario.Scenario, _ uint64) bool {
	kill, pause := false, false
	for _, st := range s.Plan {
		kill = kill || st.Fault.Kind == "kill" && strings.HasPrefix(st.Fault.Targets[0], "n")
		pause = pause || st.Fault.Kind == "pause" && strings.HasPrefix(st.Fault.Targets[0], "c") && st.Fault.For != nil && *st.Fault.For >= 2*time.Second
	}
	return kill && pause && len(s.Clients) >= 2
}

// seedShowingFake returns a seed for which fakeRun shows the bug.
func seedShowingFake(t *testing.T, s scenario.Scenario) uint64 {
	for seed := uint64(1); seed < 200; seed++ {
		if fakeRun(t.Context(), s.WithRandomPlan(seed), seed) {
			return seed
		}
	}
	t.Fatal("no seed shows the bug")
	return 0
}

// The result is minimal and does not depend on the number of workers.
func TestMinimizeFakeBug(t *testing.T) {
	s := catalogScenario(t, "random-faults", "")
	seed := seedShowingFake(t, s)
	var first Minimized
	for _, workers := range []int{1, 2, 7} {
		r, err := Minimizer{Known: knownKinds, Run: fakeRun, Workers: workers}.Minimize(t.Context(), s, seed, forgotBug)
		if err != nil {
			t.Fatal(err)
		}
		if want := (scenarioSize{Steps: 2, Targets: 2, Clients: 2, Nodes: 1, Keys: 1}); r.SizeAfter != want || r.SizeBefore.Steps < 20 {
			t.Errorf("%d workers: %+v -> %+v", workers, r.SizeBefore, r.SizeAfter)
		}
		if !r.Complete || r.ReproducingSeeds != robustnessSeeds || r.Seed != 1 || r.OriginalSeed != seed {
			t.Errorf("%d workers: %s", workers, r.Caption())
		}
		for _, st := range r.Scenario.Plan {
			if st.Drawn || st.When.Before > 0 {
				t.Errorf("%d workers: %s is optional", workers, DescribeStep(st))
			}
			if f := st.Fault; f.Kind == "pause" && *f.For != 2560*time.Millisecond && *f.For != 3*time.Second && *f.For != 2*time.Second {
				t.Errorf("%d workers: a pause of %v is not round", workers, *f.For)
			}
		}
		if workers == 1 {
			first = r
		} else if !reflect.DeepEqual(r, first) {
			t.Errorf("%d workers: %s\none worker: %s", workers, r.Caption(), first.Caption())
		}
	}
}

func TestMinimizeErrors(t *testing.T) {
	s := catalogScenario(t, "baseline", "")
	k := Minimizer{Known: knownKinds, Run: func(context.Context, scenario.Scenario, uint64) bool { return false }, Workers: 2}
	if _, err := k.Minimize(t.Context(), s, 1, forgotBug); err == nil || !strings.Contains(err.Error(), "does not violate mutual-exclusion (restarted-and-forgot) with seed 1") {
		t.Error(err)
	}
	ctx, end := context.WithCancel(t.Context())
	k.Run = func(context.Context, scenario.Scenario, uint64) bool { end(); return true }
	if _, err := k.Minimize(ctx, s, 1, forgotBug); err != context.Canceled {
		t.Error(err)
	}
	s = catalogScenario(t, "random-faults", "")
	k = Minimizer{Known: knownKinds, Run: fakeRun, Workers: 2, MaxRuns: 5}
	r, err := k.Minimize(t.Context(), s, seedShowingFake(t, s), forgotBug)
	if err != nil || r.Runs != 5 || r.Complete || !strings.Contains(r.Summary(), "more runs might make it smaller") {
		t.Errorf("%d runs, complete %v, %s, %v", r.Runs, r.Complete, r.Summary(), err)
	}
}

// Three losses at different times on five nodes are reduced to one loss on a single node, and the
// file written shows the same bug.
func TestMinimizeSimulatedRun(t *testing.T) {
	b := sim.New(kinds.All)
	run := func(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome {
		return Execute(ctx, b, Job{Scenario: s, Seed: seed, Backend: "sim", Keep: KeepNone})
	}
	k := Minimizer{Known: knownKinds, Workers: 2, Run: func(ctx context.Context, s scenario.Scenario, seed uint64) bool {
		return run(ctx, s, seed).Code == outcome.ExitOK
	}}
	for name, want := range map[string]struct {
		steps string
		shows int // minimum
	}{"restart-forgets": {"1 step", 20}, "keys-lost-one-by-one": {"3 steps", 10}} {
		t.Run(name, func(t *testing.T) {
			r, err := k.Minimize(t.Context(), catalogScenario(t, name, ""), 1, forgotBug)
			if err != nil {
				t.Fatal(err)
			}
			if r.SizeAfter.Steps != 1 || r.SizeAfter.Clients != 2 || r.SizeAfter.Nodes != 1 || r.Scenario.Plan[0].Fault.Kind != "kill" || r.ReproducingSeeds < want.shows {
				t.Errorf("%s: %s", r.Bug, r.Caption())
			}
			text, err := r.Write("small", knownKinds)
			if err != nil {
				t.Fatal(err)
			}
			all, err := scenario.Parse("small.yaml", text, knownKinds)
			if err != nil {
				t.Fatal(err)
			}
			if o := run(t.Context(), all[0], r.Seed); o.Code != outcome.ExitOK {
				t.Errorf("the file gives %+v\n%s", o.Judgements, text)
			}
			for _, line := range []string{"# mutual-exclusion (restarted-and-forgot) in the lock redlock, 2 clients on 1 node:\n", "n1 is killed (for 10ms)\n",
				"# Minimized from " + name + ", seed 1: " + want.steps + " -> 1, 5 nodes -> 1,", "  mutual-exclusion: {violated: restarted-and-forgot}\n"} {
				if !strings.Contains(string(text), line) {
					t.Errorf("no %q in\n%s", line, text)
				}
			}
		})
	}
}

// Removing a client or a node also removes its settings and steps, but nothing else. Renaming
// changes the name everywhere.
func TestRemoveNamesAndRename(t *testing.T) {
	at := time.Second
	s := scenario.Scenario{
		Topology: scenario.Topology{Nodes: 3, Addresses: []string{"n1", "n2"}},
		Clients:  []scenario.Client{{Name: "c1", Reach: []string{"n2"}}, {Name: "c2", Start: &nemesis.Event{Client: "c1"}}, {Name: "c3"}},
		Plan: nemesis.Plan{
			{When: nemesis.Trigger{At: &at}, Fault: nemesis.Fault{Kind: "pause", Targets: []string{"c1", "c3"}}},
			{When: nemesis.Trigger{At: &at}, Fault: nemesis.Fault{Kind: "cut", Targets: []string{"c1-n2"}}},
			{When: nemesis.Trigger{Point: &nemesis.OnPoint{Client: "c1"}}, Fault: nemesis.Fault{Kind: "kill", Targets: []string{"n3"}}},
			{When: nemesis.Trigger{Message: &nemesis.OnMessage{Link: "c3-n2"}}, Fault: nemesis.Fault{Kind: "drop"}},
			{When: nemesis.Trigger{At: &at}, Fault: nemesis.Fault{Kind: "cut", Targets: []string{"n2-replica", "n12"}, Until: &nemesis.Event{Client: "c3"}}},
		},
	}
	a := deepCopy(s)
	if !removeNames(&a, func(name string) bool { return name == "c1" }) {
		t.Error("c1 was not removed")
	}
	if len(a.Clients) != 2 || a.Clients[0].Start != nil || len(a.Plan) != 3 || !slices.Equal(a.Plan[0].Fault.Targets, []string{"c3"}) || a.Plan[1].When.Message == nil {
		t.Errorf("without c1: %+v", a)
	}
	a = deepCopy(s)
	removeNames(&a, func(name string) bool { return name == "n2" })
	if len(a.Plan) != 3 || !slices.Equal(a.Plan[2].Fault.Targets, []string{"n12"}) || !slices.Equal(a.Topology.Addresses, []string{"n1"}) || a.Clients[0].Reach != nil {
		t.Errorf("without n2: %+v", a)
	}
	a = deepCopy(s)
	removeNames(&a, func(name string) bool { return name == "c1" })
	renumberClients(&a)
	if got := a.ClientNames(); !slices.Equal(got, []string{"c1", "c2"}) || a.Plan[1].When.Message.Link != "c2-n2" || a.Plan[2].Fault.Until.Client != "c2" || a.Plan[0].Fault.Targets[0] != "c2" {
		t.Errorf("renumbered: %+v", a)
	}
}
