package checker

import (
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// The nouns by which a history is judged.
type (
	session   = facts.Session
	operation = facts.Operation
	lock      = facts.Lock
	fault     = facts.Fault
	attempt   = facts.Attempt
	wire      = facts.Wire
)

// never is the instant of what did not happen, or is not known to have.
const never = facts.Never

// record is the facts of a history with what the judges have found of them so far, each
// made when it is first asked for.
type record struct {
	*facts.Facts

	found     *overlaps            // memo of overlapping
	leased    []leaseKey           // memo of leases
	down      *outages             // memo of outages
	back      map[string][]setBack // memo of setBacks
	contested []*contest           // memo of contests
	answers   map[*lock]Outcome    // memo of porcupine's answers
	windowed  *lock
	windows   []window  // of windowed, memory that keys share, one after the other
	ops       []leaseOp // memory that sessions share, likewise
	spans     []int64   // and measures
}

func newRecord(h *history.History) *record {
	return &record{Facts: facts.Read(h), answers: map[*lock]Outcome{}}
}
