package checker

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"

	"lockpick/harness/history"
)

// TestHistoriesAgainstPorcupine compares what Check finds in whole histories with
// what porcupine says of them, translated by dumbOps: so a mistake in the
// checker's own translation, which both judges see, can't hide.
func TestHistoriesAgainstPorcupine(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	seen := map[Outcome]int{}
	for i := range randomHistories {
		h := randomHistory(rnd)
		want := Violated
		if porcupine.CheckOperationsTimeout(leaseModel, dumbOps(h), 0) == porcupine.Ok {
			want = Holds
		}
		if got := judge(newRecord(h), LeaseLinearizable); got.Outcome.answer() != want {
			t.Fatalf("history %d: %s (%s), want %s:\n%s", i, got.Outcome, got.Because, want, lines(h))
		}
		seen[want]++
	}
	if min(seen[Holds], seen[Violated]) < randomHistories/10 {
		t.Errorf("the comparison is one-sided: %v", seen)
	}
}

// dumbOps reads each session's operations straight from the events.
func dumbOps(h *history.History) []porcupine.Operation {
	var ops []porcupine.Operation
	ε := int64(h.Params.StampError)
	owner := 0
	for _, acquire := range h.Events {
		if acquire.Op != history.OpAcquire || acquire.Type != history.Invoke {
			continue
		}
		owner++
		granted := lastGrant(h, acquire.Session)
		busy := int64(math.MinInt64) // until then the client did something else
		for i, call := range h.Events {
			if call.Session != acquire.Session || call.Type != history.Invoke {
				continue
			}
			o := leaseOp{owner: owner, op: call.Op, outcome: history.Info, lapse: never}
			from, to := max(call.T, busy), int64(never)
			claims := int64(0)
			for _, ret := range h.Events[i+1:] {
				if ret.Session == call.Session && ret.Type != history.Invoke {
					o.outcome, claims = ret.Type, ret.ValidUntil
					if ret.Type != history.Info {
						to = max(ret.T, from)
					}
					break
				}
			}
			unknown := o.outcome == history.Info
			if call.Op == history.OpAcquire && o.outcome == history.Fail || call.Op == history.OpExtend && unknown {
				continue // says nothing, not even that the client was busy meanwhile
			}
			if busy = from + 1; to != never {
				busy = to + 1
				to += ε
			}
			switch {
			case call.Op == history.OpAcquire && unknown:
				o.lapse = math.MinInt64
			case call.Op == history.OpAcquire && claims != 0:
				o.lapse = claims - ε
			case call.Op == history.OpExtend && o.outcome == history.OK:
				o.lapse = granted
				if granted != never && granted != math.MinInt64 {
					o.lapse -= ε
				}
			}
			o.call, o.ret = from-ε, to
			ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: o, Call: o.call, Return: o.ret})
		}
	}
	return ops
}

// lastGrant is the latest deadline that a session was told of.
func lastGrant(h *history.History, session string) int64 {
	until := int64(math.MinInt64)
	for _, e := range h.Events {
		if e.Session != session || e.Type != history.OK {
			continue
		}
		switch {
		case e.ValidUntil != 0:
			until = e.ValidUntil
		case e.Op == history.OpAcquire:
			until = never
		}
	}
	return until
}
