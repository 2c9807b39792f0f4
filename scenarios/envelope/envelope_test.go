package envelope

import (
	"context"
	"flag"
	"math"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

var known = suite.Known(kinds.All)

// usual is the setting that the reference has in the catalogue.
func usual() Setting {
	least, most := sim.Latency()
	return Setting{TTL: 10 * time.Second, Nodes: 5, Drift: 0.01, Timeout: 50 * time.Millisecond,
		Retry: client.Range{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}, OneWay: client.Range{Min: least, Max: most}}
}

var backend = sim.New(kinds.All)

// searching runs scenarios in the simulation.
func searching(seeds int) Search {
	return Search{Known: known, Workers: 1, Seed: 1, Seeds: seeds, Run: func(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome {
		return suite.Execute(ctx, backend, suite.Job{Scenario: s, Seed: seed, Backend: backend.Name(), Keep: suite.KeepNone})
	}}
}

var seeds = flag.Int("seeds", 4, "of each value")
var only = flag.String("only", "", "one dimension")

// TestArithmetic: the lock breaks where arithmetic says, and nowhere else.
func TestArithmetic(t *testing.T) {
	s := usual()
	for _, d := range All {
		if *only != "" && d.Name != *only {
			continue
		}
		t.Run(d.Name+"/"+d.Property, func(t *testing.T) {
			begin := time.Now()
			r, err := searching(*seeds).Find(t.Context(), d, s, func(Point) {})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Points {
				t.Logf("%g: %+v", p.Value, p)
			}
			held, broke := math.NaN(), math.NaN()
			if r.Held != nil {
				held = *r.Held
			}
			if r.Broke != nil {
				broke = *r.Broke
			}
			t.Logf("held %g, broke %g, %+v, %v", held, broke, r.Edge, time.Since(begin))
			if !r.Agrees {
				t.Error("arithmetic says otherwise")
			}
		})
	}
}
