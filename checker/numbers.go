package checker

import (
	"math"
	"slices"

	"lockpick/harness/history"
)

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
)

// Numbers lists the names of what is measured, but for those of single steps of a plan.
func Numbers() []string {
	return []string{Grants, GrantsPerSecond, AcquireP50, AcquireP99, AcquireMax, DoubleHoldSeconds, DoubleHoldIncidents,
		Writes, RefusedWrites, WritesOutsideBelief, LostUpdates, RefusedHolders, ValidityLeftMin, ValidityLeftP50,
		SplitVoteRate, LosingStreak, Bypasses, JainIndex, UnavailableSeconds, UnavailableShare, UnavailableMax, DeathToGrant, OrphanKeys, StalledSeconds, StalledMax}
}

// numbers measures a run. What it finds is reported, not judged.
func numbers(r *record) map[string]float64 {
	o := r.overlapping()
	n := map[string]float64{
		Grants:              0,
		DoubleHoldSeconds:   history.Seconds(o.doubleHold),
		DoubleHoldIncidents: float64(o.incidents),
	}
	latencies := r.acquireLatencies()
	n[Grants] = float64(len(latencies))
	if elapsed := r.Last - r.First; elapsed > 0 {
		n[GrantsPerSecond] = float64(len(latencies)) / history.Seconds(elapsed)
	}
	if len(latencies) > 0 {
		n[AcquireP50] = history.Seconds(rank(latencies, 0.50))
		n[AcquireP99] = history.Seconds(rank(latencies, 0.99))
		n[AcquireMax] = history.Seconds(latencies[len(latencies)-1])
	}
	if left := r.validitiesLeft(); len(left) > 0 {
		n[ValidityLeftMin] = history.Seconds(left[0])
		n[ValidityLeftP50] = history.Seconds(rank(left, 0.50))
	}
	if len(r.Log) > 0 {
		b := readBooks(r)
		n[Writes] = float64(b.writes)
		n[RefusedWrites] = float64(b.refused)
		n[WritesOutsideBelief] = float64(b.outside)
		n[LostUpdates] = float64(len(lostUpdates(r, b)))
		if r.fenced() {
			n[RefusedHolders] = float64(r.refusedHolders())
		}
	}
	return n
}

// acquireLatencies is how long each granted acquire took, sorted. It is good until
// the next measure.
func (r *record) acquireLatencies() []int64 {
	ls := slices.Grow(r.spans[:0], r.Grants)
	for s := range r.Sessions() {
		if s.Granted() {
			ls = append(ls, s.Acquire.Return.T-s.Acquire.Call.T)
		}
	}
	slices.Sort(ls)
	r.spans = ls
	return ls
}

// rank is the smallest value that a share q of all values doesn't exceed.
func rank(sorted []int64, q float64) int64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
