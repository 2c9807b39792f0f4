package checker

import (
	"fmt"

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
	latency, left := newSieve(0.50, 0.99), newSieve(0.50)
	for range sieveLooks {
		for s := range r.Sessions() {
			if s.Granted() {
				latency.see(s.Ended - s.Called)
			}
			if x, ok := leftOnReturn(r, s); ok {
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
