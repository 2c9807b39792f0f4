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
	violated, fine := 0, 0
	for violated < histories.Cases(2000) {
		h := histories.Random(rnd)
		if why := malformedReason(h); why != "" {
			t.Fatalf("malformed: %s:\n%s", why, histories.Lines(h))
		}
		r := newRecord(h)
		answer := r.second.Answer(second.Timeout)
		if v := Check(h); v.Disagreement != "" || v.Second != v.Result(verdict.LeaseLinearizable).Outcome.Answer() {
			t.Fatalf("%s:\n%s", v.Disagreement, histories.Lines(h))
		}
		if answer == verdict.Holds {
			fine++
		}
		if len(r.beliefs.Overlaps().Incidents) == 0 {
			continue
		}
		violated++
		if answer != verdict.Violated {
			t.Fatalf("porcupine judges the whole history as %s:\n%s", answer, histories.Lines(h))
		}
		res := judge(r, verdict.MutualExclusion)
		if why := r.second.Contradiction(&res); res.Outcome != verdict.Violated || why != "" {
			t.Fatalf("%s: %s:\n%s", res.Outcome, why, histories.Lines(h))
		}
	}
	if fine < histories.Cases(500) {
		t.Errorf("porcupine accepted only %d histories", fine)
	}
}

// An impossible history is judged without a panic.
func TestGarbage(t *testing.T) {
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
				t.Fatalf("%s: %q:\n%s", res.Property, res.Because, histories.Lines(h))
			}
		}
	}
}
