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

// sideBySide is how many runs wait for each other's timers at once.
var sideBySide = flag.Int("side-by-side", 12, "runs of stories on real servers at once")

// All stories happen on real servers, by the cause that the simulation names, but for those that need
// instants which real time can't promise.
func TestAllStoriesOnProcesses(t *testing.T) {
	needRedis(t)
	var runs sync.WaitGroup
	var mu sync.Mutex
	room := make(chan struct{}, *sideBySide)
	here, there, retried := map[string]int{}, map[string]int{}, 0
	exact, same, seen := 0, 0, map[string]bool{}
	for r := range stories(t) {
		if r.Story == nil {
			continue
		}
		j, _, text := shown(t, r.scope, r.scenario)
		if cause := notSimulated[r.scenario.Name]; cause != "" {
			j.Cause = cause
		}
		switch {
		case r.scenario.Exact:
			exact++
			continue
		case seen[text]:
			same++ // both searches have found it
			continue
		}
		seen[text] = true
		there[j.Cause]++
		room <- struct{}{}
		runs.Go(func() {
			defer func() { <-room }()
			o, _ := onProcesses(t, r.scenario)
			mu.Lock()
			defer mu.Unlock()
			if len(o.Retried) > 0 {
				retried++
				t.Logf("%v was tried again: %q", r.scope, o.Retried)
			}
			if got := judged(r.scope, o); got.Cause != j.Cause || o.Code != outcome.ExitOK {
				t.Errorf("%v: %s (%s), want violated (%s); code %d %s: %s\n%s%s", r.scope, got.Got, got.Cause, j.Cause, o.Code, o.Error, got.Because, caption(r.Story), text)
				return
			}
			here[j.Cause]++
		})
	}
	runs.Wait()
	sum := func(m map[string]int) (n int) {
		for _, k := range m {
			n += k
		}
		return n
	}
	t.Logf("%d of %d stories happen on real servers, %d of them when tried again; %d more need exact instants, and %d were found twice", sum(here), sum(there), retried, exact, same)
	for _, cause := range slices.SortedFunc(maps.Keys(there), cmp.Compare) {
		t.Logf("%s: %d of %d", cause, here[cause], there[cause])
	}
	if found := sum(there) + exact + same; *named == "" && found < 1300 {
		t.Errorf("only %d stories were found", found)
	}
}
