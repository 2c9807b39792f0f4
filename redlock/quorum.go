package redlock

import "time"

// Quorum is the smallest majority of n nodes, ⌊n/2⌋+1: any two quorums share a node.
func Quorum(n int) int { return n/2 + 1 }

// Drift is what is subtracted from a lock's validity for clocks that run at
// slightly different rates: factor × ttl + 2 ms. The constant covers the
// millisecond to which Redis counts expiries, and that of the client.
func Drift(ttl time.Duration, factor float64) time.Duration {
	return time.Duration(factor*float64(ttl)) + 2*time.Millisecond
}

// Validity is how long a lock is certainly held, counted from the end of the
// attempt that got it: TTL − elapsed − drift (the specification's MIN_VALIDITY).
// It is not held at all unless the result is above zero.
//
//	start                 end                                 start+TTL
//	|------- elapsed ------|------------ validity ----|- drift -|
//	first key set at the earliest                              first key gone
//
// An attempt that ended before it began was timed by a clock that steps back.
// Nobody knows how long it took, so that it gives no validity.
func Validity(ttl, elapsed, drift time.Duration) time.Duration {
	if elapsed < 0 {
		return 0
	}
	return max(0, ttl-elapsed-drift)
}
