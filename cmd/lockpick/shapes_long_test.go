//go:build long && !windows

package main

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/client"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/internal/shapes"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

var testedShapes = flag.String("shapes", strings.Join(slices.Sorted(maps.Keys(shapes.All)), ","), "correct locks of package shapes to test under random plans")
var shapePlans = flag.Int("shape-plans", map[bool]int{false: 4, true: 2000}[night], "number of random plans for each correct lock of package shapes")

// TestNoFalseAlarms checks that the correct lock of each shape violates nothing within the
// assumptions: any reported violation would be a false alarm. Late writes are the holder's fault,
// so resource-safety is required only with fencing.
func TestNoFalseAlarms(t *testing.T) {
	names, shapeSeeds := strings.Split(*testedShapes, ","), *shapePlans
	plans := map[string][]scenario.Scenario{}
	for _, name := range names {
		plans[name] = leasePlans(t, name, shapes.All[name])
	}
	runs, numAlarms := map[string]int{}, map[string]int{}
	pool := campaign.Pool{Command: []string{shapesName}, Size: runtime.NumCPU(), Timeout: defaultTimeout}
	pool.Run(t.Context(), len(names)*shapeSeeds, func(i int) campaign.Job {
		seed, plan := uint64(1+i%shapeSeeds), plans[names[i/shapeSeeds]]
		return campaign.Job{Scenario: plan[seed%uint64(len(plan))], Seed: seed, Backend: simulation, Keep: campaign.KeepNone}
	}, func(i int, o outcome.Outcome) {
		name := names[i/shapeSeeds]
		if runs[name]++; o.Error != "" || o.Skipped != "" {
			t.Errorf("%s, seed %d: %s%s", name, o.Seed, o.Error, o.Skipped)
		}
		for _, j := range o.Judgements {
			if j.Got == verdict.Violated && slices.Contains(guarantees(shapes.All[name]), j.Property) {
				numAlarms[name]++
				t.Errorf("%s, %s seed %d: %s: %s", name, o.Scenario, o.Seed, j, j.Because)
			}
		}
	})
	for _, name := range names {
		t.Logf("%s: %d plans, %d alarms", name, runs[name], numAlarms[name])
		if runs[name] != shapeSeeds {
			t.Errorf("%s: %d plans of %d", name, runs[name], shapeSeeds)
		}
	}
}

// leasePlans returns the scenarios with random plans within the assumptions for a shape, with
// leases shorter and longer than ten rounds of attempts.
func leasePlans(t *testing.T, name string, s shapes.Shape) []scenario.Scenario {
	t.Helper()
	var all []scenario.Scenario
	for _, longLeases := range []bool{false, true} {
		variant, sets := "", []string{"lock.fence=false", "workload.fence=none"}
		switch {
		case s.OneNode && longLeases:
			variant = "one-node-long-leases"
		case s.OneNode:
			variant = "one-node"
		case longLeases:
			variant = "long-leases"
		}
		if s.Belief != lock.ByDeadline { // a paused holder must not sleep through its lease
			sets = append(sets, "plan.random.lasts=10ms..300ms")
		}
		if s.Belief == lock.ByNothing { // nor wait that long for the resource
			sets = append(sets, "plan.random.faults=[pause, gc, kill, shutdown, cut, delay, hold, clock-jump, clock-rate, clock-slew, clock-strobe, touch]")
		}
		if s.Can.Reenter {
			sets = append(sets, "workload.reenter=2")
		}
		p := findPick(t, "random-within-assumptions/"+variant, sets...)
		if p.Scenario.Lock.Kind, p.Scenario.Lock.Fence = name, s.Fenced; s.Fenced {
			p.Scenario.Workload.Fence = client.FenceToken
			p.Scenario.Topology.Persistence = scenario.PersistAlways // fence-forgets tests lost counts
		}
		p.Scenario.Lock = p.Scenario.Lock.ForKind(s.Kind, p.Scenario.Topology.Nodes)
		all = append(all, p.Scenario)
	}
	return all
}

// guarantees lists the properties that a correct lock of the shape guarantees within the
// assumptions.
func guarantees(s shapes.Shape) []string {
	all := []string{verdict.HolderNotified, verdict.MutualExclusion, verdict.LeaseLinearizable, verdict.DeadlockFreedom, verdict.FaultTolerance}
	if s.Fenced {
		all = append(all, verdict.ResourceSafety, verdict.FencingOrder)
	}
	return all
}

// catchingRuns lists, by shape, the scenario that catches the broken lock, the number of seeds to
// try, and the violated property and cause.
var catchingRuns = map[string]struct {
	scenario, property, cause string
	seeds                     uint64
}{
	"binary":      {"lost-reply/", verdict.FaultTolerance, "left-keys", 1},
	"counter":     {"fence-after-grant/", verdict.FencingOrder, "holder-refused", 1},
	"endless":     {"holder-crashes/while-acquiring", verdict.DeadlockFreedom, "outlived-ttl", 1},
	"fair":        {"random-within-assumptions/one-node", verdict.FaultTolerance, "turned-away", 20},
	"field":       {"foreign-release/", verdict.MutualExclusion, "deleted-by-other", 1},
	"hasty":       {"lost-reply/", verdict.FaultTolerance, "left-keys", 1},
	"idempotent":  {"no-answer/", verdict.MutualExclusion, "never-set", 1},
	"instance":    {"foreign-release/under-way", verdict.MutualExclusion, "deleted-by-other", 1},
	"majority":    {"disjoint-views/", verdict.MutualExclusion, "never-set", 1},
	"polling":     {"lost-reply/", verdict.FaultTolerance, "left-keys", 1},
	"reentrant":   {"baseline/", verdict.MutualExclusion, "released-early", 1},
	"reversed":    {"lost-reply/", verdict.FaultTolerance, "left-keys", 1},
	"scripted":    {"slow-network/", verdict.MutualExclusion, "overwritten", 1},
	"transaction": {"holder-crashes/", verdict.DeadlockFreedom, "outlived-ttl", 1},
	"unanimous":   {"random-within-assumptions/long-leases", verdict.MutualExclusion, "never-set", 20},
	"watchdog":    {"renewal-meets-other-key/", verdict.DeadlockFreedom, "outlived-ttl", 1},
}

// TestBrokenShapes checks that a lock of each shape with its typical mistake is caught in a
// scenario in which the correct lock of the same shape violates nothing.
func TestBrokenShapes(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(shapes.All)) {
		c := catchingRuns[name]
		var seed uint64
		for n := uint64(1); n <= c.seeds && seed == 0; n++ {
			if v := shapeViolation(t, wrongPrefix+name, c.scenario, c.property, n); v != nil && v.Cause == c.cause {
				seed = n
			}
		}
		if seed == 0 {
			t.Errorf("%s, which %s: not caught by %s with %d seeds", name, shapes.All[name].Mistake, c.scenario, c.seeds)
			continue
		}
		if v := shapeViolation(t, name, c.scenario, c.property, seed); v != nil {
			t.Errorf("%s, which is correct, seed %d: %s", name, seed, v)
		}
		t.Logf("%s, which %s: %s violated by %s in %s, seed %d", name, shapes.All[name].Mistake, c.property, c.cause, c.scenario, seed)
	}
}

// shapeViolation returns a lock's violation of a property in a scenario, or nil if there is none.
func shapeViolation(t *testing.T, kind, name, property string, seed uint64) *outcome.Judgement {
	t.Helper()
	all := kindsWithShapes()
	var sets []string
	if all[kind].Can.Reenter {
		sets = append(sets, "workload.reenter=1")
	}
	s, err := findPick(t, name, sets...).ForLock(kind, all[kind])
	if err != nil {
		t.Fatal(err)
	}
	o := campaign.Execute(t.Context(), sim.New(all), campaign.Job{Scenario: s, Seed: seed, Backend: simulation, Keep: campaign.KeepNone})
	if o.Error != "" || o.Skipped != "" {
		t.Errorf("%s on %s: %s%s", name, kind, o.Error, o.Skipped)
	}
	for _, j := range o.Judgements {
		if j.Property == property && j.Got == verdict.Violated {
			return &j
		}
	}
	return nil
}
