package mutex

import (
	"fmt"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// BenchmarkCheck checks a million operations of ten contending processes. One release in twenty has
// no outcome.
func BenchmarkCheck(b *testing.B) {
	ops := contendedOperations(1_000_000)
	for _, model := range Models() {
		b.Run(model, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if res := Check(model, ops).Results[0]; res.Outcome != verdict.Holds {
					b.Fatal(res.Because)
				}
			}
		})
	}
}

// contendedOperations returns operations of processes that call acquire at the same time and hold
// the lock in turn.
func contendedOperations(n int) []facts.Operation {
	ops := make([]facts.Operation, 0, n)
	t := int64(0)
	event := func(p, op string, typ history.Type) *history.Event {
		t++
		return &history.Event{N: t, T: t, Process: p, Type: typ, Op: op, Key: "lock"}
	}
	for round := 0; len(ops) < n; round++ {
		first := len(ops)
		for p := range 10 {
			ops = append(ops, facts.Operation{Call: event(fmt.Sprint("p", round, "-", p), history.OpAcquire, history.Invoke)})
		}
		for i := range 10 {
			o := &ops[first+i]
			p, outcome := o.Call.Process, history.OK
			if i == 0 && round%2 == 0 {
				outcome = history.Info
			}
			o.Return = event(p, history.OpAcquire, history.OK)
			ops = append(ops, facts.Operation{Call: event(p, history.OpRelease, history.Invoke), Return: event(p, history.OpRelease, outcome)})
		}
	}
	return ops
}
