// Package second puts histories before porcupine, as a second judge of
// lease-linearizability, and draws what it finds.
//
// A Judge asks about all sessions of a lock, or about a witness alone. A Question is one
// operation as porcupine is asked about it; visualize.go has its picture of a violation.
//
// It shares no line with package lease, which answers the same Question by another
// algorithm: a mistake in one shows as a disagreement. Whoever asks waits for real time, so
// ask outside any bubble of virtual time.
//
// Deliberately missing: what violates mutual exclusion must violate this Question too, but
// not the other way, and the fast procedure's findings are not seen here.
package second

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Timeout bounds the search, in real time.
const Timeout = 2 * time.Second

// Judge asks porcupine about a record whether one lease lock could have given its answers:
// Holds, Violated, or Undecided where it ran out of time or a key has more than Operations
// or mostUnknown.
type Judge struct {
	r       *facts.Facts
	answers map[*facts.Lock]verdict.Outcome // about whole locks
}

// New is the second judge of a record.
func New(r *facts.Facts) Judge { return Judge{r, map[*facts.Lock]verdict.Outcome{}} }

// Answer is about all locks. A malformed record is Undecided.
func (j Judge) Answer(timeout time.Duration) verdict.Outcome {
	if j.r.Malformed != "" {
		return verdict.Undecided
	}
	until := time.Now().Add(timeout)
	answer := verdict.Holds
	for _, l := range j.r.Locks {
		switch j.Whole(l, max(time.Until(until), time.Millisecond)) {
		case verdict.Violated:
			return verdict.Violated
		case verdict.Undecided:
			answer = verdict.Undecided
		}
	}
	return answer
}

// Against says what porcupine has against a violation, or "". It is asked
// about the witness alone, and about all sessions of its key where these are few.
func (j Judge) Against(res *verdict.Result) string {
	if res == nil || res.Outcome != verdict.Violated || unheard(j.r.Params, res.Property) {
		return ""
	}
	l := j.r.Lock(res.Witness.Key)
	if j.Some(slices.Values(res.Witness.Of), Timeout) == verdict.Holds {
		return fmt.Sprintf("porcupine finds nothing wrong with the witness of %s, sessions %s", res.Property, verdict.List(res.Witness.Sessions))
	}
	if j.Whole(l, Timeout) == verdict.Holds {
		return fmt.Sprintf("porcupine finds nothing wrong with %s, though %s is violated", verdict.LockName(res.Witness.Key), res.Property)
	}
	return ""
}

// unheard says whether porcupine can have no part in a violation: no lease lock contradicts what
// nobody was told.
func unheard(p history.Params, property string) bool {
	return property == verdict.MutualExclusion && p.Untold
}

// Whole puts all sessions of one lock before porcupine, until it has decided.
func (j Judge) Whole(l *facts.Lock, timeout time.Duration) verdict.Outcome {
	if j.answers[l] == "" {
		j.answers[l] = j.Some(l.Sessions(), timeout)
	}
	return j.answers[l]
}

// Some puts some sessions of one key before porcupine.
func (j Judge) Some(ss iter.Seq[*facts.Session], timeout time.Duration) verdict.Outcome {
	ops, few := questions(j.r, ss)
	if !few {
		return verdict.Undecided
	}
	switch porcupine.CheckOperationsTimeout(Model, ops, timeout) {
	case porcupine.Ok:
		return verdict.Holds
	case porcupine.Illegal:
		return verdict.Violated
	}
	return verdict.Undecided
}

// Limits of the search, which is exponential in unknown outcomes.
const (
	operations  = 60 // of one key, at most
	mostUnknown = 8  // of these without an outcome
)

// Question is one operation as porcupine is asked about it. The translation is its own,
// and shares nothing with that of the fast procedure.
type Question struct {
	Owner   int // the session, from 1
	Op      string
	Outcome history.Type
	Call    int64
	Return  int64  // Never, if the outcome is unknown
	Until   int64  // the earliest true time at which the lease may lapse
	client  string // whose operations are in the order of their numbers,
	before  int    // and how many with an answer come before this one
}

// questions translates sessions for porcupine. It reports false where that is too much
// for its search.
func questions(r *facts.Facts, ss iter.Seq[*facts.Session]) (all []porcupine.Operation, few bool) {
	owner, unknown := 0, 0
	for s := range ss {
		owner++
		for _, o := range questionsOf(r, s, owner) {
			if all = append(all, o); o.Input.(Question).Outcome == history.Info {
				unknown++
			}
		}
		if len(all) > operations || unknown > mostUnknown {
			return nil, false
		}
	}
	inTurn(all)
	return all, true
}

// inTurn puts operations in the order of their numbers, which they bear as ClientId until
// then, and counts for each what its client did before it.
func inTurn(all []porcupine.Operation) {
	slices.SortFunc(all, func(a, b porcupine.Operation) int { return cmp.Compare(a.ClientId, b.ClientId) })
	answered := map[string]int{}
	for i := range all {
		q := all[i].Input.(Question)
		q.before = answered[q.client]
		if q.Outcome != history.Info {
			answered[q.client]++
		}
		all[i].Input, all[i].ClientId = q, i
	}
}

// questionsOf is one session's. A failed acquire says nothing, nor does an extension of
// unknown outcome.
func questionsOf(r *facts.Facts, s *facts.Session, owner int) (all []porcupine.Operation) {
	ε := int64(r.Params.StampError)
	until := int64(math.MinInt64)
	ask := func(o facts.Operation) {
		q := Question{Owner: owner, Op: o.Call.Op, Outcome: history.Info, Call: o.Call.T - ε, Return: facts.Never, Until: facts.Never, client: s.Client()}
		if o.Return != nil && o.Return.Type != history.Info {
			q.Outcome, q.Return = o.Return.Type, o.Return.T+ε
		}
		switch {
		case q.Op == history.OpRelease, q.Op == history.OpExtend && q.Outcome == history.Fail:
		case q.Op != history.OpAcquire && q.Op != history.OpExtend, q.Op == history.OpAcquire && q.Outcome == history.Fail, q.Op == history.OpExtend && q.Outcome == history.Info:
			return
		case q.Outcome == history.OK:
			switch claims := o.Return.ValidUntil; {
			case claims == 0 && until == math.MinInt64:
				until = facts.Never
				if t, gone := r.Gone[s.Client()]; gone && r.Params.TTL > 0 { // nobody says how long it goes on without its client
					until = t
				}
			case claims == 0:
			case claims < o.Return.T && q.Op == history.OpExtend:
				until = min(until, o.Return.T)
			default:
				until = claims
			}
			if q.Until = until; r.Params.Untold { // it may lapse at any time
				q.Until = math.MinInt64
			}
		default:
			q.Until = until
		}
		if q.Until != facts.Never && q.Until != math.MinInt64 {
			q.Until -= ε
		}
		all = append(all, porcupine.Operation{ClientId: int(o.Call.N), Input: q, Call: q.Call, Return: q.Return, Metadata: q.client})
	}
	ask(s.Acquire)
	for a := range s.Actions() {
		ask(a)
	}
	return all
}

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
