package checker

import (
	"math/rand/v2"
	"slices"
	"testing"

	"lockpick/checker/second"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/internal/histories"
)

// TestAgainstPorcupine gives histories that violate mutual exclusion to the second judge, first the
// whole history and then the witness alone.
func TestAgainstPorcupine(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	numViolated, numAccepted := 0, 0
	for numViolated < histories.NumCases(2000) {
		h := histories.Random(rnd)
		if reason := malformedReason(h); reason != "" {
			t.Fatalf("malformed: %s:\n%s", reason, histories.FormatLines(h))
		}
		r := newRecord(h)
		answer := r.second.Answer(second.Timeout)
		if v := Check(h); v.Disagreement != "" || v.Second != v.Result(verdict.LeaseLinearizable).Outcome.Answer() {
			t.Fatalf("%s:\n%s", v.Disagreement, histories.FormatLines(h))
		}
		if answer == verdict.Holds {
			numAccepted++
		}
		if len(r.beliefs.Overlaps().Incidents) == 0 {
			continue
		}
		numViolated++
		if answer != verdict.Violated {
			t.Fatalf("porcupine judges the whole history as %s:\n%s", answer, histories.FormatLines(h))
		}
		res := judge(r, verdict.MutualExclusion)
		if reason := r.second.Contradiction(&res); res.Outcome != verdict.Violated || reason != "" {
			t.Fatalf("%s: %s:\n%s", res.Outcome, reason, histories.FormatLines(h))
		}
	}
	if numAccepted < histories.NumCases(500) {
		t.Errorf("porcupine accepted only %d histories", numAccepted)
	}
}

// An impossible history is judged without a panic.
func TestImpossibleHistories(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		h := histories.Random(rnd)
		for range 1 + rnd.IntN(6) {
			a, b := rnd.IntN(len(h.Events)), rnd.IntN(len(h.Events))
			switch rnd.IntN(5) {
			case 0:
				h.Events[a].Process = h.Events[b].Process
			case 1:
				h.Events[a].Type = h.Events[b].Type
			case 2:
				h.Events[a].Op = []string{history.OpSet, history.OpLog, history.OpWrite, history.OpRead}[rnd.IntN(4)]
			case 3:
				h.Events = slices.Delete(h.Events, a, a+1)
			case 4:
				h.Events[a].Session, h.Events[a].Key = h.Events[b].Session, ""
			}
			if len(h.Events) == 0 {
				break
			}
		}
		for _, res := range Check(h).Results {
			if len(res.Because) == 0 || res.Because[:min(11, len(res.Because))] == "the checker" {
				t.Fatalf("%s: %q:\n%s", res.Property, res.Because, histories.FormatLines(h))
			}
		}
	}
}
