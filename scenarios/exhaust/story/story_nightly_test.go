//go:build nightly

package story

import (
	"iter"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
	"lockpick/scenarios/exhaust"
	"lockpick/scenarios/outcome"
)

// Whatever is found in a small scope happens in the simulation, however the search reduced it.
func TestAllStoriesHappen(t *testing.T) {
	found, untimed, exact := 0, 0, 0
	for s, r := range stories(t) {
		if untimed += r.Untimed; r.Story == nil {
			continue
		}
		found++
		if r.scenario.Exact {
			exact++
		}
		if j, o, text := shown(t, s, r.scenario); j.Got != verdict.Violated || o.Code != outcome.ExitOK {
			t.Errorf("%v: %s %s: %s, code %d %s\n%s%s", s, s.Property, j.Got, j.Because, o.Code, o.Error, Caption(r.Story), text)
		}
	}
	t.Logf("%d stories, of which %d need exact instants; %d paths without instants", found, exact, untimed)
	if found < 1300 {
		t.Errorf("only %d stories were found", found)
	}
}

// told is a search and the scenario of what it found.
type told struct {
	exhaust.Result
	scenario scenario.Scenario
}

// stories searches all small scopes, each of them as they are and reduced.
func stories(t *testing.T) iter.Seq2[exhaust.Scope, told] {
	return func(yield func(exhaust.Scope, told) bool) {
		for _, s := range scopes() {
			for _, reductions := range []exhaust.Reductions{exhaust.Exactly, exhaust.Fully} {
				if s.Fence && s.Nodes > 1 && reductions == exhaust.Exactly {
					continue // the counts make too many states
				}
				if r, found := search(t, s, reductions); !yield(s, told{r, found}) {
					return
				}
			}
		}
	}
}

// scopes are all small ones: of mutual exclusion those with each mistake and fault, and of the
// resource and its tokens those of the reference with each fault.
func scopes() (out []exhaust.Scope) {
	faults := []exhaust.Scope{{}, {Crashes: 1}, {Jumps: 1}, {Crashes: 1, Restart: exhaust.EverySec}, {Crashes: 1, Restart: exhaust.Delayed}, {Crashes: 1, Restart: exhaust.Always}}
	add := func(s exhaust.Scope) {
		if s.Check() == nil {
			out = append(out, s)
		}
	}
	for nodes := 1; nodes <= exhaust.MaxNodes; nodes++ {
		for attempts := 1; attempts <= 2; attempts++ {
			for _, s := range faults {
				s.Nodes, s.Attempts = nodes, attempts
				for _, s.Mistake = range append(exhaust.Mistakes(), "") {
					for s.Extends = range 2 {
						s.Property, s.Fence = exhaust.MutualExclusion, false
						add(s)
					}
				}
				if nodes > 3 && attempts > 1 {
					continue
				}
				s.Extends, s.Property = 0, exhaust.ResourceSafety
				add(s)
				s.Fence = true
				add(s)
				s.Property = exhaust.FencingOrder
				add(s)
			}
		}
	}
	return out
}
