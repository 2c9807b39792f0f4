// Package assumptions says why a run shows nothing, whatever came of it.
//
// Unplanned: somebody else than the plan hit it. Vacuous: what was to happen did not, or a
// fault was in force and hit nothing (in_vain.go), which the run's usage of clients, nodes
// and links tells (usage.go). That a history is malformed package facts says.
//
// Deliberately missing: what the run would show otherwise.
package checker

import (
	"cmp"
	"fmt"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// vacuous says what was to happen in the run and didn't, or "". A run that
// shows nothing must not pass.
func vacuous(r *facts.Facts) string {
	if len(r.Lacks) > 0 { // whatever came of it, Redis would have answered otherwise
		return fmt.Sprintf("the simulated %s does not know %s; run it on process", r.Lacks[0].Node, r.Lacks[0].Value)
	}
	for _, c := range r.Params.Clients {
		if !r.Began[c] {
			return c + " never began"
		}
	}
	u := newUsage(r)
	for _, s := range r.Params.Steps {
		if why := missed(u, s); why != "" {
			return fmt.Sprintf("step %d (%s) %s", s.Step, describe(s), why)
		}
	}
	if !r.Params.MayBeIdle && r.Grants == 0 {
		return "nobody acquired a lock"
	}
	return ""
}

// missed says how a planned step did not come into force on all its targets, or "".
func missed(r *usage, s history.PlannedStep) string {
	var begun []string
	tried, met, vain := false, s.Optional, ""
	for _, f := range r.steps[s.Step] {
		tried = true
		if f.Fail != nil {
			return fmt.Sprintf("failed on %s: %s", f.Target, f.Fail.Cause)
		}
		if f.Begin != nil {
			begun = append(begun, f.Target)
			if !met {
				why := faultInVain(r, s, f)
				met, vain = why == "", cmp.Or(vain, why)
			}
		}
	}
	switch {
	case !tried && s.Optional:
		return ""
	case !tried:
		return "never came: its trigger was not seen"
	case len(begun) == 0:
		return "was not seen to be in force"
	}
	covered := covers(s.Targets, begun)
	for _, t := range s.Targets {
		if !covered[t] {
			return "was not seen to be in force on " + t
		}
	}
	if !met {
		return "hit nothing: " + vain
	}
	return ""
}

// covers finds the planned targets that were hit, or one of whose links was. A target that
// only the run can name, such as the holder, is anybody.
func covers(targets, begun []string) map[string]bool {
	covered := map[string]bool{"holder": true}
	long := map[int]bool{} // how long the names of targets are
	for _, t := range targets {
		long[len(t)] = true
	}
	add := func(name string) {
		if long[len(name)] {
			covered[name] = true
		}
	}
	for _, hit := range begun {
		add(hit)
		for i := range len(hit) {
			if hit[i] == '-' {
				add(hit[:i])
				add(hit[i+1:])
			}
		}
	}
	return covered
}

func describe(s history.PlannedStep) string {
	text := s.Fault
	if len(s.Targets) > 0 {
		text += " " + strings.Join(s.Targets, ", ")
	}
	if s.When != "" {
		text += ", when: " + s.When
	}
	return text
}
