// Package second puts histories before porcupine, as a second judge of
// lease-linearizability, and draws what it finds.
//
// A Judge asks about all sessions of a lock, or about a witness alone. A Question is one
// operation as porcupine is asked about it; model.go is the lease object that porcupine knows,
// visualize.go its picture of a violation.
//
// It shares no line with package lease, which answers the same Question by another
// algorithm: a mistake in one shows as a disagreement. Whoever asks waits for real time, so
// ask outside any bubble of virtual time.
//
// Deliberately missing: what violates mutual exclusion must violate this Question too, but
// not the other way, and the fast procedure's findings are not seen here.
package second

import (
	"fmt"
	"iter"
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
// or Unknown.
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
