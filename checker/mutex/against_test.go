package mutex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// TestModelsAgainstPorcupine compares each judge with porcupine and with an exhaustive search,
// using random histories of a few operations. A violation must be reported at the first return that
// neither of these can explain.
func TestModelsAgainstPorcupine(t *testing.T) {
	const cases = 60_000 // per model
	for _, model := range Models() {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(11, 12))
			numViolated := 0
			for i := range cases {
				ops := randomOperations(rnd)
				c := walk(ops, newJudge(model))
				if c != nil {
					numViolated++
				}
				if reason := disagreement(model, ops, c); reason != "" {
					t.Fatalf("case %d: %s:\n%s", i, reason, format(ops))
				}
			}
			t.Logf("%d of %d histories are violated", numViolated, cases)
			if numViolated < cases/5 || numViolated > cases*4/5 {
				t.Errorf("%d of %d histories are violated; the comparison is one-sided", numViolated, cases)
			}
		})
	}
}

// disagreement describes how a judge differs from the other two, or returns "" if they agree.
func disagreement(model string, ops []facts.Operation, c *contradiction) string {
	if got := isLinearizable(model, ops); got != (c == nil) {
		return fmt.Sprintf("the judge finds an explanation: %v; porcupine finds one: %v", c == nil, got)
	}
	if c == nil {
		if !hasExplanation(model, ops) {
			return "the judge finds an explanation, but no order is one"
		}
		return ""
	}
	at := c.ops[len(c.ops)-1].Return.T
	if hasExplanation(model, operationsUntil(ops, at)) {
		return "an order explains everything, including this result: " + c.reason
	}
	if !hasExplanation(model, operationsUntil(ops, at-1)) {
		return "no order explains the operations before this result: " + c.reason
	}
	return ""
}

// operationsUntil returns the operations called by the given time. An operation that succeeds later
// has not returned yet; one that fails later is treated as failed.
func operationsUntil(ops []facts.Operation, at int64) []facts.Operation {
	var visible []facts.Operation
	for _, o := range ops {
		if o.Call.T > at {
			continue
		}
		if o.Outcome() == history.OK && o.Return.T > at {
			o.Return = nil
		}
		visible = append(visible, o)
	}
	return visible
}

// apply returns the holder after an operation, and whether the operation can take effect. 0 means
// free. Only OwnerMutex distinguishes holders.
func apply(model string, holder int, o facts.Operation) (int, bool) {
	p := 1
	if model == OwnerMutex {
		p = int(o.Call.Process[1]-'0') + 1
	}
	if isAcquire(o) {
		return p, holder == 0
	}
	return 0, holder == p
}

// hasExplanation tries all orders. The next operation may be any that was called before the first
// return of the remaining operations. Sets of operations that lead nowhere are cached.
func hasExplanation(model string, ops []facts.Operation) bool {
	type state struct{ had, holder int }
	failed := map[state]bool{}
	var search func(at state) bool
	search = func(at state) bool {
		first := int64(facts.Never)
		for i, o := range ops {
			if at.had&(1<<i) == 0 && o.Outcome() == history.OK {
				first = min(first, o.Return.T)
			}
		}
		if first == facts.Never {
			return true
		}
		if failed[at] {
			return false
		}
		failed[at] = true
		for i, o := range ops {
			if at.had&(1<<i) != 0 || o.Call.T > first || o.Outcome() == history.Fail {
				continue
			}
			if holder, ok := apply(model, at.holder, o); ok && search(state{at.had | 1<<i, holder}) {
				return true
			}
		}
		return false
	}
	return search(state{})
}

// isLinearizable reports whether porcupine finds an order. An operation of unknown outcome that
// cannot take effect is skipped.
func isLinearizable(model string, ops []facts.Operation) bool {
	m := porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			o := input.(facts.Operation)
			if holder, ok := apply(model, state.(int), o); ok {
				return true, holder
			}
			return o.Outcome() == history.Info, state
		},
	}
	var operations []porcupine.Operation
	for i, o := range ops {
		if o.Outcome() != history.Fail {
			operations = append(operations, porcupine.Operation{ClientId: i, Input: o, Call: o.Call.T, Return: o.OutcomeAt()})
		}
	}
	return porcupine.CheckOperations(m, operations)
}

// randomOperations returns operations by up to five processes. In two thirds of the cases, they
// mostly alternate acquire and release. A process stops after an unknown outcome.
func randomOperations(rnd *rand.Rand) []facts.Operation {
	var ops []facts.Operation
	openOps, isHolder, stopped := map[int]int{}, map[int]bool{}, map[int]bool{}
	processes, events, alternating := 1+rnd.IntN(5), 2+rnd.IntN(17), rnd.IntN(3) > 0
	for t := int64(1); t <= int64(events); t++ {
		p := rnd.IntN(processes)
		e := &history.Event{N: t, T: t, Process: fmt.Sprint("p", p), Key: "lock", Type: history.Invoke}
		i, busy := openOps[p]
		switch {
		case stopped[p]:
		case !busy:
			e.Op = history.OpAcquire
			if releases := rnd.IntN(2) == 0; alternating && isHolder[p] && rnd.IntN(12) > 0 || (!alternating || rnd.IntN(12) == 0) && releases {
				e.Op = history.OpRelease
			}
			openOps[p] = len(ops)
			ops = append(ops, facts.Operation{Call: e})
		default:
			delete(openOps, p)
			e.Op = ops[i].Call.Op
			e.Type = []history.Type{history.OK, history.OK, history.OK, history.OK, history.OK, history.Fail, history.Info}[rnd.IntN(7)]
			if e.Type == history.OK {
				isHolder[p] = e.Op == history.OpAcquire
			}
			stopped[p] = e.Type == history.Info
			ops[i].Return = e
		}
	}
	return ops
}

func format(ops []facts.Operation) string {
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "%s %s %s %d-%d\n", o.Call.Process, o.Call.Op, o.Outcome(), o.Call.T, o.ReturnedAt())
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	for _, c := range checks {
		var ops []facts.Operation
		openOps := map[string]int{}
		n := int64(0)
		for line := range strings.Lines(c.events) {
			n++
			w := strings.Fields(line)
			e := &history.Event{N: n, T: n * 1e9, Process: w[0], Type: history.Type(w[1]), Op: w[2], Key: "lock"}
			if len(w) > 3 {
				e.Key = w[3]
			}
			if e.Type == history.Invoke {
				openOps[e.Process] = len(ops)
				ops = append(ops, facts.Operation{Call: e})
				continue
			}
			ops[openOps[e.Process]].Return = e
		}
		for _, model := range Models() {
			v := Check(model, ops)
			res := v.Results[0]
			want, ok := c.want[model]
			if !ok {
				want = expected{verdict.Holds, "could have produced these results", nil}
			}
			var witness []int64
			if res.Witness != nil {
				witness = res.Witness.Events
			}
			if v.Model != model || res.Property != model || res.Outcome != want.outcome || !strings.Contains(res.Because, want.text) || !slices.Equal(witness, want.witness) {
				t.Errorf("%s: %s %s: %s %v", c.name, res.Property, res.Outcome, res.Because, witness)
			}
		}
	}
}

type expected struct {
	outcome verdict.Outcome
	text    string
	witness []int64
}

const twoHolders = "p0 invoke acquire\np0 ok acquire\np1 invoke acquire\np1 ok acquire\n"

var checks = []struct {
	name, events string
	want         map[string]expected // by model; missing if the model holds
}{
	{"two holders", twoHolders, map[string]expected{
		Mutex: {verdict.Violated, "p1's acquire (operations 3 and 4) returned ok at 4 s, but lock was held since p0's acquire (operations 1 and 2), " +
			"and no release called by then could have come in between", []int64{1, 2, 3, 4}},
		OwnerMutex: {verdict.Violated, "p1's acquire (operations 3 and 4) returned ok at 4 s, but p0 held lock since p0's acquire (operations 1 and 2) " +
			"and had not called release by then", []int64{1, 2, 3, 4}},
	}},
	{"released by another process", "p0 invoke acquire\np0 ok acquire\np1 invoke release\np1 ok release\n", map[string]expected{
		OwnerMutex: {verdict.Violated, "p1's release (operations 3 and 4) returned ok at 4 s, but it did not hold lock: it had not acquired it", []int64{3, 4}},
	}},
	{"released twice", "p0 invoke acquire\np0 ok acquire\np0 invoke release\np0 ok release\np0 invoke release\np0 ok release\n", map[string]expected{
		Mutex: {verdict.Violated, "p0's release (operations 5 and 6) returned ok at 6 s, but lock was free since p0's release (operations 3 and 4), " +
			"and no acquire called", []int64{3, 4, 5, 6}},
		OwnerMutex: {verdict.Violated, "it did not hold lock: it had released it by p0's release (operations 3 and 4)", []int64{3, 4, 5, 6}},
	}},
	{"released first", "p0 invoke release\np0 ok release\n", map[string]expected{
		Mutex:      {verdict.Violated, "lock was free from the beginning", []int64{1, 2}},
		OwnerMutex: {verdict.Violated, "it had not acquired it", []int64{1, 2}},
	}},
	{"acquired again by the holder", "p0 invoke acquire\np0 ok acquire\np0 invoke acquire\np0 ok acquire\n", map[string]expected{
		Mutex:      {verdict.Violated, "lock was held since p0's acquire (operations 1 and 2)", []int64{1, 2, 3, 4}},
		OwnerMutex: {verdict.Violated, "it held lock since p0's acquire (operations 1 and 2) and had not called release", []int64{1, 2, 3, 4}},
	}},
	{"two locks, and the second is broken", "p9 invoke acquire a\np9 ok acquire a\n" + strings.ReplaceAll(twoHolders, "\n", " b\n"), map[string]expected{
		Mutex:      {verdict.Violated, "but b was held", []int64{3, 4, 5, 6}},
		OwnerMutex: {verdict.Violated, "p0 held b since", []int64{3, 4, 5, 6}},
	}},
	{"two locks, and the one used last is broken first", "p0 invoke acquire a\np0 ok acquire a\n" + strings.ReplaceAll(twoHolders, "\n", " b\n") + "p2 invoke acquire a\np2 ok acquire a\n", map[string]expected{
		Mutex:      {verdict.Violated, "but b was held", []int64{3, 4, 5, 6}},
		OwnerMutex: {verdict.Violated, "p0 held b since", []int64{3, 4, 5, 6}},
	}},
	{"two locks, two holders", "p0 invoke acquire a\np0 ok acquire a\np1 invoke acquire b\np1 ok acquire b\n", nil},
	{"no acquire succeeded", "p0 invoke acquire\np0 fail acquire\np1 invoke acquire\np1 info acquire\n", map[string]expected{
		Mutex:      {verdict.Undecided, "nobody acquired a lock", nil},
		OwnerMutex: {verdict.Undecided, "nobody acquired a lock", nil},
	}},
}
