package checker

import (
	"slices"

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

// sessions measures what each of them tells by itself, all in one look at it.
func sessions(r *facts.Facts, n map[string]float64) {
	latencies, left := make([]int64, 0, r.Grants), make([]int64, 0, r.Grants)
	for s := range r.Sessions() {
		if !s.Granted() {
			continue
		}
		latencies = append(latencies, s.Acquire.Return.T-s.Acquire.Call.T)
		if x, ok := leftOnReturn(s); ok {
			left = append(left, x)
		}
	}
	n[verdict.Grants] = float64(len(latencies))
	if elapsed := r.Last - r.First; elapsed > 0 {
		n[verdict.GrantsPerSecond] = float64(len(latencies)) / history.Seconds(elapsed)
	}
	if len(latencies) > 0 {
		n[verdict.AcquireP50] = history.Seconds(rank(latencies, 0.50))
		n[verdict.AcquireP99] = history.Seconds(rank(latencies, 0.99))
		n[verdict.AcquireMax] = history.Seconds(slices.Max(latencies))
	}
	if len(left) > 0 {
		n[verdict.ValidityLeftMin] = history.Seconds(slices.Min(left))
		n[verdict.ValidityLeftP50] = history.Seconds(rank(left, 0.50))
	}
}
