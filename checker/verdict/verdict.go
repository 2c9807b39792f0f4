// Package verdict is what the checker answers, as data: nothing here judges.
//
// Its nouns are Outcome (one of four values), Result (the judgement of one property, with
// its Witness and its Losses) and Verdict (that of one history). An Incident is one of those that
// a Result counts, for those who list them all. The names of properties,
// causes and numbers are here, too, and how all judges write a count or a name.
//
// Deliberately missing: how any of it is found, and what somebody expected.
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

// Answer is what an outcome says to the second judge's question, which asks for no
// occasion.
func (o Outcome) Answer() Outcome {
	if o == NotExercised {
		return Holds
	}
	return o
}

// Verdict is the judgement of one history.
type Verdict struct {
	Schema int `json:"schema"`
	// Model is what the lock of a history of Jepsen's was taken for, "" for a run of our own.
	Model string `json:"model,omitempty"`
	// Assumption is why nothing can be decided but that something was violated, "" if all assumptions hold.
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

// ShowsNothing reports whether an assumption does not hold and nothing was violated all the same.
func (v Verdict) ShowsNothing() bool {
	return v.Assumption != "" && !slices.ContainsFunc(v.Results, func(r Result) bool { return r.Outcome == Violated })
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

// Result is the judgement of one property.
type Result struct {
	Property  string  `json:"property"`
	Outcome   Outcome `json:"outcome"`
	Because   string  `json:"because"`             // one sentence
	Occasions int     `json:"occasions"`           // how often the property was put to the test
	Incidents int     `json:"incidents,omitempty"` // how often it was violated
	Cause     string  `json:"cause,omitempty"`     // of the violation shown: see Causes
	Node      string  `json:"node,omitempty"`      // the node to blame, where there is one
	// NotApplicable: the property was not exercised because of what the lock never tells its holder.
	NotApplicable bool `json:"notApplicable,omitempty"`
	// Losses is why each node that granted both sessions could, in the order of nodes: the
	// facts that Cause sums up. Spare is how many of these nodes' votes the second could have
	// done without; 0: each loss was needed.
	Losses []Loss `json:"losses,omitempty"`
	Spare  int    `json:"spare,omitempty"`
	// Stalled is the longest stall of the host, in seconds, that may be why a violation did not
	// come, or came of another cause. 0: there was none. Where stalls may be why one came, the
	// outcome is undecided.
	Stalled float64 `json:"stalled,omitempty"`
	// Bound is how long a free lock may go without a grant, or a call without a return, by a violated
	// property of liveness, in nanoseconds.
	Bound   int64    `json:"bound,omitempty"`
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

	Of []*facts.Session `json:"-"` // the sessions, for the second judge; nil if the verdict was read
}

// Shows reports whether two witnesses show one harm, though one may have more events.
func (w *Witness) Shows(x *Witness) bool {
	return w.Key == x.Key && w.From == x.From && w.To == x.To && slices.Equal(w.Sessions, x.Sessions)
}

// Loss is why one node could grant a lock to a second session while the first still
// counted on its vote: what became of the first's key there.
type Loss struct {
	Node  string `json:"node"`
	Cause string `json:"cause"`
	Text  string `json:"text"`
	Fact  int64  `json:"fact,omitempty"`  // number of the fact that ended the key before its time; 0: none did
	Put   int64  `json:"put,omitempty"`   // and of the one by which the second's took its place
	Steps []int  `json:"steps,omitempty"` // of the plan, that did it

	// First and Second are the sessions by the order of their keys on this node.
	First  string `json:"first"`
	Second string `json:"second"`

	Events []*history.Event `json:"-"` // what shows it
}

// Finding is what a search for violations of one property came to: the incidents, and what the search
// covered. The judgement is derived from both. So a search that found nothing does not hold by that
// alone: it must say that it had occasions, that nothing was left undecided, and what it looked at.
type Finding struct {
	Incidents []Incident
	Worst     func() Result // tells the incident that the result shows; nil: the first
	Occasions int           // how often the property was put to the test
	Undecided string        // why nobody can tell whether there was an incident besides; "": one can
	Because   string        // what was looked at: the sentence where there is no incident
	// NotApplicable: there was no occasion because of what the lock never tells its holder.
	NotApplicable bool
}

// Incident is one time that a property was violated, by the instant at which the harm
// began. Tell is the result that would show it if there were no other.
type Incident struct {
	From int64
	Tell func() Result
}

// Result derives the judgement. What was never put to the test does not hold: it was not exercised.
// A violation was an occasion.
func (f Finding) Result() Result {
	n := len(f.Incidents)
	res := Result{Outcome: Holds, Because: f.Because, Occasions: f.Occasions, NotApplicable: f.NotApplicable}
	switch {
	case n > 0:
		tell := f.Worst
		if tell == nil {
			tell = f.Incidents[0].Tell
		}
		res = tell()
		res.Outcome, res.Occasions, res.Incidents = Violated, max(f.Occasions, n), n
	case f.Undecided != "":
		res.Outcome, res.Because = Undecided, f.Undecided
	case f.Because == "":
		res.Outcome, res.Because = Undecided, "the search does not say what it looked at"
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
	HolderTold        = "holder-told"
)

// Causes of a mutual-exclusion violation: what became of the key that one of the
// two sessions had set first, on a node that granted both.
const (
	ExpiredEarly       = "expired-early"        // it lapsed before its TTL was over: the node's clock
	ToldLate           = "notified-late"        // it lived its TTL, and the lock, which names no deadline, told the session of the loss late or never
	GrantedLate        = "granted-late"         // it lapsed, another was granted, and only then did the acquire return
	RestartedAndForgot = "restarted-and-forgot" // the node was killed and came back without it
	LostUnsynced       = "lost-unsynced"        // the node lost its power before it had synced it
	FailedOver         = "failed-over"          // a replica took the node's place that had not got it
	DeletedByOther     = "deleted-by-other"     // a release that was not this holder's deleted it
	ReleasedEarly      = "released-early"       // the session's own release deleted it, though it was not the last of several
	Overwritten        = "overwritten"          // a set that doesn't ask whether the key is free
	NeverSet           = "never-set"            // fewer nodes than a quorum granted the session
	GivenShorter       = "given-shorter"        // it lived its TTL, or less by a drift that the lock must allow for, and the session claimed longer
	ClientClock        = "client-clock"         // the same, for the session's clock fell behind
	DeletedByHarness   = "deleted-by-harness"   // lockpick itself deleted it, or nobody whom the record names
	Flushed            = "flushed"              // with all other keys of the node
	Evicted            = "evicted"              // the node had no memory left for it
	ClocksDisagree     = "clocks-disagree"      // it got too little time, for its expiry was an instant by the client's clock, and the node's clock disagreed
	Unexplained        = "unexplained"
)

// Ways in which no lease lock could have given a session's answers.
const (
	Overlap       = "overlap"            // two sessions must both have held
	Buried        = "buried"             // a session's every possible instant is inside what another held
	Phantom       = "phantom"            // it held what it had not acquired
	DoubleRelease = "double-release"     // it gave back twice
	HeldAfter     = "held-after-release" // it held after it had given back
	LostEarly     = "lost-early"         // "not held" before its lease was over, and before any release of unknown outcome
)

// Classes of harm to the resource.
const (
	LockBroken  = "lock-broken"  // both sides worked inside their leases
	Overrun     = "overrun"      // some apply lies outside its session's lease
	FenceBroken = "fence-broken" // the fence was on, and the write was applied all the same
)

// Ways in which fencing tokens fail. The first three are the resource's to
// suffer, the others the lock's doing.
const (
	HolderRefused = "holder-refused" // the valid holder was refused, for an earlier one had a higher token
	StaleAccepted = "stale-accepted" // a token below one accepted before was accepted
	FreshRefused  = "fresh-refused"  // a token at or above all accepted before was refused
	TokenOrder    = "token-order"    // an earlier holder's token is higher
	TokenTwice    = "token-twice"    // two acquires got the same token
)

// Ways to keep a lock for too long, and the only way to violate valid-on-return.
const (
	ReturnedLate     = "returned-late"      // the acquire returned a lock that was past its deadline
	ExtendedTooOften = "extended-too-often" // more extensions of one hold than the limit
	HeldTooLong      = "held-too-long"      // one hold lasted longer than the limit
)

// Causes of unavailability: why the attempts in a span came to nothing, in the order in
// which equals are named.
const (
	LeftKeys    = "left-keys"     // keys of attempts that were over stood in the way on so many nodes that no majority was left
	OutlivedTTL = "outlived-ttl"  // so did keys that still existed when their TTL was over, such as a lost holder's
	NoMajority  = "no-majority"   // with the nodes that were down or out of reach no majority was left
	WaitedLong  = "waited-long"   // the lock waited for nodes that gave no answer, whatever the node time-out; or between two attempts, or in a call that returned late
	SplitVote   = "split-vote"    // attempts of several clients stood in each other's way, and none of them had a quorum
	TurnedAway  = "turned-away"   // nodes refused, though no key was there: what else the lock goes by stood in the way
	TooFewVotes = "too-few-votes" // nothing stood in the way, and the attempts asked too few nodes, had too few votes, or made nothing of enough
	GaveUp      = "gave-up"       // acquires returned an error without asking a node
	Hung        = "hung"          // a call had not returned by the scenario's limit, and nothing kept it from a majority
)

// Causes lists what a violation may be put down to: the causes of a
// mutual-exclusion violation, the ways of no lease lock, the classes of harm and
// the kinds of the properties that have their own.
func Causes() []string {
	return []string{ExpiredEarly, ToldLate, GrantedLate, RestartedAndForgot, LostUnsynced, FailedOver, DeletedByOther, ReleasedEarly, Overwritten, NeverSet,
		GivenShorter, ClientClock, DeletedByHarness, Flushed, Evicted, ClocksDisagree, Unexplained,
		Overlap, Buried, Phantom, DoubleRelease, HeldAfter, LostEarly,
		LockBroken, Overrun, FenceBroken,
		HolderRefused, StaleAccepted, FreshRefused, TokenOrder, TokenTwice,
		ReturnedLate, ExtendedTooOften, HeldTooLong,
		LeftKeys, OutlivedTTL, NoMajority, WaitedLong, SplitVote, TurnedAway, TooFewVotes, GaveUp, Hung}
}

// oldCauses maps former spellings of causes to the current ones.
var oldCauses = map[string]string{"told-late": ToldLate}

// CanonicalCause returns the current spelling of a cause. Files of earlier versions may have a
// former one, which is read and never written.
func CanonicalCause(cause string) string { return cmp.Or(oldCauses[cause], cause) }

// oldInJSON matches a JSON string that is an old cause, or an expected violation by one, as in
// "violated: told-late at n1".
var oldInJSON = regexp.MustCompile(`"(violated: )?(` + strings.Join(slices.Sorted(maps.Keys(oldCauses)), "|") + `)("| at )`)

// CanonicalJSON applies CanonicalCause to the causes in the JSON text of a stored file.
func CanonicalJSON(text []byte) []byte {
	return oldInJSON.ReplaceAllFunc(text, func(match []byte) []byte {
		part := oldInJSON.FindSubmatch(match)
		return slices.Concat([]byte{'"'}, part[1], []byte(CanonicalCause(string(part[2]))), part[3])
	})
}

// Numbers that more than the judge that measures them asks for.
const (
	Grants         = "grants"
	UnavailableMax = "unavailable-longest"
	OrphanKeys     = "orphan-keys"
	StalledSeconds = "stalled-seconds"
	StalledMax     = "stalled-longest"
)

// Number is something that is measured in a run and reported, not judged.
type Number struct {
	Name       string
	Unit       string // "" of a count
	Meaning    string
	Lengthened bool // it is a time that stalls of the host may lengthen
}

// Numbers is what is measured, in the order of reports, but for what becomes of single steps of a plan.
// A number that has no meaning in a run, such as the latency of acquires where nobody acquired, is
// left out of its verdict.
var Numbers = []Number{
	{Grants, "", "acquires that returned the lock", false},
	{"grants-per-second", "/s", "of true time, from the first client's event to the last", false},
	{"acquire-latency-p50", "s", "from call to return of granted acquires: half took at most this", true},
	{"acquire-latency-p99", "s", "99 of 100 took at most this", true},
	{"acquire-latency-max", "s", "the longest", true},
	{"double-hold-seconds", "s", "true time in which two sessions or more believed that they held a lock", true},
	{"incidents", "", "spells of such time", false},
	{"writes", "", "that came to the resource, applied or refused", false},
	{"refused-writes", "", "of these", false},
	{"writes-outside-belief", "", "applied when their session no longer believed", false},
	{"lost-updates", "", "writes applied over another session's that they had not seen", false},
	{"refused-holders", "", "reads and writes that the fence refused while their session believed", false},
	{"validity-left-min", "s", "least time left of a lock when its acquire returned, by the client's clock", true},
	{"validity-left-p50", "s", "the same, median", true},
	{"split-vote-rate", "share", "attempts on a free lock in which nobody got a majority", false},
	{"losing-streak", "", "most of these in a row on one lock", false},
	{"jain-index", "", "of grants per client: 1 is equal shares, 1/n all for one of n", false},
	{"unavailable-seconds", "s", "nobody believed to hold a lock that somebody wanted", true},
	{"unavailable-share", "share", "the same as a share of the clients' time, per lock", false},
	{UnavailableMax, "s", "the longest such spell, and why", true},
	{"death-to-grant-max", "s", "the longest from a holder's death to the next grant", true},
	{OrphanKeys, "", "keys that a node still had after their TTL", false},
	{StalledSeconds, "s", "the machine stood still, which nobody planned", false},
	{StalledMax, "s", "the longest such spell", false},
}

// LockName names a lock in a sentence.
func LockName(key string) string { return cmp.Or(key, "the lock") }

// Pair names two sessions by their clients, and by themselves where one client has both.
func Pair(a, b *facts.Session) string {
	if a.Client() == b.Client() {
		return List([]string{a.Name(), b.Name()})
	}
	return List([]string{a.Client(), b.Client()})
}

// List joins names as a sentence does: "n1, n2 and n3".
func List(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Plural writes a count with its noun.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Numbered is the numbers of events in the order of time, each once.
func Numbered(events []*history.Event) []int64 {
	events = slices.DeleteFunc(slices.Clone(events), func(e *history.Event) bool { return e == nil })
	slices.SortFunc(events, ByTime)
	var ns []int64
	for _, e := range slices.Compact(events) {
		ns = append(ns, e.N)
	}
	return ns
}

// ByTime orders events by their instants, and those of one instant by their numbers.
func ByTime(a, b *history.Event) int {
	return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.N, b.N))
}
