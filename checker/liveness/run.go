package liveness

import (
	"lockpick/checker/windows"
	"lockpick/harness/history/facts"
)

// Run is a record with what its faults did and with its locks.
type Run struct {
	*conditions
	beliefs *windows.Beliefs
	locks   []*lockState
	losses  []loss
}

// Read puts a record in order.
func Read(r *facts.Facts, beliefs *windows.Beliefs) *Run {
	c := conditionsOf(r)
	locks := locksOf(c)
	return &Run{conditions: c, beliefs: beliefs, locks: locks, losses: lossesOf(c, locks)}
}
