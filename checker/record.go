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

	found     *overlaps               // memo of overlapping
	leased    []leaseKey              // memo of leases
	down      *outages                // memo of outages
	back      map[string]*setBacks    // memo of setBacks
	own       map[string]bool         // memo of ownClocks
	clients   map[string]bool         // memo of isClient
	lost      []loss                  // memo of losses
	wanting   map[string][]wanting    // memo of wantings
	tenured   map[*session]remembered // memo of tenureOf
	courses   map[*session]*course    // memo of courseOf, of long sessions
	used      usage
	tardy     *lateness         // memo of lateness
	contested []*contest        // memo of contests
	answers   map[*lock]Outcome // memo of porcupine's answers
	windowed  *lock
	windows   []window  // of windowed, memory that keys share, one after the other
	ops       []leaseOp // memory that sessions share, likewise
	spans     []int64   // and measures
}

// isClient reports whether a name is that of one of the run's clients.
func (r *record) isClient(name string) bool {
	if r.clients == nil {
		r.clients = map[string]bool{}
		for _, c := range r.Params.Clients {
			r.clients[c] = true
		}
	}
	return r.clients[name]
}

func newRecord(h *history.History) *record {
	return &record{Facts: facts.Read(h), answers: map[*lock]Outcome{}}
}
