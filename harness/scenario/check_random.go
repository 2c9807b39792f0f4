package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"lockpick/nemesis"
)

// listOr is a list, or in its place a section, which is known by any of its keys.
type listOr struct {
	list    list
	section object
}

func (l listOr) read(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode && slices.ContainsFunc(l.section.fields, func(f field) bool { return child(n, f.key) >= 0 }) {
		return l.section.read(n)
	}
	return l.list.read(n)
}

func (l listOr) schema() map[string]any {
	return map[string]any{"oneOf": []any{l.list.schema(), l.section.schema()}}
}

// randomForm is how a seed draws its plan.
func randomForm(r *nemesis.Random, unit time.Duration) shape {
	*r = nemesis.Random{Every: nemesis.Span{Min: time.Second, Max: 5 * time.Second}, Lasts: nemesis.Span{Min: 10 * time.Millisecond, Max: 20 * time.Second}, Safety: 0.6}
	var modes []string
	for _, k := range nemesis.Kinds {
		modes = append(modes, nemesis.Random{}.ModesOf(k)...)
	}
	list := func(name, sort string, to *[]string, allowed []string) shape {
		return words{name: name, to: to, item: func(to *string) word { return oneOf(to, sort, allowed) }}
	}
	return object{"random", []field{
		{key: "faults", doc: "what may be drawn; a seed uses about half of them", shape: list("faults", "fault", &r.Faults, nemesis.Choices()), must: true},
		{key: "within", doc: "keeps clocks and restarts within what Redlock assumes", shape: oneOf(&r.Within, "bound", []string{nemesis.Assumptions})},
		{key: "every", doc: "time between two faults of a kind: where a seed's mean lies", shape: span(&r.Every, unit)},
		{key: "lasts", doc: "the shortest fault, and the longest; most are short", shape: span(&r.Lasts, unit)},
		{key: "safety", doc: "share of the limit after which all is healed, and somebody must acquire", shape: percent(&r.Safety, 1)},
		{key: "modes", doc: "of faults that have several; all if it isn't given", shape: list("modes", "mode", &r.Modes, modes)},
		{key: "shapes", doc: "of what hits links; all if it isn't given", shape: list("shapes", "shape", &r.Shapes, nemesis.Shapes)},
	}}
}

// checkRandom: what is drawn must be able to take effect, and leave time to recover from.
func checkRandom(s *Scenario) error {
	r := s.Random
	if r == nil {
		return nil
	}
	const path = "plan.random"
	over := time.Duration(r.Safety * float64(s.Limit))
	switch {
	case r.Lasts.Min > over/10:
		return badAt(path+".lasts", fmt.Sprintf("make the shortest %v at most, or set a longer limit", over/10), "no fault fits into a safety phase of %v", over)
	case r.Every.Min > over/2:
		return badAt(path+".every", fmt.Sprintf("make the shortest %v at most, or set a longer limit", over/2), "next to no fault comes in a safety phase of %v", over)
	case s.Workload.For <= over:
		return badAt("workload", fmt.Sprintf("set workload.for to more than %v, the safety phase's end", over), "the clients may be done before the faults of a random plan are")
	case len(s.steady()) == 0:
		return badAt("clients", fmt.Sprintf("let one of them start by %v, and work until workload.for", time.Duration(latestStart*float64(s.Limit))), "a random plan has no client to hit")
	}
	for _, c := range r.Choices() {
		if slices.ContainsFunc(r.ModesOf(c.Kind), func(mode string) bool { return c.Kind.ModeNeeds[mode] == canWatch }) {
			s.Topology.DownAfter = cmp.Or(s.Topology.DownAfter, DefaultDownAfter)
		}
		switch {
		case c.Kind.Name == "failover" && s.Topology.Replicas == 0:
			return badAt(path+".faults", "set topology.replicas: 1", "a failover needs replicas")
		case c.Kind.Within == "" && r.Within != "":
			return badAt(path+".within", "leave out one of them", "a %s is beyond what Redlock assumes", c.Kind.Name)
		case c.Kind.Power == nemesis.PowerDisk && s.Topology.Persistence == PersistNone:
			return badAt(path+".faults", "set topology.persistence: everysec, always or no", "a %s needs nodes that persist", c.Kind.Name)
		case c.Kind.Name == "kill" && c.On == nemesis.Client && len(s.steady()) <= nemesis.Survivors && slices.Contains(r.Faults, c.Word):
			return badAt(path+".faults", "add clients", "%d clients survive, so there is none to kill", nemesis.Survivors)
		case len(c.Kind.Modes) > 0 && len(r.ModesOf(c.Kind)) == 0:
			return badAt(path+".modes", suggest("", "modes of "+c.Kind.Name, c.Kind.Modes), "no mode is left for the fault %s", c.Kind.Name)
		}
	}
	return nil
}

// excuse lets properties hold without an occasion: what a random plan puts to the test is
// left to the dice, and where nobody need acquire, nothing need be.
func excuse(expect map[string]Expectation) {
	for property, e := range expect {
		if e.Want == "holds" {
			e.Implied = true
			expect[property] = e
		}
	}
}
