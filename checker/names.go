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

// Schema is the version of the verdict's form.
const Schema = verdict.Schema

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

// Causes that others name.
const (
	ExpiredEarly       = verdict.ExpiredEarly
	RestartedAndForgot = verdict.RestartedAndForgot
	DeletedByOther     = verdict.DeletedByOther
	NeverSet           = verdict.NeverSet
	Unexplained        = verdict.Unexplained
	Overlap            = verdict.Overlap
	LockBroken         = verdict.LockBroken
	Overrun            = verdict.Overrun
	FenceBroken        = verdict.FenceBroken
	TokenOrder         = verdict.TokenOrder
	ReturnedLate       = verdict.ReturnedLate
	HeldTooLong        = verdict.HeldTooLong
	SplitVote          = verdict.SplitVote
)

// Numbers that others name.
const (
	Grants              = verdict.Grants
	GrantsPerSecond     = verdict.GrantsPerSecond
	AcquireP50          = verdict.AcquireP50
	AcquireP99          = verdict.AcquireP99
	AcquireMax          = verdict.AcquireMax
	DoubleHoldSeconds   = verdict.DoubleHoldSeconds
	DoubleHoldIncidents = verdict.DoubleHoldIncidents
	Writes              = verdict.Writes
	RefusedWrites       = verdict.RefusedWrites
	WritesOutsideBelief = verdict.WritesOutsideBelief
	LostUpdates         = verdict.LostUpdates
	RefusedHolders      = verdict.RefusedHolders
	ValidityLeftMin     = verdict.ValidityLeftMin
	ValidityLeftP50     = verdict.ValidityLeftP50
	SplitVoteRate       = verdict.SplitVoteRate
	LosingStreak        = verdict.LosingStreak
	Bypasses            = verdict.Bypasses
	JainIndex           = verdict.JainIndex
	UnavailableSeconds  = verdict.UnavailableSeconds
	UnavailableShare    = verdict.UnavailableShare
	UnavailableMax      = verdict.UnavailableMax
	DeathToGrant        = verdict.DeathToGrant
	OrphanKeys          = verdict.OrphanKeys
	StalledSeconds      = verdict.StalledSeconds
	StalledMax          = verdict.StalledMax
)

// Causes lists what a violation may be put down to, Numbers the names of what is measured.
func Causes() []string  { return verdict.Causes() }
func Numbers() []string { return verdict.Numbers() }

// Visualize writes porcupine's picture of a verdict's violation: see package second.
func Visualize(w io.Writer, h *history.History, v Verdict) (shown bool, err error) {
	return second.Visualize(w, h, v)
}
