package checker

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"lockpick/checker/second"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// mutexModel is the plain mutex that is commonly used to check locks: it has no lease, so nothing
// lapses. A failed release means that the caller did not hold the lock. An operation of unknown
// outcome that cannot take effect at its place in the order is assumed to have had no effect, so
// the model needs no sets of states.
var mutexModel = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		owner, o := state.(int), input.(second.Question)
		if o.Outcome == history.Fail {
			return owner != o.Owner, state
		}
		switch {
		case o.Op == history.OpAcquire && owner == 0:
			return true, o.Owner
		case o.Op == history.OpRelease && owner == o.Owner:
			return true, 0
		}
		return o.Outcome == history.Info, state
	},
	DescribeOperation: second.Model.DescribeOperation,
}

// peers are the judges with which the checker is compared.
var peers = map[string]porcupine.Model{"mutex": mutexModel, "lease": second.Model}

// checkWithPeer checks the operations of all keys with porcupine, in parallel.
func checkWithPeer(model porcupine.Model, keys [][]porcupine.Operation) verdict.Outcome {
	model.Partition = func([]porcupine.Operation) [][]porcupine.Operation { return keys }
	if porcupine.CheckOperations(model, nil) {
		return verdict.Holds
	}
	return verdict.Violated
}

// peerOps returns a history's acquires and releases as porcupine operations, by key. Unlike
// questionsOf, it keeps no event alive, so that a peer's memory can be measured separately from the
// history's.
func peerOps(h *history.History) [][]porcupine.Operation {
	keyIndex := map[string]int{}
	var keys [][]porcupine.Operation
	openQuestions := map[string]*second.Question{}
	owners := 0
	for i := range h.Events {
		e := &h.Events[i]
		if e.Op != history.OpAcquire && e.Op != history.OpRelease {
			continue
		}
		o := openQuestions[e.Process]
		if o == nil {
			o = &second.Question{}
			openQuestions[e.Process] = o
		}
		if e.Type == history.Invoke {
			if e.Op == history.OpAcquire {
				owners++
				o.Owner = owners
			}
			o.Op, o.Call = e.Op, e.T
			continue
		}
		o.Outcome, o.Return, o.Expiry = e.Type, e.T, facts.Never
		switch {
		case e.Type == history.Info && e.Op == history.OpAcquire:
			o.Return, o.Expiry = facts.Never, math.MinInt64
		case e.Type == history.Info:
			o.Return = facts.Never
		case e.Op == history.OpAcquire:
			o.Expiry = facts.Deadline(e)
		}
		k, ok := keyIndex[e.Key]
		if !ok {
			k = len(keys)
			keyIndex[e.Key] = k
			keys = append(keys, nil)
		}
		keys[k] = append(keys[k], porcupine.Operation{Input: *o, Call: o.Call, Return: o.Return})
	}
	return keys
}

// TestPeersAgree checks what the comparison relies on: generated histories have the intended
// outcome, and all judges agree.
func TestPeersAgree(t *testing.T) {
	operationCounts, unknownCounts, judgedCounts := map[int]int{}, map[int]int{}, map[string]int{}
	for _, c := range []contention{{operations: 12}, {operations: 60}, {operations: 300}} {
		for _, c.unknownPercent = range []int{0, 1, 5, 50} {
			for _, c.keys = range []int{1, 10} {
				for seed := range uint64(2 * 10) {
					c.seed, c.violated = seed, seed%2 == 1
					h := c.history()
					n, unknown := countOperations(h)
					if n != c.operations && n != c.operations-1 || c.unknownPercent == 0 && n != c.operations {
						t.Fatalf("%+v: %d operations", c, n)
					}
					operationCounts[c.unknownPercent] += n
					unknownCounts[c.unknownPercent] += unknown
					if checkContention(t, c, h, unknown) {
						judgedCounts[fmt.Sprint(c.unknownPercent, c.violated)]++
					}
				}
			}
		}
	}
	t.Logf("number of histories judged by the peers, by unknown and violated: %v", judgedCounts)
	for percent, n := range operationCounts {
		for _, violated := range []bool{false, true} {
			if judgedCounts[fmt.Sprint(percent, violated)] < 10 {
				t.Errorf("the peers judged too few histories: %v", judgedCounts)
			}
		}
		share := 100 * float64(unknownCounts[percent]) / float64(n)
		if percent == 0 && share > 0 || math.Abs(share-float64(percent)) > 0.3+0.1*float64(percent) {
			t.Errorf("%.1f %% of the outcomes are unknown, want %d %%", share, percent)
		}
	}
}

func countOperations(h *history.History) (operations, unknown int) {
	for _, e := range h.Events {
		if facts.IsOperation(e.Op) && e.Type != history.Invoke {
			operations++
			if e.Type == history.Info {
				unknown++
			}
		}
	}
	return operations, unknown
}

// checkContention compares all judges and reports whether the peers were among them. It skips the
// peers if their search would take too long.
func checkContention(t *testing.T, c contention, h *history.History, unknown int) bool {
	t.Helper()
	want, incidents := verdict.Holds, 0
	if c.violated {
		want, incidents = verdict.Violated, 1
	}
	if reason := malformedReason(h); reason != "" {
		t.Fatalf("%+v: malformed: %s", c, reason)
	}
	r := newRecord(h)
	for _, name := range []string{verdict.MutualExclusion, verdict.LeaseLinearizable} {
		res := judge(r, name)
		if res.Outcome.Answer() != want || res.Incidents != incidents {
			t.Errorf("%+v: %s is %s: %s", c, name, res.Outcome, res.Because)
		}
		if c.violated && c.operations == 300 && slices.Max(res.Witness.Events) < int64(len(h.Events))*8/10 {
			t.Errorf("%+v: the violation is too early, at event %d of %d", c, slices.Max(res.Witness.Events), len(h.Events))
		}
	}
	if unknown > 7 {
		return false
	}
	for name, model := range peers {
		if got := checkWithPeer(model, peerOps(h)); got != want {
			t.Errorf("%+v: porcupine with the %s model says %s", c, name, got)
		}
	}
	return true
}

// A generated history has the same outcome for a mutex and a lease. The outcomes differ if a lease
// lapsed and a release came too late.
func TestMutexModelIgnoresLapse(t *testing.T) {
	h := contention{operations: 4, keys: 1}.history()
	lapsed := false
	for i := range h.Events {
		e := &h.Events[i]
		if !lapsed && e.Op == history.OpAcquire && e.Type == history.OK {
			e.ValidUntil = e.T + 1
		}
		if e.Op == history.OpRelease && e.Type == history.OK && !lapsed {
			e.Type, lapsed = history.Fail, true
		}
	}
	if v := Check(h); v.Result(verdict.MutualExclusion).Outcome.Answer() != verdict.Holds || v.Result(verdict.LeaseLinearizable).Outcome != verdict.Holds {
		t.Error(v.Results)
	}
	got := fmt.Sprintf("mutex %s, lease %s", checkWithPeer(mutexModel, peerOps(h)), checkWithPeer(second.Model, peerOps(h)))
	if got != "mutex violated, lease holds" {
		t.Error(got)
	}
}
