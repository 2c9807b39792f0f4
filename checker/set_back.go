package checker

import (
	"cmp"
	"slices"

	"lockpick/harness/history/peaks"
)

const (
	clockJump = clockWrong + "jump"
	clockSlew = clockWrong + "slew"
)

// setBack is that a node's clock was set back: what it keeps lives longer by as much.
type setBack struct {
	interval // in which it happened
	by       int64
}

// setBacks is the steps back of one node's clock, in order, so that nobody need look at
// each of them to know by how much a key lives longer.
type setBacks struct {
	steps []setBack   // in the order of their begin
	by    []int64     // the sum of the steps before each; and of all
	to    []setBack   // in the order of their end
	over  []int64     // the sum of those before each; and of all
	begin peaks.Peaks // of each step, less the sum of those before it
	great bool        // the sums may overflow
}

// setBacksOf puts steps in order. It keeps them.
func setBacksOf(steps []setBack) *setBacks {
	b := &setBacks{steps: steps, to: slices.Clone(steps)}
	slices.SortStableFunc(b.steps, func(x, y setBack) int { return cmp.Compare(x.from, y.from) })
	slices.SortStableFunc(b.to, func(x, y setBack) int { return cmp.Compare(x.interval.to, y.interval.to) })
	b.by, b.over = sums(b.steps), sums(b.to)
	begins := make([]int64, len(steps))
	for i, s := range b.steps {
		begins[i] = s.from - b.by[i]
		b.great = b.great || max(s.from, -s.from, s.by, b.by[i+1], -b.by[i+1]) > never/8 || s.from == ever
	}
	b.begin = peaks.Of(begins)
	return b
}

func sums(steps []setBack) []int64 {
	sums := make([]int64, len(steps)+1)
	for i, s := range steps {
		sums[i+1] = sums[i] + s.by
	}
	return sums
}

// lapse is when a key that was set at an instant has lapsed at the latest, if it had by
// another without these steps.
func (b *setBacks) lapse(at, lapse int64) int64 {
	if lapse == never {
		return never
	}
	if b.great {
		for _, s := range b.steps {
			if s.to >= at && s.from <= lapse {
				lapse = plus(lapse, s.by)
			}
		}
		return lapse
	}
	order := func(from, at int64) int {
		if from < at {
			return -1
		}
		return 1
	}
	first, _ := slices.BinarySearchFunc(b.steps, at, func(s setBack, at int64) int { return order(s.from, at) })
	done, _ := slices.BinarySearchFunc(b.to, at, func(s setBack, at int64) int { return order(s.interval.to, at) })
	if lapse = plus(lapse, b.by[first]-b.over[done]); lapse == never { // those under way at the instant
		return never
	}
	missed := b.begin.From(first, lapse-b.by[first]+1) // the first step that comes too late to give it more
	return plus(lapse, b.by[missed]-b.by[first])
}

// jumps is how far a fault sets a node's clock forward, or back where it is negative;
// 0 if that isn't all that it does, or the record doesn't tell. Where a replica took
// the node's place the clock is another one.
func (r *record) jumps(f *fault) int64 {
	i := f.Step - 1
	if f.Kind != clockJump || i < 0 || i >= len(r.Params.Steps) || !r.ownClocks()[f.Target] {
		return 0
	}
	return int64(r.Params.Steps[i].By)
}

// ownClocks is the nodes whose place no replica took.
func (r *record) ownClocks() map[string]bool {
	if r.own == nil {
		r.own = map[string]bool{}
		for _, n := range r.Params.Nodes {
			r.own[n] = true
		}
		for _, f := range r.Faults {
			if f.Kind == failedOver {
				delete(r.own, f.Target)
			}
		}
	}
	return r.own
}

// setBacks is all steps back of the nodes' clocks, by node. One that was set forward is set
// back when the fault ends.
func (r *record) setBacks() map[string]*setBacks {
	if r.back != nil {
		return r.back
	}
	all := map[string][]setBack{}
	for _, f := range r.Faults {
		switch by := r.jumps(f); {
		case by < 0 && f.Begin != nil:
			all[f.Target] = append(all[f.Target], setBack{interval{f.First().T, f.Begin.T}, -by})
		case by < 0: // it may have been
			all[f.Target] = append(all[f.Target], setBack{interval{f.First().T, never}, -by})
		case by > 0 && f.End != nil:
			all[f.Target] = append(all[f.Target], setBack{interval{f.End.T, r.during(f).to}, by})
		}
	}
	r.back = map[string]*setBacks{}
	for node, steps := range all {
		r.back[node] = setBacksOf(steps)
	}
	return r.back
}

// lapse is when a key that was set or extended at an instant has lapsed at the latest,
// on whichever node: TTL·(1+ρ) later, and by as much as its clock was set back meanwhile.
func (r *record) lapse(at int64) int64 {
	alone := plus(at, r.life())
	latest := alone
	for _, back := range r.setBacks() {
		latest = max(latest, back.lapse(at, alone))
	}
	return latest
}

// stepsBack is by how much any key may have lived longer.
func (r *record) stepsBack() int64 {
	most := int64(0)
	for _, back := range r.setBacks() {
		most = max(most, back.by[len(back.steps)])
	}
	return most
}
