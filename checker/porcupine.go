package checker

import (
	"cmp"
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
	ops, few := r.questions(ss)
	if !few {
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

// question is one operation as porcupine is asked about it. The translation is its own,
// and shares nothing with that of the fast procedure.
type question struct {
	owner   int // the session, from 1
	op      string
	outcome history.Type
	call    int64
	ret     int64  // never, if the outcome is unknown
	until   int64  // the earliest true time at which the lease may lapse
	client  string // whose operations are in the order of their numbers,
	before  int    // and how many with an answer come before this one
}

// questions translates sessions for porcupine. It reports false where that is too much
// for its search.
func (r *record) questions(ss iter.Seq[*session]) (all []porcupine.Operation, few bool) {
	owner, unknown := 0, 0
	for s := range ss {
		owner++
		for _, o := range r.questionsOf(s, owner) {
			if all = append(all, o); o.Input.(question).outcome == history.Info {
				unknown++
			}
		}
		if len(all) > SecondOperations || unknown > SecondUnknown {
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
		q := all[i].Input.(question)
		q.before = answered[q.client]
		if q.outcome != history.Info {
			answered[q.client]++
		}
		all[i].Input, all[i].ClientId = q, i
	}
}

// questionsOf is one session's. A failed acquire says nothing, nor does an extension of
// unknown outcome.
func (r *record) questionsOf(s *session, owner int) (all []porcupine.Operation) {
	ε := int64(r.Params.StampError)
	until := int64(math.MinInt64)
	ask := func(o operation) {
		q := question{owner: owner, op: o.Call.Op, outcome: history.Info, call: o.Call.T - ε, ret: never, until: never, client: s.Client()}
		if o.Return != nil && o.Return.Type != history.Info {
			q.outcome, q.ret = o.Return.Type, o.Return.T+ε
		}
		switch {
		case q.op == history.OpRelease, q.op == history.OpExtend && q.outcome == history.Fail:
		case q.op != history.OpAcquire && q.op != history.OpExtend, q.op == history.OpAcquire && q.outcome == history.Fail, q.op == history.OpExtend && q.outcome == history.Info:
			return
		case q.outcome == history.OK:
			switch claims := o.Return.ValidUntil; {
			case claims == 0 && until == math.MinInt64:
				until = never
			case claims == 0:
			case claims < o.Return.T && q.op == history.OpExtend:
				until = min(until, o.Return.T)
			default:
				until = claims
			}
			q.until = until
		default:
			q.until = until
		}
		if q.until != never && q.until != math.MinInt64 {
			q.until -= ε
		}
		all = append(all, porcupine.Operation{ClientId: int(o.Call.N), Input: q, Call: q.call, Return: q.ret, Metadata: q.client})
	}
	ask(s.Acquire)
	for a := range s.Actions() {
		ask(a.Operation)
	}
	return all
}
