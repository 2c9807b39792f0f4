package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lockpick/nemesis"
)

// checkRandom: what is drawn must be able to take effect, and leave time to recover from.
func checkRandom(s *Scenario) error {
	r := s.Random
	if r == nil {
		return nil
	}
	const path = "plan.random"
	steady, _ := steady(*s)
	over := time.Duration(r.Safety * float64(s.Limit))
	switch {
	case r.Lasts.Min > over/10:
		return badAt(path+".lasts", fmt.Sprintf("make the shortest %v at most, or set a longer limit", over/10), "no fault fits into a safety phase of %v", over)
	case r.Every.Min > over/2:
		return badAt(path+".every", fmt.Sprintf("make the shortest %v at most, or set a longer limit", over/2), "next to no fault comes in a safety phase of %v", over)
	case s.Workload.For <= over:
		return badAt("workload", fmt.Sprintf("set workload.for to more than %v, the safety phase's end", over), "the clients may be done before the faults of a random plan are")
	case len(steady) == 0:
		return badAt("clients", fmt.Sprintf("let one of them start by %v, and work until workload.for", time.Duration(latestStart*float64(s.Limit))), "a random plan has no client to hit")
	}
	for _, c := range r.Choices() {
		if slices.ContainsFunc(r.ModesOf(c.Kind), func(mode string) bool { return c.Kind.ByMode[mode].Needs == canWatch }) {
			s.Topology.DownAfter = cmp.Or(s.Topology.DownAfter, defaultDownAfter)
		}
		if o := c.Kind.Objects(s.ground()); o != nil {
			return badAt(path+".faults", o.Hint, "%s", o.What)
		}
		switch {
		case c.Kind.Within == "" && r.Within != "":
			return badAt(path+".within", "leave out one of them", "a %s is beyond what Redlock assumes", c.Kind.Name)
		case c.Fatal() && len(steady) <= nemesis.Survivors && slices.Contains(r.Faults, c.Word):
			return badAt(path+".faults", "add clients", "%d clients survive, so there is none to kill", nemesis.Survivors)
		case len(c.Kind.Modes) > 0 && len(r.ModesOf(c.Kind)) == 0:
			return badAt(path+".modes", suggest("", "modes of "+c.Kind.Name, c.Kind.Modes), "no mode is left for the fault %s", c.Kind.Name)
		}
	}
	return nil
}
