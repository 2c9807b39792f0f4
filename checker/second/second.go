// Package second is a second judge of lease-linearizability. It checks histories with porcupine and
// draws porcupine's findings.
//
// A Judge checks all sessions of a lock, or a witness alone. A Question is one operation in
// porcupine's terms. visualize.go writes porcupine's page about a violation.
//
// Package lease decides the same question by another algorithm. The two share no code and do not
// see each other's findings, so that a mistake in one of them shows as a disagreement. Searches are
// limited in real time, so call this package outside bubbles of virtual time.
//
// A violation of mutual exclusion must be a violation here, but not vice versa.
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

// Timeout limits the search in real time.
const Timeout = 2 * time.Second

// Judge asks porcupine whether a single lease lock could have produced a record's results. The
// answer is Holds, Violated or Undecided. It is Undecided if time ran out, or if a key has too many
// operations or unknown outcomes.
type Judge struct {
	r       *facts.Facts
	answers map[*facts.Lock]verdict.Outcome // cached answers about all sessions of a lock
}

func New(r *facts.Facts) Judge { return Judge{r, map[*facts.Lock]verdict.Outcome{}} }

// Answer judges all locks. A malformed record is Undecided.
func (j Judge) Answer(timeout time.Duration) verdict.Outcome {
	if j.r.Defect != "" {
		return verdict.Undecided
	}
	until := time.Now().Add(timeout)
	answer := verdict.Holds
	for _, l := range j.r.Locks {
		switch j.AnswerLock(l, max(time.Until(until), time.Millisecond)) {
		case verdict.Violated:
			return verdict.Violated
		case verdict.Undecided:
			answer = verdict.Undecided
		}
	}
	return answer
}

// Contradiction describes how porcupine contradicts a violation, or returns "" if it does not. It
// checks the witness alone, and all sessions of its key unless there are too many.
func (j Judge) Contradiction(res *verdict.Result) string {
	if res == nil || res.Outcome != verdict.Violated || isInvisible(j.r.Params, res.Property) {
		return ""
	}
	l := j.r.Lock(res.Witness.Key)
	if j.AnswerSessions(slices.Values(res.Witness.SessionFacts), Timeout) == verdict.Holds {
		return fmt.Sprintf("porcupine finds nothing wrong with the witness of %s, sessions %s", res.Property, verdict.JoinNames(res.Witness.Sessions))
	}
	if j.AnswerLock(l, Timeout) == verdict.Holds {
		return fmt.Sprintf("porcupine finds nothing wrong with %s, but %s is violated", verdict.LockName(res.Witness.Key), res.Property)
	}
	return ""
}

// isInvisible reports whether porcupine can't see a violation. Without deadlines or loss
// notifications, two holders don't contradict a lease lock.
func isInvisible(p history.Params, property string) bool {
	return property == verdict.MutualExclusion && p.NoLossNotice
}

// AnswerLock judges all sessions of a lock. It caches the answer.
func (j Judge) AnswerLock(l *facts.Lock, timeout time.Duration) verdict.Outcome {
	if j.answers[l] == "" {
		j.answers[l] = j.AnswerSessions(l.Sessions(), timeout)
	}
	return j.answers[l]
}

// AnswerSessions judges some of the sessions of one key.
func (j Judge) AnswerSessions(ss iter.Seq[*facts.Session], timeout time.Duration) verdict.Outcome {
	ops, ok := questions(j.r, ss)
	if !ok {
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

// Limits on the search, which is exponential in the number of unknown outcomes.
const (
	maxOperations = 60 // operations on one key
	maxUnknown    = 8  // operations without an outcome
)

// Question is one operation in porcupine's terms. Its translation shares nothing with package
// lease.
type Question struct {
	Owner     int // the session, counted from 1
	Op        string
	Outcome   history.Type
	Call      int64
	Return    int64  // Never if the outcome is unknown
	Expiry    int64  // when the lease may expire at the earliest, in true time
	client    string // a client's operations take effect in the order of their numbers
	numBefore int    // number of answered operations that the client called before this one
}

// questions translates sessions for porcupine. ok is false if there are too many operations for
// porcupine's search.
func questions(r *facts.Facts, ss iter.Seq[*facts.Session]) (all []porcupine.Operation, ok bool) {
	owner, numUnknown := 0, 0
	for s := range ss {
		owner++
		for _, o := range questionsOf(r, s, owner) {
			if all = append(all, o); o.Input.(Question).Outcome == history.Info {
				numUnknown++
			}
		}
		if len(all) > maxOperations || numUnknown > maxUnknown {
			return nil, false
		}
	}
	sortByNumber(all)
	return all, true
}

// sortByNumber sorts operations by number and counts, for each operation, the answered operations
// that its client called before it. On entry, each ClientId holds the operation's number.
func sortByNumber(all []porcupine.Operation) {
	slices.SortFunc(all, func(a, b porcupine.Operation) int { return cmp.Compare(a.ClientId, b.ClientId) })
	answerCounts := map[string]int{}
	for i := range all {
		q := all[i].Input.(Question)
		q.numBefore = answerCounts[q.client]
		if q.Outcome != history.Info {
			answerCounts[q.client]++
		}
		all[i].Input, all[i].ClientId = q, i
	}
}

// questionsOf translates one session. Failed acquires and extensions of unknown outcome say nothing
// about the lease, so it omits them.
func questionsOf(r *facts.Facts, s *facts.Session, owner int) (all []porcupine.Operation) {
	ε := int64(r.Params.StampError)
	until := int64(math.MinInt64)
	add := func(o facts.Operation) {
		q := Question{Owner: owner, Op: o.Call.Op, Outcome: history.Info, Call: o.Call.T - ε, Return: facts.Never, Expiry: facts.Never, client: s.Client()}
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
				if t, gone := r.GoneAt[s.Client()]; gone && r.Params.TTL > 0 { // without its client, the lease may last for any length of time
					until = t
				}
			case claims == 0:
			case claims < o.Return.T && q.Op == history.OpExtend:
				until = min(until, o.Return.T)
			default:
				until = claims
			}
			if q.Expiry = until; r.Params.NoLossNotice { // the lease may expire at any time
				q.Expiry = math.MinInt64
			}
		default:
			q.Expiry = until
		}
		if q.Expiry != facts.Never && q.Expiry != math.MinInt64 {
			q.Expiry -= ε
		}
		all = append(all, porcupine.Operation{ClientId: int(o.Call.N), Input: q, Call: q.Call, Return: q.Return, Metadata: q.client})
	}
	add(s.Acquire)
	for a := range s.Actions() {
		add(a)
	}
	return all
}

// lease is one possible state of the lease object: its owner (0 if free), the earliest instant at
// which the lease may expire, and the earliest possible current time.
type lease struct {
	owner  int
	expiry int64
	now    int64
}

// modelState is porcupine's state: the possible states of the lease object, and the number of each
// client's answered operations, which take effect in order.
type modelState struct {
	leases       []lease
	answerCounts map[string]int
}

// Model is the lease object, represented as the set of its possible states including the time:
//
//	acquire ok    free → held        release ok    held → free
//	extend ok     held → held        release or extend fail    not held by the caller
//	unknown       takes effect at some time after its call, or never
//	expire        held → free at any time from the earliest expiry on, or never
//
// Expiry is part of each step. As a separate operation it would blow up the search even on correct
// histories. A client's operations take effect in their order even if the timestamp error makes
// them overlap. An operation of unknown outcome takes effect after all operations answered before
// its call.
var Model = porcupine.Model{
	Init: func() any { return modelState{leases: []lease{{now: math.MinInt64}}} },
	StepContext: func(ctx context.Context, state, input, _ any) (bool, any) {
		c, q := state.(modelState), input.(Question)
		next := modelState{answerCounts: c.answerCounts}
		turn := c.answerCounts[q.client]
		switch {
		case q.Outcome == history.Info, q.client == "": // no order to enforce
		case turn != q.numBefore:
			return false, next
		default:
			next.answerCounts = maps.Clone(c.answerCounts)
			if next.answerCounts == nil {
				next.answerCounts = map[string]int{}
			}
			next.answerCounts[q.client]++
		}
		for _, s := range c.leases {
			if ctx.Err() != nil {
				return false, next
			}
			next.leases = s.step(next.leases, q, turn >= q.numBefore)
		}
		next.leases = prune(next.leases)
		return len(next.leases) > 0, next
	},
	Equal: func(a, b any) bool {
		x, y := a.(modelState), b.(modelState)
		return slices.Equal(x.leases, y.leases) && maps.Equal(x.answerCounts, y.answerCounts)
	},
	Hash: func(state any) uint64 {
		h := uint64(14695981039346656037) // FNV-1a over numbers instead of bytes
		for _, s := range state.(modelState).leases {
			for _, x := range []int64{int64(s.owner), s.expiry, s.now} {
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

// step appends the states to which an operation can lead from s, with and without an expiry before
// the operation. An operation of unknown outcome can have no effect, too, and it cannot take effect
// unless inTurn is set.
func (s lease) step(next []lease, q Question, inTurn bool) []lease {
	if q.Outcome == history.Info {
		next = append(next, s)
	}
	if !inTurn {
		return next
	}
	now := max(s.now, q.Call)
	if now <= q.Return {
		next = lease{s.owner, s.expiry, now}.apply(next, q)
	}
	if expiryTime := max(now, s.expiry); s.owner != 0 && s.expiry != facts.Never && expiryTime <= q.Return {
		next = lease{now: expiryTime}.apply(next, q)
	}
	return next
}

// apply appends the state to which an operation leads if it takes effect now.
func (s lease) apply(next []lease, q Question) []lease {
	isOwner := s.owner == q.Owner
	if q.Outcome == history.Fail {
		if !isOwner {
			next = append(next, s)
		}
		return next
	}
	switch {
	case q.Op == history.OpAcquire && s.owner == 0:
		next = append(next, lease{q.Owner, q.Expiry, s.now})
	case q.Op == history.OpExtend && isOwner:
		next = append(next, lease{q.Owner, q.Expiry, s.now})
	case q.Op == history.OpRelease && isOwner:
		next = append(next, lease{now: s.now})
	}
	return next
}

// prune sorts states and drops each state for which there is the same state with an earlier now.
func prune(states []lease) []lease {
	slices.SortFunc(states, func(a, b lease) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.expiry, b.expiry), cmp.Compare(a.now, b.now))
	})
	return slices.CompactFunc(states, func(a, b lease) bool { return a.owner == b.owner && a.expiry == b.expiry })
}
