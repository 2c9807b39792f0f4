//go:build long

package main

import (
	"regexp"
	"runtime"
	"testing"

	"lockpick/harness/scenario"
)

// TestLibrariesSameSeedSameBytes checks that each library runs in the simulation, that several
// clients acquire its lock, and that two runs are identical, even if the library's tokens are not
// seeded. This holds on one processor, as in workers. On two, a goroutine of rueidislock that reads
// the number of failures may overtake the goroutine that counts them; with client-side caching, a
// client then waits for a notification that never comes (v1.0.79).
func TestLibrariesSameSeedSameBytes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, name := range []string{"baseline/", "gc-pause-after-acquire/", "holder-cut-off/"} {
		picks, err := choice{names: []string{name}}.scenarios()
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range libraries() {
			t.Run(picks[0].Name+"/"+kind, func(t *testing.T) {
				s := picks[0].Scenario
				s.Lock.Kind = kind
				trace1, trace2 := traceTwice(t, s, 1)
				if n := countHolders(trace1.History); n < 2 {
					t.Errorf("%d clients acquired the lock", n)
				}
				if d := trace1.diff(trace2); d != "" {
					t.Errorf("two runs with the same seed differ in %s", d)
				}
			})
		}
	}
}

// countHolders counts the clients that acquired the lock.
func countHolders(record []byte) int {
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`"process":"(c[0-9]+)","type":"ok","op":"acquire"`).FindAllSubmatch(record, -1) {
		all[string(m[1])] = true
	}
	return len(all)
}

func traceTwice(t *testing.T, s scenario.Scenario, seed uint64) (trace1, trace2 trace) {
	t.Helper()
	for _, tr := range []*trace{&trace1, &trace2} {
		var err error
		if *tr, err = simulate(s, seed); err != nil {
			t.Fatal(err)
		}
	}
	return trace1, trace2
}
