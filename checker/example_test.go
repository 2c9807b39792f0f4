package checker_test

import (
	"fmt"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

// Two clients are granted the lock while the first still believes it holds it.
func ExampleCheck() {
	h := &history.History{
		Params: history.Params{Clients: []string{"c1", "c2"}},
		Events: []history.Event{
			{N: 1, T: 0, Process: "c1", Type: history.Begin, Op: history.OpClient},
			{N: 2, T: 0, Process: "c2", Type: history.Begin, Op: history.OpClient},
			{N: 3, T: 1e9, Process: "c1", Type: history.Invoke, Op: history.OpAcquire, Session: "c1/1", Key: "lock-1"},
			{N: 4, T: 2e9, Process: "c1", Type: history.OK, Op: history.OpAcquire, Session: "c1/1", ValidUntil: 12e9},
			{N: 5, T: 3e9, Process: "c2", Type: history.Invoke, Op: history.OpAcquire, Session: "c2/1", Key: "lock-1"},
			{N: 6, T: 4e9, Process: "c2", Type: history.OK, Op: history.OpAcquire, Session: "c2/1", ValidUntil: 14e9},
			{N: 7, T: 9e9, Process: "c1", Type: history.Invoke, Op: history.OpRelease, Session: "c1/1"},
			{N: 8, T: 10e9, Process: "c1", Type: history.OK, Op: history.OpRelease, Session: "c1/1"},
		},
	}
	v := checker.Check(h, verdict.MutualExclusion)
	r := v.Result(verdict.MutualExclusion)
	fmt.Println(r.Outcome)
	fmt.Println(r.Because)
	fmt.Println(r.Witness.Events, v.Numbers["double-hold-seconds"])
	// Output:
	// violated
	// c1 and c2 both believed they held lock-1 from 4 s to 9 s (5 s): the record contains no information about the nodes
	// [3 4 5 6 7] 5
}
