//go:build linux

package docker

import (
	"fmt"
	"slices"
	"time"

	"lockpick/harness/real/clock"
	"lockpick/harness/real/skew"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// turnable lists the nodes and clients whose clocks the scenario may turn.
func turnable(s scenario.Scenario) (names []string) {
	for _, st := range s.Plan {
		if kind, _ := nemesis.KindOf(st.Fault.Kind); kind.Power == nemesis.PowerClock {
			names = append(names, st.Fault.Targets...)
		}
	}
	if s.Random == nil {
		return names
	}
	for _, choice := range s.Random.Choices() {
		switch {
		case choice.Kind.Power != nemesis.PowerClock:
		case choice.On == nemesis.Client:
			names = append(names, s.ClientNames()...)
		default:
			names = append(names, s.NodeNames()...)
		}
	}
	return names
}

// addTurners makes the turners of a run.
func (c *cluster) addTurners(s scenario.Scenario) {
	for _, name := range turnable(s) {
		r := &skew.Remote{Context: c.Ctx, Both: slices.Contains(s.ClientNames(), name), True: c.there}
		c.turners[name] = &turner{r, c.site.base}
		c.Clocks.Add(name, &skew.Machine{Clocks: r, True: c.there})
	}
}

// there is true time by the engine's clock.
func (c *cluster) there() time.Duration { return c.Now() + c.Origin() }

// seeOthers asks the nodes whose clocks nobody turns: it is an error if one does not show
// true time, for a fault must hit whom it is meant for. Who can't answer now is left out.
func (c *cluster) seeOthers(m *skew.Machine) (right []string, err error) {
	for _, name := range c.names {
		n := c.Nodes.Server(name)
		if n.want.turner != nil || !n.Runs() || n.deaf() {
			continue
		}
		r, err := c.ReadTime(n)
		if err != nil {
			continue
		}
		if err := skew.Differs(clock.Shown{Offset: m.Shown().Offset}, r); err != nil {
			return nil, fmt.Errorf("%s, which was not meant: %w", name, err)
		}
		right = append(right, name)
	}
	return right, nil
}
