// Package shrink finds the smallest scenario that still shows a violation.
//
// A Bug is a property with the cause by which it is violated. A Shrinker takes a scenario
// with a seed that shows one, and an edit after the other makes it smaller: fewer steps,
// targets, clients, nodes and keys, shorter and rounder times. An edit stays if the run still
// comes out with the same bug. The Result has the scenario, what it took, and with how many
// other seeds it shows; Write makes a file of it, with a caption in plain words.
//
//	seed ──► the drawn plan ──► edit ──► Run ──┬─ the same bug: keep it
//	                              ▲            └─ another, or none: put it back
//	                              └── until no edit is left that keeps the bug
//
// A long plan is replaced first by what was in force while the harm came about, as the record tells
// (distil.go): that leaves a few steps of a hundred, after some twenty runs.
//
// The edits are tried on as many processors as there are; which one is kept depends on their
// order alone, so that the same bug shrinks to the same scenario everywhere.
//
// Deliberately missing: running a scenario, which the caller's Run does, and looking for
// bugs (package hunt).
package campaign

import (
	"context"
	"fmt"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// Bug is a way in which a property is violated.
type Bug struct {
	Property string `json:"property"`
	Cause    string `json:"cause,omitempty"`
}

func (b Bug) String() string {
	if b.Cause == "" {
		return b.Property
	}
	return fmt.Sprintf("%s (%s)", b.Property, b.Cause)
}

// Shrinker makes scenarios small.
type Minimizer struct {
	Known scenario.Known
	// Run runs a scenario with a seed, and says whether all came as it expects. It is called
	// by several goroutines at once.
	Run func(ctx context.Context, s scenario.Scenario, seed uint64) (asExpected bool)
	// Record is what such a run records, and what is said of it. nil: nobody looks at how a bug comes
	// about, and long plans are made small by trial alone.
	Record  func(ctx context.Context, s scenario.Scenario, seed uint64) (*history.History, verdict.Verdict, error)
	Workers int
	// Most bounds the runs; 0: mostRuns.
	Most int
}

// mostRuns bounds the runs of one shrink. A plan of a hundred steps takes about a hundred,
// the worst four hundred.
const mostRuns = 2000

// mostRounds bounds how often all edits are tried again. Each but the last has made the
// scenario smaller.
const mostRounds = 20

// others are how many seeds a small scenario is tried with in the end. What is small need
// not be robust: it may hang on the instants that one seed gives.
const others = 100

// Result is a scenario that was made small.
type Minimized struct {
	Bug
	Scenario scenario.Scenario `json:"scenario"`
	// Seed shows the bug: the lowest of the others that does, or else the one that was given.
	Seed   uint64 `json:"seed"`
	From   string `json:"from"` // the scenario that it was made of
	Given  uint64 `json:"given"`
	Before size   `json:"before"`
	After  size   `json:"after"`
	Runs   int    `json:"runs"`  // that it took
	Shows  int    `json:"shows"` // of the Others, how many show the bug
	Others int    `json:"others"`
	// Whole: nothing was left to try. Otherwise the bound of runs was met.
	Whole bool `json:"whole"`
}

// size is how large a scenario is.
type size struct {
	Steps   int `json:"steps"`
	Targets int `json:"targets"`
	Clients int `json:"clients"`
	Nodes   int `json:"nodes"`
	Keys    int `json:"keys"`
}

// SizeOf measures a scenario.
func SizeOf(s scenario.Scenario) size {
	z := size{Steps: len(s.Plan), Clients: len(s.Clients), Nodes: s.Topology.Nodes, Keys: len(s.KeyNames())}
	for _, st := range s.Plan {
		z.Targets += len(st.Fault.Targets)
	}
	return z
}

// Shrink makes a scenario small that shows a bug with a seed. The error is that it doesn't,
// or that ctx has ended.
func (k Minimizer) Shrink(ctx context.Context, s scenario.Scenario, seed uint64, b Bug) (Minimized, error) {
	r := Minimized{Bug: b, From: s.ID(), Given: seed}
	s = s.Drawn(seed)
	r.Before = SizeOf(s)
	x := &search{Minimizer: k, ctx: ctx, bug: b, seed: seed, best: Expecting(s, b), seen: map[string]bool{}, idle: make(chan struct{}, max(k.Workers, 1)), left: k.Most}
	if x.left == 0 {
		x.left = mostRuns
	}
	if !x.keeps(func(*scenario.Scenario) bool { return true }) {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		return r, fmt.Errorf("%s does not violate %s with seed %d", s.ID(), b, seed)
	}
	x.all()
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	r.Scenario, r.Runs, r.Whole = x.best, x.runs, x.left > 0
	r.After = SizeOf(x.best)
	r.Seed, r.Others = x.seed, others
	shown := x.shows(others)
	r.Shows = len(shown)
	if len(shown) > 0 {
		r.Seed = shown[0]
	}
	return r, ctx.Err()
}

// Expecting is a scenario of which nothing but a bug is expected: a run of it comes out as
// expected if it has the bug. It is a scenario of its own, with the seed's plan.
func Expecting(s scenario.Scenario, b Bug) scenario.Scenario {
	s.Name, s.Variant, s.Tags, s.Debate, s.Tier, s.Cures, s.Numbers = "small", "", nil, nil, "", nil, nil
	s.Expect = map[string]scenario.Expectation{ // the two that are held to it unless somebody says otherwise
		verdict.MutualExclusion: {Want: outcome.AnyOutcome}, verdict.ResourceSafety: {Want: outcome.AnyOutcome},
	}
	s.Expect[b.Property] = scenario.Expectation{Want: string(verdict.Violated), Cause: b.Cause}
	scenario.Imply(s.Expect, s.Tier)
	return s
}

// all tries all edits, until none is left that keeps the bug.
func (x *search) all() {
	for range mostRounds {
		before := x.kept
		x.distil()
		x.pass(shorter(x.best))
		x.pass(smallWorld(x.best)) // before the steps, for it makes them cheaper; and after them
		x.steps()
		x.leap()
		x.pass(certain(x.best))
		x.pass(fewer(x.best))
		x.pass(smallWorld(x.best))
		x.pass(briefer(x.best))
		x.pass(plainer(x.best))
		x.pass(together(x.best))
		x.pass(rounder(x.best))
		if x.kept == before {
			x.hop()
		}
		if x.kept == before || x.over() {
			return
		}
	}
}
