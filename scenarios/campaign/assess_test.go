package campaign

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/nemesis"
	"lockpick/scenarios/outcome"
)

var known = KnownLocks(kinds.All)

var backend = sim.New(kinds.All)

func defaultDeployment() outcome.Deployment {
	return outcome.Deployment{Lock: "redlock", TTL: 10 * time.Second, Nodes: 5, Persistence: "none", Drift: 0.01}
}

// newAssessor returns an assessor that runs in the simulation, in this process.
func newAssessor(t *testing.T, d outcome.Deployment, seeds int) *Assessor {
	minLatency, maxLatency := sim.Latency()
	return &Assessor{
		Runner: &Runner{Backend: backend, Capabilities: Probe(t.Context(), backend), Command: func(*Selection, Pick, uint64) string { return "" }},
		Known:  known, Base: Selection{Backend: simulation}, OneWay: client.Range{Min: minLatency, Max: maxLatency},
		Deployment: d, Environment: DefaultEnvironment, FirstSeed: 1, Seeds: seeds, Store: t.TempDir(), Log: io.Discard,
		result:  &outcome.Assessment{},
		execute: func(ctx context.Context, j Job) outcome.Outcome { return Execute(ctx, backend, j) }, parallel: 1,
	}
}

// measureBound finds the bound of an experiment.
func measureBound(t *testing.T, x *Assessor, h hazard, e experiment) *outcome.Bound {
	t.Helper()
	m := x.newMeasurement(h, e, x.conditions(x.Deployment))
	if err := x.try(t.Context(), m, m.bound.Limit); err != nil {
		t.Fatal(err)
	}
	if err := x.refine(t.Context(), m, exact); err != nil {
		t.Fatal(err)
	}
	return m.bound
}

func findHazard(name string) hazard {
	return hazards[slices.IndexFunc(hazards, func(h hazard) bool { return h.name == name })]
}

// Measured times are within one retry and one round trip of the nominal edge, and measured drift
// within 0.1 percentage points.
func TestMeasuredEdgesMatchPredictions(t *testing.T) {
	x := newAssessor(t, defaultDeployment(), 1)
	tolerances := map[outcome.BoundUnit]float64{outcome.UnitSeconds: retryMax.Seconds() + 2*x.OneWay.Max.Seconds(), outcome.UnitPercent: 0.1, outcome.UnitNodes: 0}
	for _, persistence := range []string{"none", "no", "everysec", "always"} {
		x.Deployment.Persistence = persistence
		for _, h := range hazards {
			if persistence != "none" && h.name != "restart" && h.name != "power-loss" {
				continue
			}
			for _, e := range h.unfenced {
				t.Run(persistence+"/"+h.name+"/"+e.property, func(t *testing.T) {
					b := measureBound(t, x, h, e)
					if !b.Predicted || !b.Agrees || b.Verdict() == outcome.HazardInconclusive {
						t.Fatalf("%s; %+v", b.Disagrees(), b)
					}
					tolerance := tolerances[h.unit]
					if persistence == "everysec" {
						tolerance = 0.11 // a Redis tick and a sync
					}
					if b.Edge != nil && math.Abs(*b.FirstUnsafe-b.Edge.Nominal) > tolerance+1e-9 {
						t.Errorf("breaks at %v, nominal edge %v", *b.FirstUnsafe, b.Edge.Nominal)
					}
				})
			}
		}
	}
}

// A prediction with a mistake in its formula contradicts the measurement.
func TestWrongFormulasDisagree(t *testing.T) {
	shifted := func(edge func(conditions) *outcome.PredictedEdge, by func(conditions) float64) func(conditions) *outcome.PredictedEdge {
		return func(c conditions) *outcome.PredictedEdge {
			e := edge(c)
			e.Nominal, e.SafeLimit, e.FailureLimit = e.Nominal+by(c), e.SafeLimit+by(c), e.FailureLimit+by(c)
			return e
		}
	}
	oneNode := func(conditions) float64 { return 1 }
	for name, x := range map[string]struct {
		hazard string
		wrong  func(conditions) *outcome.PredictedEdge
	}{
		"a pause counts from the end of the lease":     {HazardPause, shifted(lateWriteEdge, func(c conditions) float64 { return -c.margin() })},
		"a pause never does harm":                      {HazardPause, neverBreaks},
		"a jump may be twice the margin":               {HazardJump, shifted(jumpEdge, conditions.margin)},
		"there is no margin for jumps":                 {HazardJump, shifted(jumpEdge, func(c conditions) float64 { return -c.margin() })},
		"drift accumulates over half a TTL":            {HazardDrift, shifted(driftEdge, func(c conditions) float64 { return 100 * c.margin() / c.ttl() })},
		"a restart is safe after half the lease":       {"restart", shifted(restartEdge, func(c conditions) float64 { return -c.lease() / 2 })},
		"a restart must take the lease and the margin": {"restart", shifted(restartEdge, func(c conditions) float64 { return 3 * c.margin() })},
		"a delayed write counts from the expiry":       {HazardDelay, shifted(delayedWriteEdge, conditions.margin)},
		"lost replies break the lock":                  {"lost-reply", sharedNodesEdge},
		"a fail-over of a quorum is needed":            {"fail-over", shifted(sharedNodesEdge, oneNode)},
		"a fail-over does no harm":                     {"fail-over", neverBreaks},
		"a partition breaks the lock after its lease":  {"partition", func(c conditions) *outcome.PredictedEdge { return returnEdge(c, 0, "") }},
		"everysec loses nothing":                       {"power-loss", neverBreaks},
		"everysec loses two seconds":                   {"power-loss", shifted(powerLossEdge, oneNode)},
	} {
		t.Run(name, func(t *testing.T) {
			d := defaultDeployment()
			if x.hazard == "power-loss" {
				d.Persistence = "everysec"
			}
			h := findHazard(x.hazard)
			h.unfenced = slices.Clone(h.unfenced[:1])
			h.unfenced[0].edge = x.wrong
			if b := measureBound(t, newAssessor(t, d, 3), h, h.unfenced[0]); b.Disagrees() == "" {
				t.Errorf("no disagreement with edge %+v: %s", b.Edge, b.Answer())
			}
		})
	}
}

// Predictions exist only for locks to which Redlock's arithmetic applies.
func TestPredictionsAreBlankForOtherLocks(t *testing.T) {
	for lock, want := range map[string]bool{"redlock": true, "hardened": true, "redsync": true, "redsync:set=no": true, "single": false, "failover": false, "redislock": false, "rueidis": false, "exec": false} {
		d := defaultDeployment()
		d.Lock = lock
		x := newAssessor(t, d, 1)
		h := findHazard(HazardJump)
		if b := x.newMeasurement(h, h.unfenced[0], x.conditions(d)).bound; b.Predicted != want {
			t.Errorf("%s: predicted %v, want %v", lock, b.Predicted, want)
		}
	}
}

func TestConfinedPlansStayWithinTheEnvironment(t *testing.T) {
	c := conditions{Deployment: defaultDeployment(), Environment: Environment{Pause: time.Second, ClockJump: 50 * time.Millisecond, ClockDrift: 0.005, Delay: 30 * time.Millisecond}}
	c.RestartDelay = 3 * time.Second
	c.Persistence = "everysec"
	s, err := c.randomScenario(HazardNames(), known)
	if err != nil {
		t.Fatal(err)
	}
	var confined, outside int
	for seed := range uint64(200) {
		drawn := s.WithRandomPlan(seed)
		if !c.within(drawn) {
			outside++
		}
		drawn.Plan = c.confine(drawn.Plan)
		confined += len(drawn.Plan)
		if !c.within(drawn) {
			t.Fatalf("seed %d: %+v", seed, drawn.Plan)
		}
		offsets := map[string]time.Duration{}
		for _, st := range drawn.Plan {
			if f := st.Fault; f.Kind == "clock-jump" {
				node := f.Targets[0]
				if offsets[node] += f.By; offsets[node] < 0 || offsets[node] > c.ClockJump {
					t.Fatalf("seed %d: %s is off by %v", seed, node, offsets[node])
				}
			}
		}
		if err := drawn.Check(known); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if confined < 200 || outside < 100 {
		t.Errorf("%d steps, %d of 200 plans exceed the environment before: too few to test anything", confined, outside)
	}
}

func TestOnlyNamedHazardsAreAssumed(t *testing.T) {
	s, err := conditions{Deployment: defaultDeployment()}.randomScenario([]string{HazardPause}, known)
	if err != nil {
		t.Fatal(err)
	}
	c := conditions{Environment: DefaultEnvironment}
	c.Hazards = []string{HazardPause}
	zero := time.Duration(0)
	s.Random, s.Plan = nil, nemesis.Plan{{When: nemesis.Trigger{At: &zero}, Fault: nemesis.Fault{Kind: "kill", Targets: []string{"n1"}, For: &zero}}}
	if c.within(s) {
		t.Error("a crash is within an environment of pauses")
	}
	if c.Hazards = append(c.Hazards, "restart"); !c.within(s) {
		t.Error("a crash is not within an environment with restarts")
	}
}

// Each suggested value makes the hazard harmless, and half of the change does not.
func TestSuggestedValuesAreSufficientAndNecessary(t *testing.T) {
	d := defaultDeployment()
	d.TTL, d.Nodes = 2*time.Second, 3
	d.Lock = "redsync" // without fencing tokens, only values help
	numValues := 0
	for _, name := range []string{HazardPause, HazardJump, "restart", "power-loss"} {
		x, h := newAssessor(t, d, 3), findHazard(name)
		c := x.conditions(d)
		row := &outcome.HazardRow{Name: name}
		x.result = &outcome.Assessment{Hazards: []*outcome.HazardRow{row}}
		_, err := x.testLimit(t.Context(), h, c, row)
		if err == nil {
			err = findChanges(t.Context(), x, h, c, row)
		}
		if err != nil || row.Verdict != outcome.HazardAtRisk || len(row.Changes) == 0 {
			t.Fatalf("%s: %s with changes %v (%v)", name, row.Verdict, row.Changes, err)
		}
		for _, change := range row.Changes {
			if change.Insufficient == "" {
				continue
			}
			numValues++
			flag, value, _ := strings.Cut(change.Flags, " ")
			for text, want := range map[string]string{value: outcome.HazardSafe, change.Insufficient: outcome.HazardAtRisk} {
				other := &outcome.HazardRow{}
				if _, err := x.testLimit(t.Context(), h, x.conditions(withFlag(t, d, flag, text)), other); err != nil || other.Verdict != want {
					t.Errorf("%s %s %s: %v, want %s (%v)", name, flag, text, other.Verdict, want, err)
				}
			}
		}
	}
	if numValues < 4 {
		t.Errorf("only %d values suggested", numValues)
	}
}

func withFlag(t *testing.T, d outcome.Deployment, flag, text string) outcome.Deployment {
	var err error
	switch flag {
	case "--ttl":
		d.TTL, err = time.ParseDuration(text)
	case "--restart-delay":
		d.RestartDelay, err = time.ParseDuration(text)
	case "--drift":
		_, err = fmt.Sscanf(text, "%g%%", &d.Drift)
		d.Drift /= 100
	default:
		t.Fatalf("unknown flag %s", flag)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A lock with a mistake contradicts the prediction.
func TestLockWithoutDriftMarginDisagrees(t *testing.T) {
	x := newAssessor(t, defaultDeployment(), 3)
	x.execute = func(ctx context.Context, j Job) outcome.Outcome {
		j.Scenario.Lock.Kind, j.Scenario.Lock.Mistake = "broken", "no-drift-margin"
		return Execute(ctx, backend, j)
	}
	h := findHazard(HazardJump)
	if b := measureBound(t, x, h, h.unfenced[0]); b.Disagrees() == "" {
		t.Error(b.Answer())
	}
}

// A spent budget leaves hazards untested, which is not a pass.
func TestBudgetLeavesHazardsUntested(t *testing.T) {
	x := newAssessor(t, defaultDeployment(), 1)
	x.Budget = time.Nanosecond
	result, _, err := x.Run(t.Context())
	if err != nil || result.Code != outcome.ExitUndecided || result.Hazards[0].Verdict != outcome.HazardNotTested || len(result.Notes) == 0 {
		t.Errorf("%+v, %v", result, err)
	}
}
