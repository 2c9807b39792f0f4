package locktest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"lockpick/harness/scenario"
	"lockpick/nemesis"
	"lockpick/scenarios"
	"lockpick/scenarios/outcome"
)

// choice is one variant of a scenario, with the lock under test.
type choice struct {
	scenario.Scenario
	own  scenario.Scenario // with its own lock
	skip string            // why it is not for this lock; "": it is
}

// name is that of the subtest. Without a word for the base, -run could not name it alone.
func (c choice) name() string {
	if c.Variant == "" {
		return c.Name + "/" + scenario.BaseVariant
	}
	return c.ID()
}

// chosen are the scenarios that the options ask for, in the order of the catalogue.
func (r *run) chosen() ([]choice, error) {
	all, _, err := scenarios.Choose(r.Scenarios, r.Tags, r.known, nil)
	if err != nil {
		return nil, unknown(err)
	}
	var out []choice
	for _, f := range all {
		if r.Scenarios != nil || r.tiered(f.Scenario) {
			out = append(out, r.choice(f.Scenario))
		}
	}
	for name := range r.Without {
		if _, err := scenarios.Find(name, r.known, nil); err != nil {
			return nil, unknown(err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no scenario is chosen by names %q and tags %q: see lockpick list", r.Scenarios, r.Tags)
	}
	return out, nil
}

func unknown(err error) error { return fmt.Errorf("%w: see lockpick list", err) }

// tiered says whether a scenario is one of those that the lock is put under where none is named.
func (r *run) tiered(s scenario.Scenario) bool {
	return s.Lock.Mistake == "" && (s.Tier == scenario.TierEvery || s.Tier == scenario.TierQuorum && !r.kind.OneNode)
}

// choice puts the lock under a scenario, or says why it is not for it.
func (r *run) choice(own scenario.Scenario) choice {
	c := choice{Scenario: own, own: own}
	s, err := own.With(r.kind.Name, r.kind)
	if err == nil && r.Nodes != 0 && s.Topology.Nodes != r.Nodes && !r.kind.OneNode {
		s, err = resized(s, r.Nodes)
	}
	if err == nil {
		s = s.Having(r.kind, r.Set)
		if r.kind.OwnTime && r.Backend == Simulation {
			s, _ = s.Unturned()
		}
		if r.NoDrift {
			s = undrifted(s)
		}
		if r.Backend == Servers {
			factor := cmp.Or(r.Scale, s.Scale, realScale)
			s, c.own = s.Scaled(factor), own.Scaled(factor)
		}
		err = s.Check(r.known)
	}
	if err != nil {
		c.skip = err.Error()
		return c
	}
	c.Scenario = s
	return c
}

// realScale is the factor of durations on real servers where nobody says.
const realScale = 0.1

// resized is the scenario with another number of nodes, unless that would change what it is
// about: two nodes are few of five, and most of three.
func resized(s scenario.Scenario, nodes int) (scenario.Scenario, error) {
	names := s.NodeNames()
	of := func(target string) bool {
		_, end, isLink := nemesis.SplitLink(target)
		return slices.Contains(names, target) || isLink && slices.Contains(names, end)
	}
	certain := len(s.Topology.Addresses) > 0 ||
		slices.ContainsFunc(s.Clients, func(c scenario.Client) bool { return c.Reach != nil }) ||
		slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool {
			return slices.ContainsFunc(st.Fault.Targets, of) || st.When.Message != nil && of(st.When.Message.Link)
		})
	if certain {
		return s, fmt.Errorf("it is about certain ones of %d nodes, and here are %d", len(names), nodes)
	}
	s.Topology.Nodes = nodes
	return s, nil
}

// undrifted is the scenario for a lock that claims no margin for clocks that run fast or slow:
// dice leave them alone, and where the plan has one, nothing is expected.
func undrifted(s scenario.Scenario) scenario.Scenario {
	drifts := func(k nemesis.Kind) bool { return k.Power == nemesis.PowerClock && !k.Sets }
	if s.Random != nil {
		random, _ := s.Random.Without(func(c nemesis.Choice) bool { return drifts(c.Kind) })
		s.Random = &random
	}
	if slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		return drifts(kind)
	}) {
		s.Expect = maps.Clone(s.Expect)
		for property := range s.Expect {
			s.Expect[property] = scenario.Expectation{Want: outcome.AnyOutcome}
		}
	}
	return s
}
