package liveness

import (
	"cmp"
	"slices"
	"sort"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// setBack is that a node's clock was set back: what it keeps lives longer by as much.
type setBack struct {
	spans.Span // in which it happened
	by         int64
}

// setBacks is the steps back of one node's clock, in order, so that nobody need look at
// each of them to know by how much a key lives longer.
type setBacks struct {
	steps []setBack     // in the order of their begin
	by    []int64       // the sum of the steps before each; and of all
	ends  []setBack     // in the order of their end
	over  []int64       // the sum of those before each; and of all
	begin history.Peaks // of each step, less the sum of those before it
	great bool          // the sums may overflow
}

// setBacksOf puts steps in order. It keeps them.
func setBacksOf(steps []setBack) *setBacks {
	b := &setBacks{steps: steps, ends: slices.Clone(steps)}
	slices.SortStableFunc(b.steps, func(x, y setBack) int { return cmp.Compare(x.From, y.From) })
	slices.SortStableFunc(b.ends, func(x, y setBack) int { return cmp.Compare(x.To, y.To) })
	b.by, b.over = sums(b.steps), sums(b.ends)
	begins := make([]int64, len(steps))
	for i, s := range b.steps {
		begins[i] = s.From - b.by[i]
		b.great = b.great || max(s.From, -s.From, s.by, b.by[i+1], -b.by[i+1]) > facts.Never/8 || s.From == spans.Ever
	}
	b.begin = history.PeaksOf(begins)
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
	if lapse == facts.Never {
		return facts.Never
	}
	if b.great {
		for _, s := range b.steps {
			if s.To >= at && s.From <= lapse {
				lapse = spans.Plus(lapse, s.by)
			}
		}
		return lapse
	}
	first := sort.Search(len(b.steps), func(i int) bool { return b.steps[i].From >= at })
	done := sort.Search(len(b.ends), func(i int) bool { return b.ends[i].To >= at })
	if lapse = spans.Plus(lapse, b.by[first]-b.over[done]); lapse == facts.Never { // those under way at the instant
		return facts.Never
	}
	missed := b.begin.From(first, lapse-b.by[first]+1) // the first step that comes too late to give it more
	return spans.Plus(lapse, b.by[missed]-b.by[first])
}

// jumps is how far a fault sets a node's clock forward, or back where it is negative;
// 0 if that isn't all that it does, or the record doesn't tell. Where a replica took
// the node's place the clock is another one, and not among the nodes' own.
func jumps(r *facts.Facts, own map[string]bool, f *facts.Fault) int64 {
	i := f.Step - 1
	if f.Kind != facts.ClockJump || i < 0 || i >= len(r.Params.Steps) || !own[f.Target] {
		return 0
	}
	return int64(r.Params.Steps[i].By)
}

// ownClocks is the nodes whose place no replica took.
func ownClocks(r *facts.Facts) map[string]bool {
	own := map[string]bool{}
	for _, n := range r.Params.Nodes {
		own[n] = true
	}
	for _, f := range r.Faults {
		if f.Kind == facts.Failover {
			delete(own, f.Target)
		}
	}
	return own
}

// during is the span in which a fault may have been in force: from its first event until
// its end, which is stamped before it begins, has surely been done. A node has to start.
func during(r *facts.Facts, f *facts.Fault) spans.Span {
	s := spans.Of(f.First().T, facts.Never)
	if f.End != nil {
		s.To = f.End.T + int64(r.Params.Slack)
	}
	return s
}

// lapses says when keys have lapsed, on whichever node.
type lapses struct {
	life int64                // how long a key lives at the longest, by a right clock
	back map[string]*setBacks // all steps back of the nodes' clocks, by node
}

// lapsesOf finds the steps back in a record. A clock that was set forward is set
// back when the fault ends.
func lapsesOf(r *facts.Facts, own map[string]bool) lapses {
	l := lapses{life: facts.Never, back: map[string]*setBacks{}}
	if r.Params.TTL != 0 {
		l.life = int64(float64(r.Params.TTL) * (1 + r.Params.Rate))
	}
	all := map[string][]setBack{}
	for _, f := range r.Faults {
		switch by := jumps(r, own, f); {
		case by < 0 && f.Begin != nil:
			all[f.Target] = append(all[f.Target], setBack{spans.Of(f.First().T, f.Begin.T), -by})
		case by < 0: // it may have been
			all[f.Target] = append(all[f.Target], setBack{spans.Of(f.First().T, facts.Never), -by})
		case by > 0 && f.End != nil:
			all[f.Target] = append(all[f.Target], setBack{spans.Of(f.End.T, during(r, f).To), by})
		}
	}
	for node, steps := range all {
		l.back[node] = setBacksOf(steps)
	}
	return l
}

// of is when a key that was set or extended at an instant has lapsed at the latest:
// TTL·(1+ρ) later, and by as much as its node's clock was set back meanwhile.
func (l lapses) of(at int64) int64 {
	alone := spans.Plus(at, l.life)
	latest := alone
	for _, back := range l.back {
		latest = max(latest, back.lapse(at, alone))
	}
	return latest
}

// longest is how long any key may have lived.
func (l lapses) longest() int64 {
	most := int64(0)
	for _, back := range l.back {
		most = max(most, back.by[len(back.steps)])
	}
	return spans.Plus(l.life, most)
}
