// Package liveness judges whether a lock can be had where the faults allow it, and measures
// how it is shared out.
//
// A Run is a record with its locks and who of their holders were lost. Files call down this
// list: fault_kinds.go (what a kind of fault takes away, and the bounds), set_back.go (when a key has
// lapsed), outages.go (who reached a majority when), freed.go and hold.go (how long a session
// may have held its lock), kept.go (keys that faults left behind), lock_state.go and callers.go
// (a lock and those who want it), lost_holders.go, why.go (why nobody got a lock),
// deadlock_freedom.go, fault_tolerance.go, unavailable.go, hung.go and fairness.go.
//
// Deliberately missing: what two holders did to each other.
package liveness

import (
	"lockpick/checker/spans"
	"lockpick/harness/history/facts"
)

// Numbers measures when the locks were to be had, and by whom. What a number can't say its
// words do.
func (r *Run) Numbers(n map[string]float64) (words map[string]string) {
	words = map[string]string{}
	fairness(r, n)
	availability(r, n, words)
	return words
}

// Run is a record with what its faults did and with its locks.
type Run struct {
	*conditions
	beliefs *spans.Beliefs
	locks   []*lockState
	losses  []loss
}

// Read puts a record in order.
func Read(r *facts.Facts, beliefs *spans.Beliefs) *Run {
	c := conditionsOf(r)
	locks := locksOf(c)
	return &Run{conditions: c, beliefs: beliefs, locks: locks, losses: lossesOf(c, locks)}
}
