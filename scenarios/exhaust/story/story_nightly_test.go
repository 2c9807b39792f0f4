//go:build nightly

package story

import (
	"testing"

	"lockpick/checker/verdict"
	"lockpick/scenarios/exhaust"
	"lockpick/scenarios/outcome"
)

// Whatever is found in a small scope happens in the simulation, however the search reduced it.
func TestAllStoriesHappen(t *testing.T) {
	found, untimed := 0, 0
	for _, mistake := range append(exhaust.Mistakes(), "") {
		for nodes := 1; nodes <= exhaust.MaxNodes; nodes++ {
			for attempts := 1; attempts <= 2; attempts++ {
				for extends := range 2 {
					for _, faults := range []exhaust.Scope{{}, {Crashes: 1}, {Jumps: 1}, {Crashes: 1, Restart: exhaust.EverySec}, {Crashes: 1, Restart: exhaust.Delayed}, {Crashes: 1, Restart: exhaust.Always}} {
						s := faults
						s.Nodes, s.Attempts, s.Extends, s.Mistake = nodes, attempts, extends, mistake
						if s.Check() != nil {
							continue
						}
						for _, reductions := range []exhaust.Reductions{exhaust.Exactly, exhaust.Fully} {
							r, scenario := search(t, s, reductions)
							if untimed += r.Untimed; r.Story == nil {
								continue
							}
							found++
							if j, o, text := shown(t, scenario); j.Got != verdict.Violated || o.Code != outcome.ExitOK {
								t.Errorf("%v: mutual exclusion %s: %s, code %d %s\n%s%s", s, j.Got, j.Because, o.Code, o.Error, Caption(r.Story), text)
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d stories, %d paths without instants", found, untimed)
	if found < 1000 {
		t.Errorf("only %d stories were found", found)
	}
}
