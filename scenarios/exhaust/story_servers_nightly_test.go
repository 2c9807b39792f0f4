//go:build processes && nightly && !windows

package exhaust

import (
	"cmp"
	"flag"
	"maps"
	"slices"
	"sync"
	"testing"

	"lockpick/scenarios/outcome"
)

// parallelRuns may exceed the number of processors, because runs spend most of their time waiting.
var parallelRuns = flag.Int("side-by-side", 12, "number of parallel runs on real servers")

// All counterexamples that do not require exact times occur on real servers, with the same cause as
// in the simulation.
func TestAllStoriesOnProcesses(t *testing.T) {
	requireRedis(t)
	var runs sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, *parallelRuns)
	confirmed, simulated, numRetried := map[string]int{}, map[string]int{}, 0
	numExact, numDuplicate, seen := 0, 0, map[string]bool{}
	for r := range counterexamples(t) {
		if r.Counterexample == nil {
			continue
		}
		j, _, text := simulate(t, r.scope, r.scenario)
		if cause := notInSimulation[r.scenario.Name]; cause != "" {
			j.Cause = cause
		}
		switch {
		case r.scenario.Exact:
			numExact++
			continue
		case seen[text]:
			numDuplicate++ // found by both searches
			continue
		}
		seen[text] = true
		simulated[j.Cause]++
		slots <- struct{}{}
		runs.Go(func() {
			defer func() { <-slots }()
			o, _ := runOnProcesses(t, r.scenario)
			mu.Lock()
			defer mu.Unlock()
			if len(o.RetryReasons) > 0 {
				numRetried++
				t.Logf("%v was retried: %q", r.scope, o.RetryReasons)
			}
			if got := judgementOf(r.scope, o); got.Cause != j.Cause || o.Code != outcome.ExitOK {
				t.Errorf("%v: %s (%s), want violated (%s); code %d %s: %s\n%s%s", r.scope, got.Got, got.Cause, j.Cause, o.Code, o.Error, got.Because, caption(r.Counterexample), text)
				return
			}
			confirmed[j.Cause]++
		})
	}
	runs.Wait()
	sum := func(m map[string]int) (n int) {
		for _, k := range m {
			n += k
		}
		return n
	}
	t.Logf("%d of %d counterexamples occur on real servers, %d of them after a retry; %d more require exact times, and %d were found twice", sum(confirmed), sum(simulated), numRetried, numExact, numDuplicate)
	for _, cause := range slices.SortedFunc(maps.Keys(simulated), cmp.Compare) {
		t.Logf("%s: %d of %d", cause, confirmed[cause], simulated[cause])
	}
	if found := sum(simulated) + numExact + numDuplicate; *counterexampleFilter == "" && found < 1300 {
		t.Errorf("found only %d counterexamples", found)
	}
}
