package exhaust

import (
	"maps"
	"math/bits"
	"slices"
	"time"
)

// round is a round of messages, and which of their answers the client hears, so that it comes to
// what the path says.
type round struct {
	nodes   int
	all     map[int]delivery // those that arrive
	unheard []int            // nodes that answer in time, and whose answers are too late
	last    int              // the node that is heard last, where none can be left out; 0: one is missing
	decides int              // the node whose vote ends it, of a lock that returns at a quorum; 0: all are waited for
}

// asked is the round of an attempt: where grants are counted, certain nodes are heard and no others.
func (t *telling) asked(a *attempt) round {
	if t.hardened() {
		return round{nodes: t.scope.Nodes, all: a.set, decides: a.decides}
	}
	if !a.counted {
		return storyAsking(t.scope.Nodes, a.set, a.won, false)
	}
	r := round{nodes: t.scope.Nodes, all: a.set}
	for n, d := range a.set {
		switch {
		case a.heard>>(n-1)&1 == 1:
			r.last = max(r.last, n)
		case d.inTime:
			r.unheard = append(r.unheard, n)
		}
	}
	if bits.OnesCount8(a.heard) < r.nodes {
		r.last = 0
	}
	return r
}

// asking is a round that is won, definitely lost, or neither.
func storyAsking(nodes int, all map[int]delivery, won, lost bool) round {
	r := round{nodes: nodes, all: all}
	heard := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(n int) bool { return !all[n].inTime })
	agree := slices.DeleteFunc(slices.Clone(heard), func(n int) bool { return all[n].yes != won })
	against := slices.DeleteFunc(slices.Clone(heard), func(n int) bool { return all[n].yes == won })
	switch {
	case !won && !lost:
		r.unheard = heard
	case len(against) > 0:
		r.unheard = against
	case len(heard) < r.nodes:
	case r.nodes > 2: // there is a majority without one of them
		r.unheard = agree[len(agree)-1:]
	default:
		r.last = agree[0]
	}
	return r
}

// lasts is how long a round takes: until its time is up, for an answer is missing, or until some time
// before, when the last comes.
func (t *telling) lasts(r round) time.Duration {
	if r.last > 0 {
		return storyTimeout - 2*t.gap
	}
	return storyTimeout
}
