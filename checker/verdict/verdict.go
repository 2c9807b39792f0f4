// Package verdict defines the checker's results as plain data.
//
// A Verdict judges one history and contains a Result per property. A Result states the Outcome,
// counts the Incidents (single violations), and carries a Witness and its Losses. The package also
// defines the names of properties, causes and numbers, and formats counts and names for all judges.
//
// It does not search for violations, and knows nothing about expectations.
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

// Outcome is the result of checking a property. There are four outcomes, because a run that proves
// nothing must not count as a pass.
type Outcome string

const (
	Holds        Outcome = "holds"
	Violated     Outcome = "violated"
	Undecided    Outcome = "undecided"
	NotExercised Outcome = "not-exercised" // not violated, but the run had no occasion to violate it
)

// String returns the outcome in words for people. Files store the constants instead.
func (o Outcome) String() string {
	if o == Undecided {
		return "inconclusive"
	}
	return strings.ReplaceAll(string(o), "-", " ")
}

// Answer returns the outcome in the second judge's terms. That judge does not require occasions, so
// NotExercised becomes Holds.
func (o Outcome) Answer() Outcome {
	if o == NotExercised {
		return Holds
	}
	return o
}

// Verdict holds the results of checking one history.
type Verdict struct {
	Schema int `json:"schema"`
	// Model is the kind of lock assumed for a Jepsen history, or "" for a lockpick run.
	Model string `json:"model,omitempty"`
	// Assumption describes the assumption that does not hold, or is "" if all hold. If one does not
	// hold, the run can establish nothing but violations.
	Assumption string `json:"assumption,omitempty"`
	// Unplanned is set if the violated assumption is that only the plan injects faults.
	Unplanned bool `json:"unplanned,omitempty"`
	// Cut is history.Cut. The record was judged up to this point.
	Cut string `json:"cut,omitempty"`
	// Second is the answer of the second judge, porcupine, for lease-linearizable. It is Undecided
	// if a key has too many operations for porcupine's search. Every violation of mutual exclusion
	// must violate lease-linearizable as well.
	Second Outcome `json:"second"`
	// Disagreement describes how porcupine or the certificate of lease-linearizable contradicts the
	// results. Anything but "" is a bug in lockpick, and the results prove nothing.
	Disagreement string `json:"disagreement,omitempty"`

	Results []Result           `json:"results"`
	Numbers map[string]float64 `json:"numbers,omitempty"` // reported but not judged
	// Reasons explains numbers in words, by name.
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
	Occasions int     `json:"occasions"`           // how often the property was exercised
	Incidents int     `json:"incidents,omitempty"` // number of violations
	Cause     string  `json:"cause,omitempty"`     // of the violation in Witness; see Causes
	Node      string  `json:"node,omitempty"`      // the node that caused the violation, if any
	// NotApplicable is set if the property was not exercised because the lock never tells its
	// holder what the property is about.
	NotApplicable bool `json:"notApplicable,omitempty"`
	// Losses explains how each node could grant the lock to both sessions, in the order of the
	// nodes. Cause summarizes the losses. SpareVotes is the number of these votes that the second
	// session did not need. If it is 0, every loss was needed.
	Losses     []Loss `json:"losses,omitempty"`
	SpareVotes int    `json:"spare,omitempty"`
	// Stalled is the length in seconds of the longest host stall that may have prevented a
	// violation or changed its cause, or 0. If a stall may have caused the violation, the outcome
	// is undecided instead.
	Stalled float64 `json:"stalled,omitempty"`
	// Bound is the limit that a violated liveness property sets, in nanoseconds: how long a free
	// lock may go without a grant, or a call may take.
	Bound   int64    `json:"bound,omitempty"`
	Witness *Witness `json:"witness,omitempty"`
}

// Witness proves a violation. It names at most two sessions, or three if the order in which a
// client used its handles matters.
type Witness struct {
	Events   []int64  `json:"events"`   // event numbers (N), ordered by time
	Sessions []string `json:"sessions"` // ordered by time
	Key      string   `json:"key"`
	From     int64    `json:"from"` // when the violation began and ended, in nanoseconds of true time
	To       int64    `json:"to"`

	SessionFacts []*facts.Session `json:"-"` // for the second judge; nil if the verdict was read from a file
}

// SameViolation reports whether two witnesses prove the same violation. Their events may differ.
func (w *Witness) SameViolation(x *Witness) bool {
	return w.Key == x.Key && w.From == x.From && w.To == x.To && slices.Equal(w.Sessions, x.Sessions)
}

// Loss explains how a node lost the first session's key, so that it could grant the lock to a
// second session while the first still relied on the node's vote.
type Loss struct {
	Node     string `json:"node"`
	Cause    string `json:"cause"`
	Text     string `json:"text"`
	Fact     int64  `json:"fact,omitempty"`  // number of the event that ended the key early, or 0
	SetEvent int64  `json:"put,omitempty"`   // number of the event that set the second session's key
	Steps    []int  `json:"steps,omitempty"` // the planned steps that caused the loss

	// First and Second are the sessions in the order in which this node set their keys.
	First  string `json:"first"`
	Second string `json:"second"`

	Events []*history.Event `json:"-"` // evidence
}

// Finding is what a search for violations of one property found and covered. A property without
// incidents does not hold automatically: the search must report that it had occasions, what it
// examined, and that it left nothing undecided.
type Finding struct {
	Incidents     []Incident
	DescribeWorst func() Result // describes the incident to report; if nil, the first one is reported
	Occasions     int           // how often the property was exercised
	Undecided     string        // why there may be incidents that the search did not find, or ""
	Because       string        // what was examined; explains a result without incidents
	// NotApplicable is set if there was no occasion because the lock never tells its holder what
	// the property is about.
	NotApplicable bool
}

// Incident is one violation of a property. Describe returns the Result to report if this is the
// only violation.
type Incident struct {
	From     int64 // when it began
	Describe func() Result
}

// Result derives the result from the finding. A property without occasions is not exercised, and
// every violation counts as an occasion.
func (f Finding) Result() Result {
	n := len(f.Incidents)
	res := Result{Outcome: Holds, Because: f.Because, Occasions: f.Occasions, NotApplicable: f.NotApplicable}
	switch {
	case n > 0:
		describe := f.DescribeWorst
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

// Causes of mutual-exclusion violations: what happened to the first session's key on a node that
// granted both sessions.
const (
	ExpiredEarly       = "expired-early"        // it expired before the end of its TTL because of the node's clock
	NotifiedLate       = "notified-late"        // it expired after its TTL; the lock has no deadline and notified the session late or never
	GrantedLate        = "granted-late"         // it expired, and another session was granted the lock before the first acquire returned
	RestartedAndForgot = "restarted-and-forgot" // the node was killed and restarted without it
	LostUnsynced       = "lost-unsynced"        // the node lost power before syncing it
	FailedOver         = "failed-over"          // the node was replaced by a replica that had not received it
	DeletedByOther     = "deleted-by-other"     // the release of another client or session deleted it
	ReleasedEarly      = "released-early"       // the session's own release deleted it, although more releases were to follow
	Overwritten        = "overwritten"          // a set overwrote it without checking whether the key was free
	NeverSet           = "never-set"            // the session was granted by fewer nodes than a quorum
	GivenShorter       = "given-shorter"        // it lived for its TTL, less the drift that the lock must allow for, but the session claimed a longer time
	ClientClock        = "client-clock"         // as given-shorter, because the session's clock fell behind
	DeletedByHarness   = "deleted-by-harness"   // lockpick itself deleted it, or the record does not say who did
	Flushed            = "flushed"              // it was deleted together with all other keys on the node
	Evicted            = "evicted"              // the node ran out of memory
	ClocksDisagree     = "clocks-disagree"      // it expired early: the client set an absolute expiry time, and the node's clock disagreed with the client's
	Unexplained        = "unexplained"
)

// Kinds of lease-linearizable violations: answers that no lease lock could have given.
const (
	Overlap       = "overlap"            // two sessions must have held the lock at the same time
	Buried        = "buried"             // whenever the session can have held the lock, another session held it
	Phantom       = "phantom"            // the session held the lock without acquiring it
	DoubleRelease = "double-release"     // two releases of the session succeeded
	HeldAfter     = "held-after-release" // the session held the lock after releasing it
	LostEarly     = "lost-early"         // the answer was "not held" before the lease expired and before any release of unknown outcome
)

// Kinds of resource-safety violations.
const (
	LockBroken  = "lock-broken"  // both sessions worked within their leases
	Overrun     = "overrun"      // an access was applied outside its session's lease
	FenceBroken = "fence-broken" // the write was applied in spite of the fence
)

// Kinds of fencing-order violations. The first three are wrong answers from the resource; the
// others are mistakes of the lock.
const (
	HolderRefused = "holder-refused" // the valid holder was refused because an earlier holder had a higher token
	StaleAccepted = "stale-accepted" // a token lower than an accepted one was accepted
	FreshRefused  = "fresh-refused"  // a token was refused although it was at least as high as all accepted ones
	TokenOrder    = "token-order"    // an earlier holder had a higher token
	TokenTwice    = "token-twice"    // two acquires got the same token
)

// Kinds of bounded-hold violations, preceded by the only kind of valid-on-return violation.
const (
	ReturnedLate     = "returned-late"      // the acquire returned a lock past its deadline
	ExtendedTooOften = "extended-too-often" // a hold was extended more often than the limit allows
	HeldTooLong      = "held-too-long"      // a hold lasted longer than the limit
)

// Causes of unavailability: why the attempts in a span failed. If two are equally frequent, the one
// listed first is reported.
const (
	LeftKeys    = "left-keys"     // keys of finished attempts blocked so many nodes that no majority was left
	OutlivedTTL = "outlived-ttl"  // keys beyond their TTL, such as a lost holder's, did the same
	NoMajority  = "no-majority"   // too many nodes were down or unreachable
	WaitedLong  = "waited-long"   // the lock waited past the node timeout for nodes that did not answer, or between two attempts, or in a call that returned late
	SplitVote   = "split-vote"    // attempts of several clients blocked each other, and none got a quorum
	TurnedAway  = "turned-away"   // nodes that had no key refused, because of something else that the lock checks
	TooFewVotes = "too-few-votes" // nothing blocked the attempts, but they asked too few nodes, got too few votes, or failed in spite of enough votes
	GaveUp      = "gave-up"       // acquires returned an error without a request to any node
	Hung        = "hung"          // a call had not returned by the scenario's time limit although a majority was available
)

// Causes returns the causes and kinds of all violations.
func Causes() []string {
	return []string{ExpiredEarly, NotifiedLate, GrantedLate, RestartedAndForgot, LostUnsynced, FailedOver, DeletedByOther, ReleasedEarly, Overwritten, NeverSet,
		GivenShorter, ClientClock, DeletedByHarness, Flushed, Evicted, ClocksDisagree, Unexplained,
		Overlap, Buried, Phantom, DoubleRelease, HeldAfter, LostEarly,
		LockBroken, Overrun, FenceBroken,
		HolderRefused, StaleAccepted, FreshRefused, TokenOrder, TokenTwice,
		ReturnedLate, ExtendedTooOften, HeldTooLong,
		LeftKeys, OutlivedTTL, NoMajority, WaitedLong, SplitVote, TurnedAway, TooFewVotes, GaveUp, Hung}
}

// oldCauses maps former spellings of causes to current ones.
var oldCauses = map[string]string{"told-late": NotifiedLate}

// CanonicalCause returns the current spelling of a cause. Files of earlier versions may contain a
// former spelling, which is read but never written.
func CanonicalCause(cause string) string { return cmp.Or(oldCauses[cause], cause) }

// oldInJSON matches an old cause in a "cause" field, or in an expected violation such as "violated:
// told-late at n1". It does not match a scenario with the same name as an old cause.
var oldInJSON = regexp.MustCompile(`("cause":\s*"|"violated: )(` + strings.Join(slices.Sorted(maps.Keys(oldCauses)), "|") + `)("| at )`)

// CanonicalJSON applies CanonicalCause to the causes in a stored file's JSON text.
func CanonicalJSON(text []byte) []byte {
	return oldInJSON.ReplaceAllFunc(text, func(match []byte) []byte {
		part := oldInJSON.FindSubmatch(match)
		return slices.Concat(part[1], []byte(CanonicalCause(string(part[2]))), part[3])
	})
}

// Names of numbers that other packages use, besides the judge that measures them.
const (
	Grants         = "grants"
	UnavailableMax = "unavailable-longest"
	OrphanKeys     = "orphan-keys"
	StalledSeconds = "stalled-seconds"
	StalledMax     = "stalled-longest"
)

// Number is a measurement of a run. It is reported but not judged.
type Number struct {
	Name             string
	Unit             string // "" for a count
	Meaning          string
	AffectedByStalls bool // it is a time, and host stalls may lengthen it
}

// Numbers lists the measurements in the order in which reports show them, without those for
// individual steps of a plan. A verdict omits numbers that are meaningless for its run, such as
// acquire latencies if nothing was acquired.
var Numbers = []Number{
	{Grants, "", "successful acquires", false},
	{"grants-per-second", "/s", "of true time, from the first client event to the last", false},
	{"acquire-latency-p50", "s", "median time from call to return of successful acquires", true},
	{"acquire-latency-p99", "s", "99th percentile of the same time", true},
	{"acquire-latency-max", "s", "maximum of the same time", true},
	{"double-hold-seconds", "s", "true time during which two or more sessions believed they held the same lock", true},
	{"incidents", "", "number of periods with such an overlap", false},
	{"writes", "", "writes that reached the resource, applied or refused", false},
	{"refused-writes", "", "writes that the resource refused", false},
	{"writes-outside-belief", "", "writes applied when their session no longer believed it held the lock", false},
	{"lost-updates", "", "writes that overwrote another session's write without having seen it", false},
	{"refused-holders", "", "reads and writes that the fence refused while their session believed it held the lock", false},
	{"validity-left-min", "s", "least validity left when an acquire returned, by the client's clock", true},
	{"validity-left-p50", "s", "median validity left when an acquire returned", true},
	{"split-vote-rate", "share", "attempts on a free lock in which no client got a majority", false},
	{"losing-streak", "", "longest series of such attempts on one lock", false},
	{"jain-index", "", "fairness of grants per client: 1 means equal shares, 1/n that one of n got all", false},
	{"unavailable-seconds", "s", "time during which a client wanted a lock and none believed it held it", true},
	{"unavailable-share", "share", "unavailable time as a share of the clients' time, per lock", false},
	{UnavailableMax, "s", "longest unavailable period, and why", true},
	{"death-to-grant-max", "s", "longest time from a holder's death to the next grant", true},
	{OrphanKeys, "", "keys that existed on a node beyond their TTL", false},
	{StalledSeconds, "s", "unplanned stalls of the host", false},
	{StalledMax, "s", "longest unplanned stall of the host", false},
}

// LockName returns a lock's name for use in a sentence.
func LockName(key string) string { return cmp.Or(key, "the lock") }

// PairNames names two sessions by their clients, or by their session names if they have the same
// client.
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

// EventNumbers returns the events' numbers without duplicates, ordered by time.
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
