package sequence_test

import (
	"fmt"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/reports/sequence"
)

// The diagram shows the two sessions that the verdict names.
func Example() {
	const s = int64(1e9)
	h := &history.History{
		Params: history.Params{Scenario: "two-holders", Nodes: []string{"n1"}, Clients: []string{"c1", "c2"}},
		Events: []history.Event{
			{N: 1, T: 1 * s, Process: "c1", Type: history.Invoke, Op: history.OpAcquire, Key: "lock-1", Session: "c1/1"},
			{N: 2, T: 2 * s, Process: "c1", Type: history.OK, Op: history.OpAcquire, Key: "lock-1", Session: "c1/1", ValidUntil: 9 * s},
			{N: 3, T: 3 * s, Process: "c2", Type: history.Invoke, Op: history.OpAcquire, Key: "lock-1", Session: "c2/1"},
			{N: 4, T: 4 * s, Process: "c2", Type: history.OK, Op: history.OpAcquire, Key: "lock-1", Session: "c2/1", ValidUntil: 12 * s},
			{N: 5, T: 5 * s, Process: "c1", Type: history.Invoke, Op: history.OpRelease, Key: "lock-1", Session: "c1/1"},
		},
	}
	violated := &verdict.Result{
		Property: verdict.MutualExclusion, Outcome: verdict.Violated,
		Witness: &verdict.Witness{Sessions: []string{"c1/1", "c2/1"}, Key: "lock-1", From: 4 * s, To: 5 * s},
	}
	fmt.Print(sequence.Text(sequence.ForResult(h, violated), 80))
	// Output:
	// two-holders: mutual-exclusion violated
	// c1 acquired lock-1 at 2.000 s with 7 s left. c2 acquired lock-1 at 4.000 s with
	// 8 s left. Both believed that they held lock-1 from 4.000 s to 5.000 s.
	//
	// seconds   client c1   locks n1    client c2
	//   1.000   ├─ acquire >│           │
	//    ⋮      │           │           │
	//   2.000   ┃<── ok ────┤           │   c1 holds lock-1 until 9.000 s
	//    ⋮      ┃           │           │
	//   3.000   ┃           │< acquire ─┤
	//    ⋮      ┃           │           │
	//   4.000 ! ┃           ├─── ok ───>┃   c2 holds lock-1 until 12.000 s
	//   4.000 ! ┃           │           ┃   BOTH c1 and c2 believe that they hold
	//         ! ┃           │           ┃   lock-1 until 5.000 s
	//    ⋮    ! ┃           │           ┃
	//   5.000   ├─ release >│           ┃   c1 releases, outcome unknown
	//
	// ┃ believes that it holds the lock · ! two clients believe that they hold the
	// lock
}
