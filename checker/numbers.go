package checker

import (
	"fmt"
	"slices"

	"lockpick/checker/spans"
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
	var latency, left []int64
	for s := range r.Sessions() {
		if s.Granted() {
			latency = append(latency, s.Ended-s.Called)
		}
		if x, ok := leftOnReturn(r, s); ok {
			left = append(left, x)
		}
	}
	slices.Sort(latency)
	slices.Sort(left)
	n[verdict.Grants] = float64(len(latency))
	if elapsed := r.Last - r.First; elapsed > 0 {
		n[verdict.GrantsPerSecond] = float64(len(latency)) / history.Seconds(elapsed)
	}
	if len(latency) > 0 {
		n[verdict.AcquireP50] = history.Seconds(ranked(latency, 50))
		n[verdict.AcquireP99] = history.Seconds(ranked(latency, 99))
		n[verdict.AcquireMax] = history.Seconds(latency[len(latency)-1])
	}
	if len(left) > 0 {
		n[verdict.ValidityLeftMin] = history.Seconds(left[0])
		n[verdict.ValidityLeftP50] = history.Seconds(ranked(left, 50))
	}
}

// ranked returns the smallest of sorted values that so many per cent of them don't exceed.
func ranked(sorted []int64, percent int) int64 { return sorted[(len(sorted)*percent+99)/100-1] }

// What became of each planned step of the nemesis, under "fault-STEP-" and one of
// these. A step that comes every time has all its occurrences in one.
const (
	faultPlanned  = "planned"   // targets
	faultInjected = "injected"  // times that it was tried on one of them
	faultReadBack = "read-back" // of these: it was seen to be in force
	faultOnHeld   = "on-held"   // of these: somebody believed to hold a lock while it was
)

// stallNumbers measures how long the machine stood still.
func stallNumbers(r *facts.Facts, n map[string]float64) {
	for _, s := range spans.Stalls(r) {
		d := history.Seconds(s.Length())
		n[verdict.StalledSeconds] += d
		n[verdict.StalledMax] = max(n[verdict.StalledMax], d)
	}
}

// faultNumbers measures what became of each step of the plan.
func faultNumbers(r *record, n map[string]float64) {
	if len(r.Params.Steps) == 0 {
		return
	}
	var held []spans.Span
	for _, l := range r.Locks {
		for _, w := range r.beliefs.Of(l) {
			held = append(held, spans.Of(w.From, w.To))
		}
	}
	held = spans.Union(held)
	for _, s := range r.Params.Steps {
		n[faultNumber(s.Step, faultPlanned)] = float64(len(s.Targets))
		for _, what := range []string{faultInjected, faultReadBack, faultOnHeld} {
			n[faultNumber(s.Step, what)] = 0
		}
	}
	for _, f := range r.Faults {
		if f.Step <= 0 { // in no plan
			continue
		}
		n[faultNumber(f.Step, faultInjected)]++
		if f.Begin == nil {
			continue
		}
		n[faultNumber(f.Step, faultReadBack)]++
		inForce := spans.Of(f.Begin.T, facts.Never)
		if f.End != nil {
			inForce.To = max(f.End.T, f.Begin.T+1)
		}
		if spans.Meets(held, inForce) {
			n[faultNumber(f.Step, faultOnHeld)]++
		}
	}
}

func faultNumber(step int, what string) string { return fmt.Sprintf("fault-%d-%s", step, what) }
