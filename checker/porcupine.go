package checker

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"lockpick/harness/history"
)

// Limits of the second judge. Its search is exponential in unknown outcomes.
const (
	SecondOperations = 60              // of one key, at most
	SecondUnknown    = 8               // of these without an outcome
	SecondTimeout    = 2 * time.Second // of real time
)

// Second asks porcupine whether one lease lock could have given the answers in a
// history: Holds, Violated, or Undecided where it ran out of time or a key has
// more than SecondOperations or SecondUnknown. It answers the question of leaseLinearizable by
// another algorithm. What violates mutual exclusion must violate this too, but
// not the other way: a definite no inside a lease that nobody else got is fine
// there. A malformed history is Undecided.
func Second(h *history.History, timeout time.Duration) Outcome {
	r := newRecord(h)
	if r.Malformed != "" {
		return Undecided
	}
	return r.second(timeout)
}

func (r *record) second(timeout time.Duration) Outcome {
	until := time.Now().Add(timeout)
	answer := Holds
	for _, l := range r.Locks {
		switch r.whole(l, max(time.Until(until), time.Millisecond)) {
		case Violated:
			return Violated
		case Undecided:
			answer = Undecided
		}
	}
	return answer
}

// disagreements says where the judges contradict each other, or "": porcupine
// the violations that were found, porcupine lease-linearizable as a whole in
// either direction, and the certificate a verdict that it holds.
func (r *record) disagreements(v Verdict) string {
	for _, name := range []string{MutualExclusion, LeaseLinearizable} {
		if why := disagreement(r, v.Result(name)); why != "" {
			return why
		}
	}
	first := v.Result(LeaseLinearizable)
	if first == nil || first.Outcome == Undecided {
		return ""
	}
	answer := first.Outcome.answer()
	if answer == Holds {
		for _, k := range r.leases() {
			why := k.doubt
			if k.worst != nil {
				why = k.worst.because(r)
			}
			if why != "" {
				return fmt.Sprintf("%s is said to hold, but %s", LeaseLinearizable, why)
			}
		}
	}
	if v.Second != Undecided && v.Second != answer {
		return fmt.Sprintf("%s came out as %s, and porcupine answers %s", LeaseLinearizable, first.Outcome, v.Second)
	}
	return ""
}

// answer is what an outcome says to the second judge's question, which asks for no
// occasion.
func (o Outcome) answer() Outcome {
	if o == NotExercised {
		return Holds
	}
	return o
}

// disagreement says what porcupine has against a violation, or "". It is asked
// about the witness alone, and about all sessions of its key where these are few.
func disagreement(r *record, res *Result) string {
	if res == nil || res.Outcome != Violated {
		return ""
	}
	l := r.Lock(res.Witness.Key)
	if r.linearizable(slices.Values(res.Witness.of), SecondTimeout) == Holds {
		return fmt.Sprintf("porcupine finds nothing wrong with the witness of %s, sessions %s", res.Property, list(res.Witness.Sessions))
	}
	if r.whole(l, SecondTimeout) == Holds {
		return fmt.Sprintf("porcupine finds nothing wrong with %s, though %s is violated", lockName(res.Witness.Key), res.Property)
	}
	return ""
}

// whole puts all sessions of one lock before porcupine, until it has decided.
func (r *record) whole(l *lock, timeout time.Duration) Outcome {
	if r.answers[l] == "" {
		r.answers[l] = r.linearizable(l.Sessions(), timeout)
	}
	return r.answers[l]
}

// linearizable puts some sessions of one key before porcupine.
func (r *record) linearizable(ss iter.Seq[*session], timeout time.Duration) Outcome {
	ops := r.leaseOps(ss)
	unknown := 0
	for _, o := range ops {
		if o.Input.(leaseOp).outcome == history.Info {
			unknown++
		}
	}
	if len(ops) > SecondOperations || unknown > SecondUnknown {
		return Undecided
	}
	switch porcupine.CheckOperationsTimeout(leaseModel, ops, timeout) {
	case porcupine.Ok:
		return Holds
	case porcupine.Illegal:
		return Violated
	}
	return Undecided
}

// leaseOps translates sessions for porcupine. Each operation has a client of its
// own: the order within a session is in its stamps already, and an error of the
// stamps may make them overlap. What is too much for the search is not translated
// to its end.
func (r *record) leaseOps(ss iter.Seq[*session]) []porcupine.Operation {
	var ops []porcupine.Operation
	owner := 0
	for s := range ss {
		owner++
		ops = putLeaseOps(ops, owner, r.operationsOf(s))
		if len(ops) > SecondOperations {
			break
		}
	}
	return ops
}

// putLeaseOps adds one owner's operations, in porcupine's form.
func putLeaseOps(ops []porcupine.Operation, owner int, of []leaseOp) []porcupine.Operation {
	for _, o := range of {
		o.owner = owner
		ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: o, Call: o.call, Return: o.ret})
	}
	return ops
}

// lease is one possible state of the lease object: who owns it (0: free), when
// that lease may lapse at the earliest, and the earliest that it can be by now.
type lease struct {
	owner int
	lapse int64
	now   int64
}

// leaseModel is the lease object as a set of possible states, with time in them:
//
//	acquire ok    free → held        release ok    held → free
//	extend ok     held → held        release or extend fail    not held by the caller
//	unknown       took effect at some time after its call, or never
//	expire        held → free at any time from its lapse, or never
//
// Expiry is part of each step. As operations of its own, it blows the search up
// even on histories that are fine.
var leaseModel = porcupine.Model{
	Init: func() any { return []lease{{now: math.MinInt64}} },
	StepContext: func(ctx context.Context, state, input, _ any) (bool, any) {
		var next []lease
		for _, s := range state.([]lease) {
			if ctx.Err() != nil {
				return false, next
			}
			next = s.step(next, input.(leaseOp))
		}
		next = prune(next)
		return len(next) > 0, next
	},
	Equal: func(a, b any) bool { return slices.Equal(a.([]lease), b.([]lease)) },
	Hash: func(state any) uint64 {
		h := uint64(14695981039346656037) // FNV-1a, over numbers in place of bytes
		for _, s := range state.([]lease) {
			for _, x := range []int64{int64(s.owner), s.lapse, s.now} {
				h = (h ^ uint64(x)) * 1099511628211
			}
		}
		return h
	},
	DescribeOperation: func(input, _ any) string {
		o := input.(leaseOp)
		return fmt.Sprintf("%s %s (session %d)", o.op, o.outcome, o.owner)
	},
}

// step adds the states that an operation can lead to from s: with or without an
// expiry before it, and for an unknown one also as if it had never been.
func (s lease) step(next []lease, o leaseOp) []lease {
	if o.outcome == history.Info {
		next = append(next, s)
	}
	now := max(s.now, o.call)
	if now <= o.ret {
		next = lease{s.owner, s.lapse, now}.apply(next, o)
	}
	if expired := max(now, s.lapse); s.owner != 0 && s.lapse != never && expired <= o.ret {
		next = lease{now: expired}.apply(next, o)
	}
	return next
}

// apply adds the state that an operation leads to if it takes effect now.
func (s lease) apply(next []lease, o leaseOp) []lease {
	holds := s.owner == o.owner
	if o.outcome == history.Fail {
		if !holds {
			next = append(next, s)
		}
		return next
	}
	switch {
	case o.op == history.OpAcquire && s.owner == 0:
		next = append(next, lease{o.owner, o.lapse, s.now})
	case o.op == history.OpExtend && holds:
		next = append(next, lease{o.owner, o.lapse, s.now})
	case o.op == history.OpRelease && holds:
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
