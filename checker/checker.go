package checker

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history"
)

// Schema is the version of the verdict's form.
const Schema = 1

// Outcome is one of four values, never two.
type Outcome string

const (
	Holds        Outcome = "holds"
	Violated     Outcome = "violated"
	Undecided    Outcome = "undecided"
	NotExercised Outcome = "not-exercised" // it was not violated, and had no occasion to be
)

// String is the outcome in words.
func (o Outcome) String() string { return strings.ReplaceAll(string(o), "-", " ") }

// Names of the properties.
const (
	MutualExclusion   = "mutual-exclusion"
	LeaseLinearizable = "lease-linearizable"
	ResourceSafety    = "resource-safety"
	DeadlockFreedom   = "deadlock-freedom"
	FaultTolerance    = "fault-tolerance"
	FencingOrder      = "fencing-order"
	ValidOnReturn     = "valid-on-return"
	BoundedHold       = "bounded-hold"
)

// Causes of a mutual-exclusion violation: what became of the key that one of the
// two sessions had set first, on a node that granted both.
const (
	ExpiredEarly       = "expired-early"        // it lapsed before its TTL was over: the node's clock
	GrantedLate        = "granted-late"         // it lapsed, another was granted, and only then did the acquire return
	RestartedAndForgot = "restarted-and-forgot" // the node was killed and came back without it
	LostUnsynced       = "lost-unsynced"        // the node lost its power before it had synced it
	FailedOver         = "failed-over"          // a replica took the node's place that had not got it
	DeletedByOther     = "deleted-by-other"     // a release that was not this holder's deleted it
	Overwritten        = "overwritten"          // a set that doesn't ask whether the key is free
	NeverSet           = "never-set"            // fewer nodes than a quorum granted the session
	GivenShorter       = "given-shorter"        // it lived its TTL, and the session claimed longer
	ClientClock        = "client-clock"         // the same, for the session's clock fell behind
	DeletedByHarness   = "deleted-by-harness"   // lockpick itself deleted it, or nobody whom the record names
	Flushed            = "flushed"              // with all other keys of the node
	Evicted            = "evicted"              // the node had no memory left for it
	ClocksDisagree     = "clocks-disagree"      // it got too little time, for the clocks of the client and of the node were both wrong
	Unexplained        = "unexplained"
)

// Classes of harm to the resource.
const (
	LockBroken  = "lock-broken"  // both sides worked inside their leases
	Overrun     = "overrun"      // some apply lies outside its session's lease
	FenceBroken = "fence-broken" // the fence was on, and the write was applied all the same
)

// Causes lists what a violation may be put down to: the causes of a
// mutual-exclusion violation, the ways of no lease lock, the classes of harm and
// the kinds of the properties that have their own.
func Causes() []string {
	return []string{ExpiredEarly, GrantedLate, RestartedAndForgot, LostUnsynced, FailedOver, DeletedByOther, Overwritten, NeverSet,
		GivenShorter, ClientClock, DeletedByHarness, Flushed, Evicted, ClocksDisagree, Unexplained,
		Overlap, Buried, Phantom, DoubleRelease, HeldAfter, LostEarly,
		LockBroken, Overrun, FenceBroken,
		HolderRefused, StaleAccepted, FreshRefused, TokenOrder, TokenTwice,
		ReturnedLate, ExtendedTooOften, HeldTooLong,
		LeftKeys, NoMajority, SplitVote, TooFewVotes}
}

// Verdict is the judgement of one history.
type Verdict struct {
	Schema int `json:"schema"`
	// Model is what the lock of a history of Jepsen's was taken for, "" for a run of our own.
	Model string `json:"model,omitempty"`
	// Assumption is why nothing can be decided, "" if all assumptions hold.
	Assumption string `json:"assumption,omitempty"`
	// Unplanned: the assumption that does not hold is that nobody but the plan injects faults.
	Unplanned bool `json:"unplanned,omitempty"`
	// Cut is history.Cut: the record was judged up to there.
	Cut string `json:"cut,omitempty"`
	// Second is the second judge's answer, porcupine's, to the question of
	// lease-linearizable. Undecided where a key has too many operations for its search.
	// What violates mutual exclusion must violate this.
	Second Outcome `json:"second"`
	// Disagreement is where porcupine, or the certificate of lease-linearizable, contradicts
	// what was found here, "" as it must be: anything else is a bug in lockpick, and nothing is proven.
	Disagreement string `json:"disagreement,omitempty"`

	Results []Result           `json:"results"`
	Numbers map[string]float64 `json:"numbers,omitempty"` // measured and reported, not judged
	// Words says what a number can't, by the number's name: the cause of what it measures.
	Words map[string]string `json:"words,omitempty"`
}

// Result is the judgement of one property.
type Result struct {
	Property  string  `json:"property"`
	Outcome   Outcome `json:"outcome"`
	Because   string  `json:"because"`             // one sentence
	Occasions int     `json:"occasions"`           // how often the property was put to the test
	Incidents int     `json:"incidents,omitempty"` // how often it was violated
	Cause     string  `json:"cause,omitempty"`     // of the violation shown: a cause or a class above
	Node      string  `json:"node,omitempty"`      // the node to blame, where there is one
	// Losses is why each node that granted both sessions could, in the order of nodes: the
	// facts that Cause sums up. Spare is how many of these nodes' votes the second could have
	// done without; 0: each loss was needed.
	Losses []Loss `json:"losses,omitempty"`
	Spare  int    `json:"spare,omitempty"`
	// Stalled is the longest stall of the machine, in seconds, that may be why the outcome is
	// not another: see stalled.go. 0: there was none.
	Stalled float64  `json:"stalled,omitempty"`
	Witness *Witness `json:"witness,omitempty"`
}

// Witness proves a violation by two sessions at most, and a third where the order in which a
// client used its handles matters.
type Witness struct {
	Events   []int64  `json:"events"`   // numbers (N), in the order of time
	Sessions []string `json:"sessions"` // the earlier one first
	Key      string   `json:"key"`
	From     int64    `json:"from"` // the harm's span of true time, nanoseconds
	To       int64    `json:"to"`

	of []*session // the sessions
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

// properties is the one table of them, in the order of reports.
var properties = []property{
	{MutualExclusion, safety, mutualExclusion},
	{LeaseLinearizable, safety, leaseLinearizable},
	{ResourceSafety, safety, resourceSafety},
	{FencingOrder, safety, fencingOrder},
	{ValidOnReturn, safety, validOnReturn},
	{DeadlockFreedom, liveness, deadlockFreedom},
	{FaultTolerance, liveness, faultTolerance},
	{BoundedHold, liveness, boundedHold},
}

// A safety property says that nothing bad happens, whatever the faults; liveness
// that something good does, where the faults allow it.
const (
	safety   = false
	liveness = true
)

type property struct {
	name  string
	lives bool
	judge func(*record) Result
}

// Liveness reports whether a property is one of liveness rather than of safety.
func Liveness(name string) bool {
	return slices.ContainsFunc(properties, func(p property) bool { return p.name == name && p.lives })
}

// Properties lists the names of all properties in the order of reports.
func Properties() []string {
	var names []string
	for _, p := range properties {
		names = append(names, p.name)
	}
	return names
}

// Check judges a history by the named properties, or by all if none is named.
func Check(h *history.History, names ...string) (v Verdict) {
	if len(names) == 0 {
		names = Properties()
	}
	defer func() {
		if p := recover(); p != nil {
			v = nothing(h, names, fmt.Sprintf("the checker failed: %v", p))
		}
	}()
	r := newRecord(h)
	if text, ok := unplanned(r); ok {
		v = nothing(h, names, text)
		v.Assumption, v.Unplanned = text, true
		if r.Malformed == "" {
			v.Numbers = numbers(r)
			v.Words = r.liveness(v.Numbers)
		}
		return v
	}
	if r.Malformed != "" {
		v = nothing(h, names, "the history is malformed: "+r.Malformed)
		v.Assumption = r.Malformed
		return v
	}
	vacuous := vacuity(r)
	if vacuous != "" && h.Cut == "" {
		v = nothing(h, names, "the run is vacuous: "+vacuous)
		v.Assumption, v.Numbers = vacuous, numbers(r)
		v.Words = r.liveness(v.Numbers)
		return v
	}
	v = Verdict{Schema: Schema, Cut: h.Cut, Numbers: numbers(r)}
	v.Words = r.liveness(v.Numbers)
	for _, name := range names {
		v.Results = append(v.Results, r.stalled(cutShort(r, vacuous, judge(r, name))))
	}
	v.Second = r.second(SecondTimeout)
	v.Disagreement = r.disagreements(v)
	return v
}

// nothing is a verdict that leaves all undecided.
func nothing(h *history.History, names []string, because string) Verdict {
	v := Verdict{Schema: Schema, Cut: h.Cut, Second: Undecided}
	for _, name := range names {
		v.Results = append(v.Results, Result{Property: name, Outcome: Undecided, Because: because})
	}
	return v
}

// judge judges by one property. A property that panics has decided nothing.
func judge(r *record, name string) (res Result) {
	defer func() {
		if p := recover(); p != nil {
			res = Result{Outcome: Undecided, Because: fmt.Sprintf("the checker failed: %v", p)}
		}
		res.Property = name
		res = exercised(res)
	}()
	i := slices.IndexFunc(properties, func(p property) bool { return p.name == name })
	if i < 0 {
		return Result{Outcome: Undecided, Because: "there is no such property: try " + strings.Join(Properties(), ", ")}
	}
	return properties[i].judge(r)
}

// cutShort weakens a result as far as a cut record demands: what was violated
// before the cut stays violated, but what the run was to show may have been
// still to come.
func cutShort(r *record, vacuous string, res Result) Result {
	switch {
	case r.Cut == "" || res.Outcome == Violated:
	case vacuous != "" && (res.Outcome == Holds || res.Outcome == NotExercised):
		res.Outcome = Undecided
		res.Because = fmt.Sprintf("the record is cut (%s), and up to there %s", r.Cut, vacuous)
	default:
		res.Because += fmt.Sprintf("; the record is cut: %s", r.Cut)
	}
	return res
}
