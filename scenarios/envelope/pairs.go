package envelope

import (
	"fmt"
	"math"
	"slices"

	"lockpick/checker/verdict"
)

// Pair is a dimension, and another fault that is there as well: how far the one reaches for some
// values of the other.
//
//	bound of Of ┤╲
//	            │ ╲      a clock that runs fast leaves less of the margin to one that jumps
//	            │  ╲
//	            └───┴──── value of With
type Pair struct {
	Of, With Dimension
	// share is a value of With, for a share from 0 up to 1 of all that are tried.
	share func(s Setting, share float64) float64
	// edge is that of Of, where With has a value.
	edge func(s Setting, with float64) *Edge
	// steps are those of the second fault; nil: its own.
	steps func(s Setting, with float64) string
	// free is when the lock may be had by another at the earliest; nil: when the lease ends.
	free func(s Setting, with float64) float64
}

// Pairs are those whose faults have to do with each other, and one whose faults have not.
var Pairs = []Pair{
	{Of: named("clock-jump", verdict.MutualExclusion), With: named("drift", verdict.MutualExclusion), share: littleDrift, edge: jumpWithDrift, steps: driftedLater},
	{Of: driftLater(), With: named("clock-jump", verdict.MutualExclusion), share: smallJump, edge: driftWithJump},
	{Of: named("restart-delay", verdict.MutualExclusion), With: named("drift", verdict.MutualExclusion), share: littleDrift,
		edge: func(s Setting, _ float64) *Edge { return restart(s) }},
	{Of: named("pause", verdict.ResourceSafety), With: named("clock-jump", verdict.MutualExclusion), share: anyJump, edge: lateWriteIf(afterJump), free: afterJump},
	{Of: named("pause", verdict.ResourceSafety), With: named("drift", verdict.MutualExclusion), share: anyRate, edge: lateWriteIf(afterDrift), free: afterDrift},
	{Of: named("pause", verdict.ResourceSafety), With: named("restart-delay", verdict.MutualExclusion), share: anyStay, edge: lateWriteIf(afterRestart), free: afterRestart},
	{Of: named("delay", verdict.ResourceSafety), With: named("clock-jump", verdict.MutualExclusion), share: anyJump, edge: delayedWriteIf(afterJump), free: afterJump},
	{Of: named("delay", verdict.ResourceSafety), With: named("drift", verdict.MutualExclusion), share: anyRate, edge: delayedWriteIf(afterDrift), free: afterDrift},
	{Of: named("delay", verdict.ResourceSafety), With: named("restart-delay", verdict.MutualExclusion), share: anyStay, edge: delayedWriteIf(afterRestart), free: afterRestart},
}

// PairValues is how many values of the second fault are tried.
const PairValues = 4

// named is the dimension of a name about a property.
func named(name, property string) Dimension {
	return All[slices.IndexFunc(All, func(d Dimension) bool { return d.Name == name && d.Property == property })]
}

// driftedLater is drifted once the clock has jumped, for a clock that jumps runs right again.
func driftedLater(s Setting, v float64) string {
	if v == 1 {
		return ""
	}
	return step(fmt.Sprintf("client: c1, event: acquired, after: %v", 2*after), fmt.Sprintf("kind: clock-rate, targets: %s, rate: %.6f", s.shared(), v))
}

func driftLater() Dimension {
	d := named("drift", verdict.MutualExclusion)
	d.steps = driftedLater
	return d
}

// Name is what it is called: "pause-clock-jump-resource-safety".
func (p Pair) Name() string { return fmt.Sprintf("%s-%s-%s", p.Of.Name, p.With.Name, p.Of.Property) }

// Values are those of the second fault that are tried, in order.
func (p Pair) Values(s Setting) (all []float64) {
	for i := range PairValues {
		all = append(all, snapped(p.share(s, float64(i)/PairValues), p.With, s))
	}
	return all
}

// snapped is a value in whole steps of a dimension.
func snapped(v float64, d Dimension, s Setting) float64 {
	_, _, step := d.Span(s)
	return math.Round(math.Round(v/step)*step*1e6) / 1e6
}

// At is the first fault as a dimension of its own, while the second has a value.
func (p Pair) At(s Setting, with float64) Dimension {
	d := p.Of
	d.Doc = fmt.Sprintf("%s, with %s of %s,", d.Doc, p.With.Doc, p.With.Unit.Say(with))
	d.Edge = func(s Setting) *Edge { return p.edge(s, with) }
	d.plan = func(s Setting, v float64) string {
		free := s.lease()
		if p.free != nil {
			free = min(free, p.free(s, with))
		}
		steps := p.With.steps
		if p.steps != nil {
			steps = p.steps
		}
		return s.contest(p.Of.hold(s), free, steps(s, with)+p.Of.steps(s, v))
	}
	return d
}

// The values of the second fault: less than breaks mutual exclusion by itself, or any less than a TTL.
func littleDrift(s Setting, share float64) float64 { return 1 + share*(drift(s).Sum-1) }
func smallJump(s Setting, share float64) float64   { return share * s.margin() }
func anyJump(s Setting, share float64) float64     { return share * s.ttl() }
func anyRate(_ Setting, share float64) float64     { return 1 + share }
func anyStay(s Setting, share float64) float64     { return (0.1 + 0.8*share) * s.lease() }

// When the key on the shared nodes is gone, counted from where it was applied: it has lapsed by
// a clock that has jumped or runs fast, or the node is back without it.
func afterJump(s Setting, by float64) float64      { return s.ttl() - by }
func afterDrift(s Setting, rate float64) float64   { return s.ttl() / rate }
func afterRestart(_ Setting, stay float64) float64 { return after.Seconds() + stay }

// jumpWithDrift is jump where the key ends at applied + (TTL - v)/rate.
func jumpWithDrift(s Setting, rate float64) *Edge {
	return &Edge{Sum: s.ttl() - rate*s.lease(), Formula: "TTL − rate·(TTL − drift·TTL − 2 ms)",
		Safe: s.ttl() - rate*(s.lease()-2*s.low()) - tick, Certain: s.ttl() - rate*(s.lease()-s.gap()-4*s.high()) + tick}
}

// driftWithJump is drift where the key ends at applied + (TTL - by)/v.
func driftWithJump(s Setting, by float64) *Edge {
	left := s.ttl() - by
	return &Edge{Sum: left / s.lease(), Formula: "(TTL − jump) ÷ (TTL − drift·TTL − 2 ms)",
		Safe: (left - tick) / (s.lease() - 2*s.low()), Certain: (left + tick) / (s.lease() - s.gap() - 4*s.high())}
}

// late is how much later a node that was away may be had: its first answers come late, over
// new connections.
func (s Setting) late() float64 { return s.Timeout.Seconds() + 7*s.high() }

// writeIf is the edge of a write by a holder who gives up at the bound at the latest, where the key
// is gone sooner: lateWrite's bound is the TTL, delayedWrite's the end of the lease.
func writeIf(bound func(Setting) float64, formula string, gone func(Setting, float64) float64) func(Setting, float64) *Edge {
	return func(s Setting, with float64) *Edge {
		if s.Fence {
			return nil
		}
		at := min(bound(s), gone(s, with))
		return &Edge{Sum: at, Formula: formula, Safe: at - 9*s.high() - tick, Certain: at + s.gap() + 8*s.high() + s.late() + tick}
	}
}

func lateWriteIf(gone func(Setting, float64) float64) func(Setting, float64) *Edge {
	return writeIf(Setting.ttl, "when the key is gone", gone)
}

func delayedWriteIf(gone func(Setting, float64) float64) func(Setting, float64) *Edge {
	return writeIf(Setting.lease, "when the key is gone, or the lease is over", gone)
}
