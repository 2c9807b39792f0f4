package checker

import (
	"cmp"
	"slices"
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

// jumps is how far a fault sets a node's clock forward, or back where it is negative;
// 0 if that isn't all that it does, or the record doesn't tell. Where a replica took
// the node's place the clock is another one.
func (r *record) jumps(f *fault) int64 {
	i := f.Step - 1
	if f.Kind != clockJump || i < 0 || i >= len(r.Params.Steps) || !slices.Contains(r.Params.Nodes, f.Target) {
		return 0
	}
	if slices.ContainsFunc(r.Faults, func(o *fault) bool { return o.Kind == failedOver && o.Target == f.Target }) {
		return 0
	}
	return int64(r.Params.Steps[i].By)
}

// setBacks is all steps back of the nodes' clocks, by node, in the order of time. One
// that was set forward is set back when the fault ends.
func (r *record) setBacks() map[string][]setBack {
	if r.back != nil {
		return r.back
	}
	r.back = map[string][]setBack{}
	for _, f := range r.Faults {
		switch by := r.jumps(f); {
		case by < 0 && f.Begin != nil:
			r.back[f.Target] = append(r.back[f.Target], setBack{interval{f.First().T, f.Begin.T}, -by})
		case by < 0: // it may have been
			r.back[f.Target] = append(r.back[f.Target], setBack{interval{f.First().T, never}, -by})
		case by > 0 && f.End != nil:
			r.back[f.Target] = append(r.back[f.Target], setBack{interval{f.End.T, r.during(f).to}, by})
		}
	}
	for _, steps := range r.back {
		slices.SortStableFunc(steps, func(a, b setBack) int { return cmp.Compare(a.from, b.from) })
	}
	return r.back
}

// lapse is when a key that was set or extended at an instant has lapsed at the latest,
// on whichever node: TTL·(1+ρ) later, and by as much as its clock was set back meanwhile.
func (r *record) lapse(at int64) int64 {
	latest := plus(at, r.life())
	for _, steps := range r.setBacks() {
		lapse := plus(at, r.life())
		for _, s := range steps {
			if s.to >= at && s.from <= lapse {
				lapse = plus(lapse, s.by)
			}
		}
		latest = max(latest, lapse)
	}
	return latest
}

// stepsBack is by how much any key may have lived longer.
func (r *record) stepsBack() int64 {
	most := int64(0)
	for _, steps := range r.setBacks() {
		sum := int64(0)
		for _, s := range steps {
			sum += s.by
		}
		most = max(most, sum)
	}
	return most
}
