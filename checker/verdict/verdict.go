// Package verdict defines the checker's results as plain data.
//
// An Outcome is one of four values. A Result judges one property and carries its Witness and its
// Losses. A Verdict judges one history. An Incident is a single violation of a property; a Result
// counts them. The package also defines the names of properties, causes and numbers, and formats
// counts and names for all judges.
//
// The search for violations, and expectations, are left to other packages.
package verdict

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Schema is the version of the verdict's JSON format.
const Schema = 1

// Outcome is the result of checking a property. It has four values: a run that proves nothing must
// not count as a pass.
type Outcome string

const (
	Holds        Outcome = "holds"
	Violated     Outcome = "violated"
	Undecided    Outcome = "undecided"
	NotExercised Outcome = "not-exercised" // not violated, but the run had no occasion to violate it
)

// String returns the outcome in words for people. Stored files keep the constants.
func (o Outcome) String() string {
	if o == Undecided {
		return "inconclusive"
	}
	return strings.ReplaceAll(string(o), "-", " ")
}

// Answer returns the outcome as the second judge would give it: NotExercised becomes Holds,
// because the second judge does not require occasions.
func (o Outcome) Answer() Outcome {
	if o == NotExercised {
		return Holds
	}
	return o
}

// Verdict holds the results of checking one history.
type Verdict struct {
	Schema int `json:"schema"`
	// Model is the kind of lock assumed for a Jepsen history; "" for a lockpick run.
	Model string `json:"model,omitempty"`
	// Assumption describes the assumption that does not hold; "" if all hold. Without it only
	// violations can be established.
	Assumption string `json:"assumption,omitempty"`
	// Unplanned is set if the failed assumption is that only the plan injects faults.
	Unplanned bool `json:"unplanned,omitempty"`
	// Cut is history.Cut: the record was judged up to this point.
	Cut string `json:"cut,omitempty"`
	// Second is the answer of the second judge, porcupine, for lease-linearizable. It is
	// Undecided if a key has too many operations for porcupine's search. Every violation of
	// mutual exclusion must violate this too.
	Second Outcome `json:"second"`
	// Disagreement describes how porcupine, or the certificate of lease-linearizable, contradicts
	// the results. It must be "": anything else is a bug in lockpick, and the results prove nothing.
	Disagreement string `json:"disagreement,omitempty"`

	Results []Result           `json:"results"`
	Numbers map[string]float64 `json:"numbers,omitempty"` // measured and reported, not judged
	// Reasons maps the name of a number to the cause of what it measures.
	Reasons map[string]string `json:"words,omitempty"`
}

// Inconclusive reports whether an assumption does not hold and no property was violated.
func (v Verdict) Inconclusive() bool {
	return v.Assumption != "" && !slices.ContainsFunc(v.Results, func(r Result) bool { return r.Outcome == Violated })
}

// Result returns the result for a property, or nil if it was not judged.
func (v Verdict) Result(property string) *Result {
	for i := range v.Results {
		if v.Results[i].Property == property {
			return &v.Results[i]
		}
	}
	return nil
}

// Result judges one property.
type Result struct {
	Property  string  `json:"property"`
	Outcome   Outcome `json:"outcome"`
	Because   string  `json:"because"`             // one sentence
	Occasions int     `json:"occasions"`           // times the property was exercised
	Incidents int     `json:"incidents,omitempty"` // number of violations
	Cause     string  `json:"cause,omitempty"`     // of the violation shown; see Causes
	Node      string  `json:"node,omitempty"`      // the node to blame, if any
	// NotApplicable is set if the property was not exercised because the lock never gives its
	// holder the information that the property is about.
	NotApplicable bool `json:"notApplicable,omitempty"`
	// Losses explains, for each node that granted both sessions, how it could do so. Losses are in
	// the order of nodes, and Cause summarizes them. SpareVotes is the number of these votes that
	// the second session did not need. If it is 0, every loss was needed.
	Losses     []Loss `json:"losses,omitempty"`
	SpareVotes int    `json:"spare,omitempty"`
	// Stalled is the longest stall of the host, in seconds, that may have prevented a violation or
	// changed its cause; 0 if there was none. If a stall may have caused the violation, the outcome is
	// undecided.
	Stalled float64 `json:"stalled,omitempty"`
	// Bound is the limit of a violated liveness property, in nanoseconds: how long a free lock may
	// go without a grant, or a call without a return.
	Bound   int64    `json:"bound,omitempty"`
	Witness *Witness `json:"witness,omitempty"`
}

// Witness proves a violation with at most two sessions, or three if the order in which a client used
// its handles matters.
type Witness struct {
	Events   []int64  `json:"events"`   // event numbers (N), by time
	Sessions []string `json:"sessions"` // in order of time
	Key      string   `json:"key"`
	From     int64    `json:"from"` // the violation's span of true time, in nanoseconds
	To       int64    `json:"to"`

	SessionFacts []*facts.Session `json:"-"` // the sessions, for the second judge; nil if the verdict was read from a file
}

// SameViolation reports whether two witnesses prove the same violation. One may have more events.
func (w *Witness) SameViolation(x *Witness) bool {
	return w.Key == x.Key && w.From == x.From && w.To == x.To && slices.Equal(w.Sessions, x.Sessions)
}

// Loss explains why a node could grant a lock to a second session while the first still relied on
// the node's vote: how the first session's key was lost there.
type Loss struct {
	Node  string `json:"node"`
	Cause string `json:"cause"`
	Text  string `json:"text"`
	Fact  int64  `json:"fact,omitempty"`  // number of the event that ended the key early; 0 if none did
	Put   int64  `json:"put,omitempty"`   // number of the event that set the second session's key
	Steps []int  `json:"steps,omitempty"` // steps of the plan that caused it

	// First and Second are the sessions in the order in which their keys were set on this node.
	First  string `json:"first"`
	Second string `json:"second"`

	Events []*history.Event `json:"-"` // evidence
}

// Finding is the result of searching for violations of one property: the incidents, and what the
// search covered. The Result is derived from both. Finding no incident is therefore not enough to
// hold: the search must also report that it had occasions, that it left nothing undecided, and what
// it examined.
type Finding struct {
	Incidents []Incident
	Worst     func() Result // describes the incident to show; if nil, the first one is shown
	Occasions int           // times the property was exercised
	Undecided string        // why there may be further incidents; "" if there are none
	Because   string        // what was examined: the sentence for the result without incidents
	// NotApplicable is set if there was no occasion because the lock never gives its holder the
	// information that the property is about.
	NotApplicable bool
}

// Incident is one violation of a property, which began at From. Describe returns the Result that
// would show it if it were the only one.
type Incident struct {
	From     int64
	Describe func() Result
}

// Result derives the judgement. A property without occasions does not hold; it was not exercised.
// Every violation counts as an occasion.
func (f Finding) Result() Result {
	n := len(f.Incidents)
	res := Result{Outcome: Holds, Because: f.Because, Occasions: f.Occasions, NotApplicable: f.NotApplicable}
	switch {
	case n > 0:
		describe := f.Worst
		if describe == nil {
			describe = f.Incidents[0].Describe
		}
		res = describe()
		res.Outcome, res.Occasions, res.Incidents = Violated, max(f.Occasions, n), n
	case f.Undecided != "":
		res.Outcome, res.Because = Undecided, f.Undecided
	case f.Because == "":
		res.Outcome, res.Because = Undecided, "the search does not report what it examined"
	case f.Occasions == 0:
		res.Outcome = NotExercised
	}
	return res
}

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
	HolderNotified    = "holder-told"
)

// Causes of a mutual-exclusion violation: what happened to the first session's key on a node that
// granted both sessions.
const (
	ExpiredEarly       = "expired-early"        // it expired before its TTL was over because of the node's clock
	NotifiedLate       = "notified-late"        // it expired after its TTL, and the lock, which has no deadline, notified the session late or never
	GrantedLate        = "granted-late"         // it expired and another session was granted the lock before the acquire returned
	RestartedAndForgot = "restarted-and-forgot" // the node was killed and restarted without it
	LostUnsynced       = "lost-unsynced"        // the node lost power before syncing it
	FailedOver         = "failed-over"          // a replica that had not received it replaced the node
	DeletedByOther     = "deleted-by-other"     // another client's or session's release deleted it
	ReleasedEarly      = "released-early"       // the session's own release deleted it although it was not the session's last one
	Overwritten        = "overwritten"          // by a set that does not check whether the key is free
	NeverSet           = "never-set"            // fewer nodes than a quorum granted the session
	GivenShorter       = "given-shorter"        // it lived for its TTL, or shorter by a drift the lock must allow for, but the session claimed longer
	ClientClock        = "client-clock"         // the same, because the session's clock fell behind
	DeletedByHarness   = "deleted-by-harness"   // lockpick itself deleted it, or the record names no client
	Flushed            = "flushed"              // it was deleted with all other keys of the node
	Evicted            = "evicted"              // the node ran out of memory
	ClocksDisagree     = "clocks-disagree"      // it expired early: its expiry was an instant on the client's clock, and the node's clock disagreed
	Unexplained        = "unexplained"
)

// Kinds of lease-linearizable violations: answers that no lease lock could have given.
const (
	Overlap       = "overlap"            // two sessions must have held the lock at the same time
	Buried        = "buried"             // every instant at which the session can have held the lock lies within another session's hold
	Phantom       = "phantom"            // the session held the lock without acquiring it
	DoubleRelease = "double-release"     // two releases of the session succeeded
	HeldAfter     = "held-after-release" // the session held the lock after releasing it
	LostEarly     = "lost-early"         // "not held" before the lease expired and before any release of unknown outcome
)

// Classes of resource-safety violations.
const (
	LockBroken  = "lock-broken"  // both sessions worked within their leases
	Overrun     = "overrun"      // an access was applied outside its session's lease
	FenceBroken = "fence-broken" // the write was applied in spite of the fence
)

// Kinds of fencing-order violations. The first three are wrong answers of the resource; the others
// are mistakes of the lock.
const (
	HolderRefused = "holder-refused" // the valid holder was refused because an earlier one had a higher token
	StaleAccepted = "stale-accepted" // a token lower than an accepted one was accepted
	FreshRefused  = "fresh-refused"  // a token at least as high as all accepted ones was refused
	TokenOrder    = "token-order"    // an earlier holder had a higher token
	TokenTwice    = "token-twice"    // two acquires got the same token
)

// Kinds of bounded-hold violations, and the only kind of valid-on-return violation.
const (
	ReturnedLate     = "returned-late"      // the acquire returned a lock past its deadline
	ExtendedTooOften = "extended-too-often" // one hold was extended more often than the limit allows
	HeldTooLong      = "held-too-long"      // one hold lasted longer than the limit
)

// Causes of unavailability: why the attempts in a span failed. Of two equally frequent causes the
// first in this order is reported.
const (
	LeftKeys    = "left-keys"     // keys of finished attempts blocked so many nodes that no majority was left
	OutlivedTTL = "outlived-ttl"  // keys that outlived their TTL, such as a lost holder's, did so
	NoMajority  = "no-majority"   // too many nodes were down or unreachable
	WaitedLong  = "waited-long"   // the lock waited beyond the node timeout for nodes that did not answer, or between two attempts, or in a call that returned late
	SplitVote   = "split-vote"    // attempts of several clients blocked each other, and none got a quorum
	TurnedAway  = "turned-away"   // nodes refused although they had no key: something else that the lock checks was in the way
	TooFewVotes = "too-few-votes" // nothing was in the way, but the attempts asked too few nodes, got too few votes, or failed in spite of enough votes
	GaveUp      = "gave-up"       // acquires returned an error without a request to any node
	Hung        = "hung"          // a call had not returned by the scenario's time limit although a majority was available
)

// Causes lists all causes, classes and kinds of violations.
func Causes() []string {
	return []string{ExpiredEarly, NotifiedLate, GrantedLate, RestartedAndForgot, LostUnsynced, FailedOver, DeletedByOther, ReleasedEarly, Overwritten, NeverSet,
		GivenShorter, ClientClock, DeletedByHarness, Flushed, Evicted, ClocksDisagree, Unexplained,
		Overlap, Buried, Phantom, DoubleRelease, HeldAfter, LostEarly,
		LockBroken, Overrun, FenceBroken,
		HolderRefused, StaleAccepted, FreshRefused, TokenOrder, TokenTwice,
		ReturnedLate, ExtendedTooOften, HeldTooLong,
		LeftKeys, OutlivedTTL, NoMajority, WaitedLong, SplitVote, TurnedAway, TooFewVotes, GaveUp, Hung}
}

// oldCauses maps former spellings of causes to the current ones.
var oldCauses = map[string]string{"told-late": NotifiedLate}

// CanonicalCause returns the current spelling of a cause. Files of earlier versions may have a
// former one, which is read and never written.
func CanonicalCause(cause string) string { return cmp.Or(oldCauses[cause], cause) }

// oldInJSON matches an old cause in a field "cause", or in an expected violation such as
// "violated: told-late at n1". A scenario may have the same name as an old cause.
var oldInJSON = regexp.MustCompile(`("cause":\s*"|"violated: )(` + strings.Join(slices.Sorted(maps.Keys(oldCauses)), "|") + `)("| at )`)

// CanonicalJSON applies CanonicalCause to the causes in the JSON text of a stored file.
func CanonicalJSON(text []byte) []byte {
	return oldInJSON.ReplaceAllFunc(text, func(match []byte) []byte {
		part := oldInJSON.FindSubmatch(match)
		return slices.Concat(part[1], []byte(CanonicalCause(string(part[2]))), part[3])
	})
}

// Names of numbers that are used outside the judge that measures them.
const (
	Grants         = "grants"
	UnavailableMax = "unavailable-longest"
	OrphanKeys     = "orphan-keys"
	StalledSeconds = "stalled-seconds"
	StalledMax     = "stalled-longest"
)

// Number is a measurement of a run. It is reported and not judged.
type Number struct {
	Name             string
	Unit             string // "" for a count
	Meaning          string
	AffectedByStalls bool // a time that host stalls may lengthen
}

// Numbers lists the measurements in the order in which reports show them, except those for
// individual steps of a plan. A verdict omits numbers that have no meaning for its run, such as
// acquire latency if nothing was acquired.
var Numbers = []Number{
	{Grants, "", "successful acquires", false},
	{"grants-per-second", "/s", "of true time, from the first client event to the last", false},
	{"acquire-latency-p50", "s", "median time from call to return of successful acquires", true},
	{"acquire-latency-p99", "s", "the same, 99th percentile", true},
	{"acquire-latency-max", "s", "the same, maximum", true},
	{"double-hold-seconds", "s", "true time during which two or more sessions believed they held the same lock", true},
	{"incidents", "", "number of such periods", false},
	{"writes", "", "writes that reached the resource, applied or refused", false},
	{"refused-writes", "", "writes that the resource refused", false},
	{"writes-outside-belief", "", "writes applied when their session no longer believed it held the lock", false},
	{"lost-updates", "", "writes that overwrote another session's write without having seen it", false},
	{"refused-holders", "", "reads and writes that the fence refused while their session believed it held the lock", false},
	{"validity-left-min", "s", "least validity left when an acquire returned, by the client's clock", true},
	{"validity-left-p50", "s", "the same, median", true},
	{"split-vote-rate", "share", "attempts on a free lock in which no client got a majority", false},
	{"losing-streak", "", "the longest series of these on one lock", false},
	{"jain-index", "", "fairness of grants per client: 1 means equal shares, 1/n that one of n got all", false},
	{"unavailable-seconds", "s", "time during which a client wanted a lock and none believed it held it", true},
	{"unavailable-share", "share", "the same as a share of the clients' time, per lock", false},
	{UnavailableMax, "s", "the longest such period, and why", true},
	{"death-to-grant-max", "s", "longest time from a holder's death to the next grant", true},
	{OrphanKeys, "", "keys that existed on a node beyond their TTL", false},
	{StalledSeconds, "s", "unplanned stalls of the host", false},
	{StalledMax, "s", "the longest such stall", false},
}

// LockName returns the name of a lock for use in a sentence.
func LockName(key string) string { return cmp.Or(key, "the lock") }

// PairNames names two sessions by their clients, or by session names if one client has both.
func PairNames(a, b *facts.Session) string {
	if a.Client() == b.Client() {
		return JoinNames([]string{a.Name(), b.Name()})
	}
	return JoinNames([]string{a.Client(), b.Client()})
}

// JoinNames joins names for use in a sentence: "n1, n2 and n3".
func JoinNames(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Plural formats a count with its noun.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// EventNumbers returns the numbers of events in the order of time, without duplicates.
func EventNumbers(events []*history.Event) []int64 {
	events = slices.DeleteFunc(slices.Clone(events), func(e *history.Event) bool { return e == nil })
	slices.SortFunc(events, ByTime)
	var ns []int64
	for _, e := range slices.Compact(events) {
		ns = append(ns, e.N)
	}
	return ns
}

// ByTime compares events by time, then by number.
func ByTime(a, b *history.Event) int {
	return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.N, b.N))
}
