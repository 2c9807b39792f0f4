package campaign

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/outcome"
)

var known = KnownLocks(kinds.All)

// defaultSetting returns the catalog's settings for the redlock lock.
func defaultSetting() EnvelopeSetting {
	minLatency, maxLatency := sim.Latency()
	return EnvelopeSetting{TTL: 10 * time.Second, Nodes: 5, Drift: 0.01, Timeout: 50 * time.Millisecond,
		Retry: client.Range{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}, OneWay: client.Range{Min: minLatency, Max: maxLatency}}
}

var backend = sim.New(kinds.All)

// testSearch returns a search that runs in the simulation.
func testSearch(seeds int) envelopeSearch {
	return envelopeSearch{Known: known, Workers: 1, Seed: 1, Seeds: seeds, Run: func(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome {
		return Execute(ctx, backend, Job{Scenario: s, Seed: seed, Backend: backend.Name(), Keep: KeepNone})
	}}
}

// Measured times are within one retry and one round trip of the nominal edge, and measured rates
// within 0.1 %.
func TestMeasuredEdgesMatchPredictions(t *testing.T) {
	s := defaultSetting()
	tolerances := map[unit]float64{seconds: s.Retry.Max.Seconds() + 2*s.maxOneWay(), rate: 0.001, nodeCount: 0}
	for _, d := range Dimensions {
		t.Run(d.Name+"/"+d.Property, func(t *testing.T) {
			r, err := testSearch(1).find(t.Context(), d, s, func(envelopePoint) {})
			if err != nil {
				t.Fatal(err)
			}
			if !r.AsPredicted || r.undecided() {
				t.Fatalf("%s; %s", r, r.describePrediction())
			}
			tolerance := tolerances[d.Unit]
			if d.Name == "fsync-everysec" {
				tolerance = 0.11 // a Redis tick and a sync
			}
			if r.Edge != nil && math.Abs(*r.FirstUnsafe-r.Edge.Nominal) > tolerance+1e-9 {
				t.Errorf("%s; %s", r, r.describePrediction())
			}
		})
	}
}

func TestLockWithoutDriftMarginDisagrees(t *testing.T) {
	x := testSearch(3)
	x.Prepare = func(s scenario.Scenario) (scenario.Scenario, error) {
		s.Lock.Kind, s.Lock.Mistake = "broken", "no-drift-margin"
		return s, s.Check(known)
	}
	for _, d := range Dimensions {
		if d.Name != "clock-jump" {
			continue
		}
		if r, err := x.find(t.Context(), d, defaultSetting(), func(envelopePoint) {}); err != nil || r.AsPredicted {
			t.Errorf("%s; %v", r, err)
		}
	}
}

func TestMatchesPrediction(t *testing.T) {
	for _, c := range []struct {
		name   string
		less   bool
		tried  string // results in order of value: h for holds, b for breaks
		agrees bool
	}{
		{"at the edge", false, "hhhhbb", true}, // the edge is between 3.5 and 4.5
		{"too early", false, "hhbbbb", false},
		{"too late", false, "hhhhhhhb", false},
		{"beyond the tried values", false, "hhh", true},
		{"never, though it should break", false, "hhhhhhhh", false},
		{"at the first value, though it should hold there", false, "bbbbbb", false},
		{"at the edge, lower is worse", true, "bbbbhhh", true},
		{"too early, lower is worse", true, "bbbbbbbh", false},
		{"everywhere, lower is worse", true, "bbb", true},
		{"everywhere, though it should hold at the mildest value", true, "bbbbbbbb", false},
	} {
		edge := &predictedEdge{SafeLimit: 3.5, FailureLimit: 4.5}
		if c.less {
			edge = &predictedEdge{SafeLimit: 4.5, FailureLimit: 3.5}
		}
		r := Envelope{LessIsWorse: c.less, Edge: edge}
		for i, outcome := range c.tried {
			p := envelopePoint{Value: float64(i), NumRuns: 5}
			if outcome == 'b' {
				p.NumViolated = 5
			}
			r.Points = append(r.Points, p)
		}
		if c.less {
			slices.Reverse(r.Points)
		}
		r.locateEdge()
		if got := r.matchesPrediction(1); got != c.agrees {
			t.Errorf("%s: %v, want %v", c.name, got, c.agrees)
		}
	}
	if r := (Envelope{Points: []envelopePoint{{Value: 1, NumRuns: 5}}}); !r.matchesPrediction(1) {
		t.Error("nothing breaks and no edge is predicted: got no match")
	}
}

func TestEnvelopeExitCodes(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	edge := &predictedEdge{Nominal: 2, SafeLimit: 1.5, FailureLimit: 2}
	for name, x := range map[string]struct {
		Envelope
		code int
	}{
		"agrees":              {Envelope{LastSafe: at(1), FirstUnsafe: at(2), Edge: edge, AsPredicted: true, Points: []envelopePoint{{Value: 1, NumRuns: 2}, {Value: 2, NumRuns: 2, NumViolated: 1}}}, outcome.ExitOK},
		"disagrees":           {Envelope{LastSafe: at(0), FirstUnsafe: at(1), Edge: edge, Points: []envelopePoint{{Value: 0, NumRuns: 2}, {Value: 1, NumRuns: 2, NumViolated: 1}}}, outcome.ExitUnexpected},
		"not exercised":       {Envelope{AsPredicted: true, Points: []envelopePoint{{Value: 0, NumRuns: 2, NumUnexercised: 2}, {Value: 1, NumRuns: 2, NumUnexercised: 2}}}, outcome.ExitUndecided},
		"worst not exercised": {Envelope{LastSafe: at(0), AsPredicted: true, Points: []envelopePoint{{Value: 0, NumRuns: 2}, {Value: 1, NumRuns: 2, NumUnexercised: 2}}}, outcome.ExitUndecided},
		"worst not exercised, lower is worse": {Envelope{LastSafe: at(1), LessIsWorse: true, AsPredicted: true,
			Points: []envelopePoint{{Value: 0, NumRuns: 2, NumUnexercised: 2}, {Value: 1, NumRuns: 2}}}, outcome.ExitUndecided},
		"failed": {Envelope{LastSafe: at(0), FirstUnsafe: at(1), AsPredicted: true, Points: []envelopePoint{{Value: 0, NumRuns: 2, NumFailed: 1, Error: "no"}, {Value: 1, NumRuns: 2, NumViolated: 1}}}, outcome.ExitBackend},
	} {
		if got := x.Code(); got != x.code {
			t.Errorf("%s: exit code %d, want %d", name, got, x.code)
		}
	}
}
