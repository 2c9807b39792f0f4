package second

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// lease is one possible state of the lease object: who owns it (0: free), when
// that lease may lapse at the earliest, and the earliest that it can be by now.
type lease struct {
	owner int
	lapse int64
	now   int64
}

// ordered is what porcupine knows of the lease object: the states that it can be in, and how
// many of each client's answers have come, for they come in their order.
type ordered struct {
	leases   []lease
	answered map[string]int
}

// Model is the lease object as a set of possible states, with time in them:
//
//	acquire ok    free → held        release ok    held → free
//	extend ok     held → held        release or extend fail    not held by the caller
//	unknown       took effect at some time after its call, or never
//	expire        held → free at any time from its lapse, or never
//
// Expiry is part of each step. As operations of its own, it blows the search up
// even on histories that are fine. A client's operations take effect one after the
// other, however the error of the stamps widens them; an unknown one after those that
// were answered before its call.
var Model = porcupine.Model{
	Init: func() any { return ordered{leases: []lease{{now: math.MinInt64}}} },
	StepContext: func(ctx context.Context, state, input, _ any) (bool, any) {
		c, q := state.(ordered), input.(Question)
		next := ordered{answered: c.answered}
		turn := c.answered[q.client]
		switch {
		case q.Outcome == history.Info, q.client == "": // of nobody whose order counts
		case turn != q.before:
			return false, next
		default:
			next.answered = maps.Clone(c.answered)
			if next.answered == nil {
				next.answered = map[string]int{}
			}
			next.answered[q.client]++
		}
		for _, s := range c.leases {
			if ctx.Err() != nil {
				return false, next
			}
			next.leases = s.step(next.leases, q, turn >= q.before)
		}
		next.leases = prune(next.leases)
		return len(next.leases) > 0, next
	},
	Equal: func(a, b any) bool {
		x, y := a.(ordered), b.(ordered)
		return slices.Equal(x.leases, y.leases) && maps.Equal(x.answered, y.answered)
	},
	Hash: func(state any) uint64 {
		h := uint64(14695981039346656037) // FNV-1a, over numbers in place of bytes
		for _, s := range state.(ordered).leases {
			for _, x := range []int64{int64(s.owner), s.lapse, s.now} {
				h = (h ^ uint64(x)) * 1099511628211
			}
		}
		return h
	},
	DescribeOperation: func(input, _ any) string {
		q := input.(Question)
		return fmt.Sprintf("%s %s (session %d)", q.Op, q.Outcome, q.Owner)
	},
}

// step adds the states that an operation can lead to from s: with or without an
// expiry before it, and for an unknown one also as if it had never been. It takes effect
// only in its turn.
func (s lease) step(next []lease, q Question, inTurn bool) []lease {
	if q.Outcome == history.Info {
		next = append(next, s)
	}
	if !inTurn {
		return next
	}
	now := max(s.now, q.Call)
	if now <= q.Return {
		next = lease{s.owner, s.lapse, now}.apply(next, q)
	}
	if expired := max(now, s.lapse); s.owner != 0 && s.lapse != facts.Never && expired <= q.Return {
		next = lease{now: expired}.apply(next, q)
	}
	return next
}

// apply adds the state that an operation leads to if it takes effect now.
func (s lease) apply(next []lease, q Question) []lease {
	holds := s.owner == q.Owner
	if q.Outcome == history.Fail {
		if !holds {
			next = append(next, s)
		}
		return next
	}
	switch {
	case q.Op == history.OpAcquire && s.owner == 0:
		next = append(next, lease{q.Owner, q.Until, s.now})
	case q.Op == history.OpExtend && holds:
		next = append(next, lease{q.Owner, q.Until, s.now})
	case q.Op == history.OpRelease && holds:
		next = append(next, lease{now: s.now})
	}
	return next
}

// prune puts states in order and drops those that an earlier "now" dominates.
func prune(states []lease) []lease {
	slices.SortFunc(states, func(a, b lease) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.lapse, b.lapse), cmp.Compare(a.now, b.now))
	})
	return slices.CompactFunc(states, func(a, b lease) bool { return a.owner == b.owner && a.lapse == b.lapse })
}
