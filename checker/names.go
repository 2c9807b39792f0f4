package checker

import (
	"io"

	"lockpick/checker/second"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

// What the checker answers, under its own name: see package verdict.
type (
	Verdict = verdict.Verdict
	Result  = verdict.Result
	Witness = verdict.Witness
	Loss    = verdict.Loss
	Outcome = verdict.Outcome
)

// Outcomes.
const (
	Holds        = verdict.Holds
	Violated     = verdict.Violated
	Undecided    = verdict.Undecided
	NotExercised = verdict.NotExercised
)

// Names of the properties.
const (
	MutualExclusion   = verdict.MutualExclusion
	LeaseLinearizable = verdict.LeaseLinearizable
	ResourceSafety    = verdict.ResourceSafety
	DeadlockFreedom   = verdict.DeadlockFreedom
	FaultTolerance    = verdict.FaultTolerance
	FencingOrder      = verdict.FencingOrder
	ValidOnReturn     = verdict.ValidOnReturn
	BoundedHold       = verdict.BoundedHold
	HolderTold        = verdict.HolderTold
)

// Causes lists what a violation may be put down to, Numbers the names of what is measured.
func Causes() []string  { return verdict.Causes() }
func Numbers() []string { return verdict.Numbers() }

// Visualize writes porcupine's picture of a verdict's violation: see package second.
func Visualize(w io.Writer, h *history.History, v Verdict) (shown bool, err error) {
	return second.Visualize(w, h, v)
}
