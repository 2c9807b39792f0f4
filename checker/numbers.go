package checker

import (
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// numbers measures a run, and says in words what a number can't. What it finds is reported,
// not judged.
func numbers(r *record) (n map[string]float64, words map[string]string) {
	o := r.beliefs.Overlaps()
	n = map[string]float64{
		verdict.Grants:              0,
		verdict.DoubleHoldSeconds:   history.Seconds(o.DoubleHold),
		verdict.DoubleHoldIncidents: float64(o.Incidents),
	}
	sessions(r.Facts, n)
	r.log().Numbers(n)
	words = r.liveness().Numbers(n)
	faultNumbers(r, n)
	stallNumbers(r.Facts, n)
	return n, words
}

// sessions measures what each of them tells by itself.
func sessions(r *facts.Facts, n map[string]float64) {
	latency, left := newSieve(0.50, 0.99), newSieve(0.50)
	for range sieveLooks {
		for s := range r.Sessions() {
			if s.Granted() {
				latency.see(s.Ended - s.Called)
			}
			if x, ok := leftOnReturn(s); ok {
				left.see(x)
			}
		}
		latency.next()
		left.next()
	}
	n[verdict.Grants] = float64(latency.count)
	if elapsed := r.Last - r.First; elapsed > 0 {
		n[verdict.GrantsPerSecond] = float64(latency.count) / history.Seconds(elapsed)
	}
	if latency.count > 0 {
		n[verdict.AcquireP50] = history.Seconds(latency.rank(0))
		n[verdict.AcquireP99] = history.Seconds(latency.rank(1))
		n[verdict.AcquireMax] = history.Seconds(latency.most)
	}
	if left.count > 0 {
		n[verdict.ValidityLeftMin] = history.Seconds(left.least)
		n[verdict.ValidityLeftP50] = history.Seconds(left.rank(0))
	}
}
