// Package envelope finds how much of a fault a lock stands.
//
// A Dimension is one fault with one number that says how much of it there is, the property that
// it may cost, and the Edge where arithmetic says that it does. Search tries values with many
// seeds each, first far apart and then between the last that held and the first that broke, until
// these two are next to each other; a Result has both, and whether arithmetic agrees.
//
//	seeds that      1 ┤                 ╭──────
//	break it          │               ╭╯
//	                0 ┤───────────────╯┄┄┄┄┄┄┄┄  value
//	                        Edge.Safe ┆    ┆ Edge.Certain
//	                    of no seed ◄──┘    └──► of each seed
//
// Between the two it hangs on the instants of a run: how long messages take, and when the other
// client happens to try again.
//
// Deliberately missing: running scenarios, which the caller's Run does, and making a violation
// small (package shrink).
package campaign

import (
	"context"
	"math"
	"slices"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// Setting is what a lock is run with.
type EnvelopeSetting struct {
	TTL   time.Duration `json:"ttl"`
	Nodes int           `json:"nodes"`
	Drift float64       `json:"drift"` // share of the TTL that is allowed for drift, besides 2 ms
	Fence bool          `json:"fence"` // the resource refuses tokens below the largest that it saw
	// Retry is the time between two attempts, Timeout the bound of a request to one node.
	Retry   client.Range  `json:"retry"`
	Timeout time.Duration `json:"timeout"`
	// OneWay is how long a message travels.
	OneWay client.Range `json:"oneWay"`
}

// unit is what a value counts.
type unit string

// Units.
const (
	seconds unit = "s"
	rate    unit = "rate" // of a clock, where 1 is right
	Nodes   unit = "nodes"
)

// Dimension is a fault of which there may be more or less.
type Dimension struct {
	Name     string
	Doc      string // what the value is, as it stands in "… up to X"
	Property string // one of the checker's, or Availability
	Unit     unit
	Less     bool // less of it is worse, as of the time for which a node stays away
	// Span is the values that are tried, and Step how close to the edge they get.
	Span func(EnvelopeSetting) (low, high, step float64)
	// Edge says where it must break, nil: nowhere.
	Edge func(EnvelopeSetting) *EnvelopeEdge
	// plan is the part of the scenario that is this dimension's: keys of its file. Where it is nil
	// two clients contend, of whom the first works for as long as hold says while steps happen.
	plan  func(s EnvelopeSetting, value float64) string
	hold  func(EnvelopeSetting) string
	steps func(s EnvelopeSetting, value float64) string
}

// Availability is no property of the checker's: that anybody acquires the lock at all.
const Availability = "availability"

// Edge is what arithmetic says of where a property breaks. The property holds in each run up to
// Safe, and breaks in each from Certain on; where less is worse it is the other way round.
type EnvelopeEdge struct {
	// Sum is what it comes to if messages take no time and nobody waits.
	Sum     float64 `json:"sum"`
	Safe    float64 `json:"safe"`
	Certain float64 `json:"certain"`
	Formula string  `json:"formula"` // of Sum, in words
}

// Point is what came of one value.
type EnvelopePoint struct {
	Value float64 `json:"value"`
	Runs  int     `json:"runs"`
	Broke int     `json:"broke"`
	// Idle runs gave no occasion to break it, Failed ones could not be judged.
	Idle   int `json:"idle,omitempty"`
	Failed int `json:"failed,omitempty"`
	// Seed is the first that broke it, 0: none did. Cause is by what.
	Seed  uint64 `json:"seed,omitempty"`
	Cause string `json:"cause,omitempty"`
	Error string `json:"error,omitempty"`
}

// Result is the envelope in one dimension.
type Envelope struct {
	Dimension string          `json:"dimension"`
	Doc       string          `json:"doc"`
	Property  string          `json:"property"`
	Unit      unit            `json:"unit"`
	Less      bool            `json:"less,omitempty"`
	Setting   EnvelopeSetting `json:"setting"`
	Seeds     int             `json:"seeds"`
	// Held is the last value that held with all seeds, and Broke the first that did not: next to
	// each other. nil: there is none of those that were tried.
	Held   *float64        `json:"held"`
	Broke  *float64        `json:"broke"`
	Edge   *EnvelopeEdge   `json:"edge"` // nil: it must not break at all
	Agrees bool            `json:"agrees"`
	Points []EnvelopePoint `json:"points"` // by value
}

// Search tries values.
type EnvelopeSearch struct {
	Known scenario.Known
	// Run runs a scenario with a seed. It is called by several goroutines at once.
	Run     func(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome
	Workers int
	Seed    uint64 // the first of
	Seeds   int
	// Put makes of the scenario what is run, such as one of another lock; nil: nothing else.
	Put func(scenario.Scenario) (scenario.Scenario, error)
}

// grid is how many values are tried first, evenly apart: what is not monotone shows there.
const grid = 9

// Find finds the edge of a dimension. told is called with each value that was tried.
func (x EnvelopeSearch) Find(ctx context.Context, d Dimension, s EnvelopeSetting, told func(EnvelopePoint)) (Envelope, error) {
	r := Envelope{Dimension: d.Name, Doc: d.Doc, Property: d.Property, Unit: d.Unit, Less: d.Less, Setting: s, Seeds: x.Seeds, Edge: d.Edge(s)}
	low, high, step := d.Span(s)
	snap := func(v float64) float64 { return math.Round(math.Round(v/step)*step*1e6) / 1e6 }
	try := func(v float64) error {
		if slices.ContainsFunc(r.Points, func(p EnvelopePoint) bool { return math.Abs(p.Value-v) < step/2 }) {
			return nil
		}
		p, err := x.at(ctx, d, s, v)
		if err == nil {
			told(p)
			r.Points = append(r.Points, p)
			slices.SortFunc(r.Points, func(a, b EnvelopePoint) int { return d.worse(a.Value, b.Value) })
			r.settle()
		}
		return err
	}
	n := min(grid-1, int(math.Round((high-low)/step)))
	for i := range n + 1 {
		if err := try(snap(low + (high-low)*float64(i)/float64(n))); err != nil {
			return r, err
		}
	}
	// A value between the two that decides nothing, for no run gave an occasion, bounds the search.
	for tried := 0; len(r.Points) > tried && r.Held != nil && r.Broke != nil && math.Abs(*r.Broke-*r.Held) > 1.5*step; {
		tried = len(r.Points)
		if err := try(snap((*r.Held + *r.Broke) / 2)); err != nil {
			return r, err
		}
	}
	if r.Broke != nil { // how it goes on: the curve from luck to certainty
		for i := range 6 {
			v := snap(*r.Broke + d.sign()*step*math.Pow(2, float64(i)))
			if v < low || v > high {
				break
			}
			if err := try(v); err != nil {
				return r, err
			}
		}
	}
	r.Agrees = r.agrees(step)
	slices.SortFunc(r.Points, func(a, b EnvelopePoint) int { return int(math.Copysign(1, a.Value-b.Value)) })
	return r, nil
}

// sign is the direction in which it gets worse.
func (d Dimension) sign() float64 {
	if d.Less {
		return -1
	}
	return 1
}

// worse orders values by the harm that they may do, the least first.
func (d Dimension) worse(a, b float64) int { return int(math.Copysign(1, d.sign()*(a-b))) }

// settle finds the first value that broke, and the last before it; the least harm comes first.
func (r *Envelope) settle() {
	r.Held, r.Broke = nil, nil
	for _, p := range r.Points {
		switch {
		case p.Broke > 0:
			r.Broke = &p.Value
			return
		case p.decided():
			r.Held = &p.Value
		}
	}
}

// decided says whether any run gave an occasion to break the property, and could be judged.
func (p EnvelopePoint) decided() bool { return p.Runs > p.Idle+p.Failed }

// agrees says whether what was measured is what arithmetic says, to within a step.
func (r *Envelope) agrees(step float64) bool {
	d := Dimension{Less: r.Less}
	switch sign := d.sign(); {
	case r.Edge == nil:
		return r.Broke == nil
	case r.Broke == nil: // the edge may be beyond what was tried
		return sign*(r.worst().Value-r.Edge.Certain) < step*1.5
	default: // likewise if it holds nowhere
		return sign*(*r.Broke-r.Edge.Safe) > -step/2 && (r.Held == nil || sign*(*r.Broke-r.Edge.Certain) < step*1.5)
	}
}

// worst is the most that was tried.
func (r *Envelope) worst() EnvelopePoint {
	return slices.MaxFunc(r.Points, func(a, b EnvelopePoint) int { return Dimension{Less: r.Less}.worse(a.Value, b.Value) })
}

// Undecided says that no run gave an occasion to break the property, or could be judged; or none
// with the most that was tried, where nothing broke it.
func (r *Envelope) Undecided() bool {
	return r.Broke == nil && !r.worst().decided()
}

// At is the point of a value that was tried.
func (r *Envelope) At(value float64) EnvelopePoint {
	return r.Points[slices.IndexFunc(r.Points, func(p EnvelopePoint) bool { return p.Value == value })]
}

// at tries a value with all seeds.
func (x EnvelopeSearch) at(ctx context.Context, d Dimension, s EnvelopeSetting, value float64) (EnvelopePoint, error) {
	sc, err := d.Scenario(s, value, x.Known)
	if err == nil && x.Put != nil {
		sc, err = x.Put(sc)
	}
	p := EnvelopePoint{Value: value, Runs: x.Seeds}
	if err != nil {
		return p, err
	}
	outcomes := make([]outcome.Outcome, x.Seeds)
	next := make(chan int)
	done := make(chan struct{})
	for range x.Workers {
		go func() {
			for i := range next {
				outcomes[i] = x.Run(ctx, sc, x.Seed+uint64(i))
			}
			done <- struct{}{}
		}()
	}
	for i := range outcomes {
		next <- i
	}
	close(next)
	for range x.Workers {
		<-done
	}
	for i, o := range outcomes {
		p.add(d.Property, x.Seed+uint64(i), o)
	}
	return p, ctx.Err()
}
