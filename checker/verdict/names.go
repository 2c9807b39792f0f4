package verdict

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
	ToldLate           = "told-late"            // it lived its TTL, and the lock, which names no deadline, told the session of the loss late or never
	GrantedLate        = "granted-late"         // it lapsed, another was granted, and only then did the acquire return
	RestartedAndForgot = "restarted-and-forgot" // the node was killed and came back without it
	LostUnsynced       = "lost-unsynced"        // the node lost its power before it had synced it
	FailedOver         = "failed-over"          // a replica took the node's place that had not got it
	DeletedByOther     = "deleted-by-other"     // a release that was not this holder's deleted it
	ReleasedEarly      = "released-early"       // the session's own release deleted it, though it was not the last of several
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

// Ways in which no lease lock could have given a session's answers.
const (
	Overlap       = "overlap"            // two sessions must both have held
	Buried        = "buried"             // a session's every possible instant is inside what another held
	Phantom       = "phantom"            // it held what it had not acquired
	DoubleRelease = "double-release"     // it gave back twice
	HeldAfter     = "held-after-release" // it held after it had given back
	LostEarly     = "lost-early"         // "not held", though nothing could have ended its lease by then
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
	NoMajority  = "no-majority"   // with the nodes that were down or out of reach no majority was left
	WaitedLong  = "waited-long"   // attempts waited on and on for nodes that gave no answer, whatever the node time-out
	SplitVote   = "split-vote"    // attempts of several clients stood in each other's way
	TurnedAway  = "turned-away"   // nodes refused, though no key was there: what else the lock goes by stood in the way
	TooFewVotes = "too-few-votes" // nothing stood in the way, and the nodes gave too few votes all the same
	Hung        = "hung"          // an acquire, an extension or a release did not return, or an acquire asked nobody for as long, and nothing kept it from a majority
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
		LeftKeys, NoMajority, WaitedLong, SplitVote, TurnedAway, TooFewVotes, Hung}
}

// Names of the numbers in a verdict. A number that has no meaning in a run, such
// as the latency of acquires where nobody acquired, is left out.
const (
	Grants              = "grants"                // acquires that returned the lock
	GrantsPerSecond     = "grants-per-second"     // of true time, from the first client's event to the last
	AcquireP50          = "acquire-latency-p50"   // seconds from call to return of granted acquires; nearest rank
	AcquireP99          = "acquire-latency-p99"   //
	AcquireMax          = "acquire-latency-max"   //
	DoubleHoldSeconds   = "double-hold-seconds"   // true time in which a lock was believed in by two sessions or more
	DoubleHoldIncidents = "incidents"             // connected components of overlapping belief windows
	Writes              = "writes"                // that came to the resource, applied or refused
	RefusedWrites       = "refused-writes"        // of these
	WritesOutsideBelief = "writes-outside-belief" // applied when their session no longer believed
	LostUpdates         = "lost-updates"          // applied over another session's write that they had not seen
	RefusedHolders      = "refused-holders"       // reads and writes that the fence refused while their session believed
	ValidityLeftMin     = "validity-left-min"     // seconds left of a lock when its acquire returned, by the client's clock
	ValidityLeftP50     = "validity-left-p50"     // nearest rank
	SplitVoteRate       = "split-vote-rate"       // split attempts as a share of those on a free lock: split or won
	LosingStreak        = "losing-streak"         // the most split attempts in a row, of whomever, on one lock
	JainIndex           = "jain-index"            // of grants per client that tried: 1 is equal shares, 1/n all for one of n
	UnavailableSeconds  = "unavailable-seconds"   // nobody believed to hold a lock that somebody was trying to acquire; summed over locks
	UnavailableShare    = "unavailable-share"     // of the true time from the clients' first event to their last, per lock
	UnavailableMax      = "unavailable-longest"   // the longest such window, seconds; Verdict.Words has its cause
	DeathToGrant        = "death-to-grant-max"    // seconds from a holder's death to the next grant, the longest
	OrphanKeys          = "orphan-keys"           // keys that a node still had TTL·(1+ρ) + slack after they were last set or extended
	StalledSeconds      = "stalled-seconds"       // the machine stood still, in all; a run in which it never did has neither
	StalledMax          = "stalled-longest"       // and at most at once
)

// Numbers lists the names of what is measured, but for those of single steps of a plan.
func Numbers() []string {
	return []string{Grants, GrantsPerSecond, AcquireP50, AcquireP99, AcquireMax, DoubleHoldSeconds, DoubleHoldIncidents,
		Writes, RefusedWrites, WritesOutsideBelief, LostUpdates, RefusedHolders, ValidityLeftMin, ValidityLeftP50,
		SplitVoteRate, LosingStreak, JainIndex, UnavailableSeconds, UnavailableShare, UnavailableMax, DeathToGrant, OrphanKeys, StalledSeconds, StalledMax}
}
