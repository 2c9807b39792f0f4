package mutex_test

import (
	"fmt"

	"lockpick/checker/mutex"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// One process acquires the lock, and another releases it.
func ExampleCheck() {
	event := func(n int64, process string, typ history.Type, op string) *history.Event {
		return &history.Event{N: n, T: n * 1e9, Process: process, Type: typ, Op: op, Key: "lock-1"}
	}
	ops := []facts.Operation{
		{Call: event(1, "p0", history.Invoke, history.OpAcquire), Return: event(2, "p0", history.OK, history.OpAcquire)},
		{Call: event(3, "p1", history.Invoke, history.OpRelease), Return: event(4, "p1", history.OK, history.OpRelease)},
	}
	for _, model := range mutex.Models() {
		r := mutex.Check(model, ops).Results[0]
		fmt.Printf("%s %s: %s\n", r.Property, r.Outcome, r.Because)
	}
	// Output:
	// mutex holds: a single mutex could have produced these results, 2 of them ok
	// owner-mutex violated: p1's release (operations 3 and 4) returned ok at 4 s, but it did not hold lock-1: it had not acquired it
}
