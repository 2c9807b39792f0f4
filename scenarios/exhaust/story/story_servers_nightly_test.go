//go:build processes && nightly && !windows

package story

import (
	"cmp"
	"flag"
	"maps"
	"slices"
	"sync"
	"testing"

	"lockpick/scenarios/outcome"
)

// sideBySide is how many runs wait for each other's timers at once.
var sideBySide = flag.Int("side-by-side", 12, "runs of stories on real servers at once")

// All stories happen on real servers, by the cause that the simulation names, but for those that need
// instants which real time can't promise.
func TestAllStoriesOnProcesses(t *testing.T) {
	needRedis(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	room := make(chan struct{}, *sideBySide)
	here, there, retried := map[string]int{}, map[string]int{}, 0
	exact, seen := 0, map[string]bool{}
	for scope, r := range stories(t) {
		if r.Story == nil {
			continue
		}
		j, _, text := shown(t, scope, r.scenario)
		switch {
		case r.scenario.Exact:
			exact++
			continue
		case seen[text]:
			continue // both searches have found the same
		}
		seen[text] = true
		there[j.Cause]++
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			o, _ := onProcesses(t, r.scenario)
			mu.Lock()
			defer mu.Unlock()
			if len(o.Retried) > 0 {
				retried++
				t.Logf("%v was tried again: %q", scope, o.Retried)
			}
			if got := judged(scope, o); got.Cause != j.Cause || o.Code != outcome.ExitOK {
				t.Errorf("%v: %s (%s), want violated (%s); code %d %s: %s\n%s%s", scope, got.Got, got.Cause, j.Cause, o.Code, o.Error, got.Because, Caption(r.Story), text)
				return
			}
			here[j.Cause]++
		})
	}
	all.Wait()
	sum := func(m map[string]int) (n int) {
		for _, k := range m {
			n += k
		}
		return n
	}
	t.Logf("%d of %d stories happen on real servers, %d of them when tried again; %d more need exact instants", sum(here), sum(there), retried, exact)
	for _, cause := range slices.SortedFunc(maps.Keys(there), cmp.Compare) {
		t.Logf("%s: %d of %d", cause, here[cause], there[cause])
	}
	if sum(there) < 1000 {
		t.Errorf("only %d stories were run", sum(there))
	}
}
