// Package checker judges a history and nothing else: it knows no backend, no
// fault injector and no expectation.
//
// Check answers with a Verdict: for each property holds, violated or undecided,
// why in one sentence, and where it is violated the cause and a Witness, the
// numbers of the events that prove it. Before any property come the
// assumptions: a history that is malformed or vacuous is undecided, whatever
// else it shows.
//
// Deliberately missing: how the history was made, and what somebody hoped for.
package checker

import (
	"lockpick/harness/history"
)

// Outcome is one of three values, never two.
type Outcome string

const (
	Holds     Outcome = "holds"
	Violated  Outcome = "violated"
	Undecided Outcome = "undecided"
)

// Names of the properties.
const (
	MutualExclusion = "mutual-exclusion"
	ResourceSafety  = "resource-safety"
	DeadlockFreedom = "deadlock-freedom"
)

// Causes of a mutual-exclusion violation.
const (
	ExpiredEarly       = "expired-early"
	GrantedLate        = "granted-late"
	RestartedAndForgot = "restarted-and-forgot"
	DeletedByOther     = "deleted-by-other"
	Overwritten        = "overwritten"
	NeverSet           = "never-set"
	GivenShorter       = "given-shorter"
	ClientClock        = "client-clock"
	Unexplained        = "unexplained"
)

// Classes of harm to the resource.
const (
	LockBroken  = "lock-broken"  // both sides worked inside their leases
	Overrun     = "overrun"      // some apply lies outside its session's lease
	FenceBroken = "fence-broken" // the fence was on, and the write was applied all the same
)

// Verdict is the judgement of one history.
type Verdict struct {
	Schema int `json:"schema"`
	// Assumption is why nothing can be decided, "" if all assumptions hold.
	Assumption string `json:"assumption,omitempty"`
	// Disagreement is what the second judge (porcupine) contradicts; "" if it agrees. It is a
	// bug in one of the two judges, never a verdict.
	Disagreement string `json:"disagreement,omitempty"`
	// Cut is history.Cut: the record was judged up to there.
	Cut     string             `json:"cut,omitempty"`
	Results []Result           `json:"results"`
	Numbers map[string]float64 `json:"numbers,omitempty"` // measured and reported, not judged
}

// Result is the judgement of one property.
type Result struct {
	Property  string   `json:"property"`
	Outcome   Outcome  `json:"outcome"`
	Because   string   `json:"because"`             // one sentence
	Occasions int      `json:"occasions"`           // how often the property was put to the test
	Incidents int      `json:"incidents,omitempty"` // how often it was violated
	Cause     string   `json:"cause,omitempty"`     // of the violation shown: a cause or a class above
	Node      string   `json:"node,omitempty"`      // the node to blame, where there is one
	Witness   *Witness `json:"witness,omitempty"`
}

// Witness proves a violation by at most two sessions.
type Witness struct {
	Events   []int64  `json:"events"`   // numbers (N), in the order of time
	Sessions []string `json:"sessions"` // the earlier one first
	Key      string   `json:"key"`
	From     int64    `json:"from"` // the harm's span of true time, nanoseconds
	To       int64    `json:"to"`
}

// Result returns the result for a property, or nil.
func (v Verdict) Result(property string) *Result {
	for i := range v.Results {
		if v.Results[i].Property == property {
			return &v.Results[i]
		}
	}
	return nil
}

// Properties lists the names of all properties in the order of reports.
func Properties() []string { return []string{MutualExclusion, ResourceSafety, DeadlockFreedom} }

// Check judges a history by the named properties, or by all if none is named.
func Check(h *history.History, properties ...string) Verdict {
	panic("to be written")
}
