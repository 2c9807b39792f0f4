package checker

import (
	"fmt"

	"lockpick/harness/history"
)

// What became of each planned step of the nemesis, under "fault-STEP-" and one of
// these. A step that comes every time has all its occurrences in one.
const (
	faultPlanned  = "planned"   // targets
	faultInjected = "injected"  // times that it was tried on one of them
	faultReadBack = "read-back" // of these: it was seen to be in force
	faultOnHeld   = "on-held"   // of these: somebody believed to hold a lock while it was
)

// How long the machine stood still, in all and at most at once. A run in which it never
// did has neither.
const (
	StalledSeconds = "stalled-seconds"
	StalledMax     = "stalled-longest"
)

func (r *record) stallNumbers(n map[string]float64) {
	for _, s := range r.stalls() {
		d := history.Seconds(s.length())
		n[StalledSeconds] += d
		n[StalledMax] = max(n[StalledMax], d)
	}
}

func (r *record) faultNumbers(n map[string]float64) {
	if len(r.Params.Steps) == 0 {
		return
	}
	var held []interval
	for _, l := range r.Locks {
		for _, w := range r.windowsOf(l) {
			held = append(held, interval{w.from, w.to})
		}
	}
	held = union(held)
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
		inForce := interval{f.Begin.T, never}
		if f.End != nil {
			inForce.to = max(f.End.T, f.Begin.T+1)
		}
		if meets(held, inForce) {
			n[faultNumber(f.Step, faultOnHeld)]++
		}
	}
}

func faultNumber(step int, what string) string { return fmt.Sprintf("fault-%d-%s", step, what) }

// liveness adds the numbers of liveness and returns their words.
func (r *record) liveness(n map[string]float64) map[string]string {
	words := map[string]string{}
	r.fairness(n)
	r.availability(n, words)
	r.faultNumbers(n)
	r.stallNumbers(n)
	return words
}
