//go:build nightly

package exhaust

import (
	"flag"
	"iter"
	"regexp"
	"slices"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// notSimulated are stories that the simulation does not show, with the cause that real servers do: a node
// that loses its power leaves its clients' connections as they are until they are used, and on processes
// they end with the server.
var notSimulated = map[string]string{
	"exhaust-4n-1a-extend-crash-everysec-same-value-for-clients": "lost-unsynced",
}

// Whatever is found in a small scope happens in the simulation, however the search reduced it.
func TestAllStoriesHappen(t *testing.T) {
	found, untimed, exact, unseen := 0, 0, 0, 0
	for r := range stories(t) {
		if untimed += r.Untimed; r.Story == nil {
			continue
		}
		found++
		if r.scenario.Exact {
			exact++
		}
		j, o, text := shown(t, r.scope, r.scenario)
		not := notSimulated[r.scenario.Name] != ""
		if not {
			unseen++
		}
		if happens := j.Got == verdict.Violated && o.Code == outcome.ExitOK; happens == not {
			t.Errorf("%v: %s %s: %s, code %d %s, not simulated: %v\n%s%s", r.scope, r.scope.Property, j.Got, j.Because, o.Code, o.Error, not, caption(r.Story), text)
		}
	}
	t.Logf("%d stories, of which %d need exact instants, and %d are not simulated; %d paths without instants", found, exact, unseen, untimed)
	if *named == "" && found < 1300 {
		t.Errorf("only %d stories were found", found)
	}
}

// named are the stories that tests tell: all, unless one is looked at.
var named = flag.String("stories", "", "regular expression of the names of scopes whose stories are told")

// scenarioFound is what a search found, as a scenario.
type scenarioFound struct {
	Result
	scope    Scope
	scenario scenario.Scenario
}

// all is what all searches found, once a test has made them.
var all []scenarioFound

// stories searches all small scopes, each of them as they are and reduced.
func stories(t *testing.T) iter.Seq[scenarioFound] {
	if all != nil {
		return slices.Values(all)
	}
	return func(yield func(scenarioFound) bool) {
		for _, s := range scopes() {
			if !regexp.MustCompile(*named).MatchString(s.Name()) {
				continue
			}
			for _, reductions := range []Reductions{exactly, fully} {
				if s.Fence && s.Nodes > 1 && reductions == exactly {
					continue // the counts make too many states
				}
				r, found := search(t, s, reductions)
				if all = append(all, scenarioFound{r, s, found}); !yield(all[len(all)-1]) {
					return
				}
			}
		}
	}
}

// scopes are all small ones: of mutual exclusion those with each mistake and fault, and of the
// resource and its tokens those of the reference with each fault.
func scopes() (out []Scope) {
	faults := []Scope{{}, {Crashes: 1}, {Jumps: 1}, {Crashes: 1, Restart: everySec}, {Crashes: 1, Restart: Delayed}, {Crashes: 1, Restart: Always}}
	add := func(s Scope) {
		if s.Check() == nil {
			out = append(out, s)
		}
	}
	for nodes := 1; nodes <= MaxNodes; nodes++ {
		for attempts := 1; attempts <= 2; attempts++ {
			for _, s := range faults {
				s.Nodes, s.Attempts = nodes, attempts
				for _, s.Mistake = range append(Mistakes(), "") {
					for s.Extends = range 2 {
						s.Property, s.Fence = MutualExclusion, false
						add(s)
					}
				}
				if nodes > 3 && attempts > 1 {
					continue
				}
				s.Extends, s.Property = 0, resourceSafety
				add(s)
				s.Fence = true
				add(s)
				s.Property = fencingOrder
				add(s)
			}
		}
	}
	return out
}
