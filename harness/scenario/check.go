package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockpick/harness/client"
)

// checkWhole looks at what no single key can show: whether the parts of a scenario
// fit together. It also fills in the mode of a fault that has a default, and what follows from
// the kind of lock.
func checkWhole(s *Scenario, k Known) error {
	s.Lock = s.Lock.Of(k.Kinds[s.Lock.Kind], s.Topology.Nodes)
	if s.Lock.Kind == brokenLock && s.Lock.Mistake == "" {
		return badAt("lock.kind", suggest("", "add mistake: and one of these", k.Mistakes), "the lock kind broken needs a mistake")
	}
	if err := checkOptions(s, k); err != nil {
		return err
	}
	for _, part := range []func(*Scenario) error{checkLock, checkAddresses, checkClients, checkStarts, checkWorkload, checkPlan, checkRandom, checkExpect, checkWork} {
		if err := part(s); err != nil {
			return err
		}
	}
	return nil
}

func checkOptions(s *Scenario, k Known) error {
	var has []string
	for _, o := range k.Options[s.Lock.Kind] {
		has = append(has, o.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Lock.Options)) {
		switch {
		case len(has) == 0:
			return badAt("lock.options", "leave it out", "the lock kind %s has no options", s.Lock.Kind)
		case !slices.Contains(has, name):
			return badAt("lock.options."+name, suggest(name, "can be set", has), "the lock kind %s has no option %s", s.Lock.Kind, name)
		}
	}
	return nil
}

func checkLock(s *Scenario) error {
	l := s.Lock
	switch {
	case l.Kind != brokenLock && l.Mistake != "":
		return badAt("lock.mistake", "use kind: broken, or leave the mistake out", "the lock kind %s has no mistakes", l.Kind)
	case l.Timeout >= l.TTL/2:
		return badAt("lock.timeout", fmt.Sprintf("make timeout less than half of the TTL, here less than %v", l.TTL/2),
			"a timeout of %v to one node is too long for a TTL of %v", l.Timeout, l.TTL)
	}
	return nil
}

func checkAddresses(s *Scenario) error {
	for i, node := range s.Topology.Addresses {
		if !s.hasNode(node) {
			return badAt(fmt.Sprintf("topology.addresses.%d", i+1), s.nodesHint(), "there is no node %s", node)
		}
	}
	return nil
}

func checkClients(s *Scenario) error {
	for _, c := range s.Clients {
		for i, node := range c.Reach {
			if !s.hasNode(node) {
				return badAt(fmt.Sprintf("clients.%s.reach.%d", c.Name, i+1), s.nodesHint(), "there is no node %s", node)
			}
		}
		if c.Start == nil {
			if c.Delay >= s.Limit {
				return badAt("clients."+c.Name+".start", "start it sooner, or set a longer limit", "%s starts at %v, but the run ends at %v", c.Name, c.Delay, s.Limit)
			}
			continue
		}
		if err := checkEvent(s, fmt.Sprintf("clients.%s.start", c.Name), *c.Start); err != nil {
			return err
		}
	}
	return nil
}

// checkStarts follows who waits for whom: a circle would never begin.
func checkStarts(s *Scenario) error {
	waits := map[string]string{}
	for _, c := range s.Clients {
		if c.Start != nil {
			waits[c.Name] = c.Start.Client
		}
	}
	for _, c := range s.Clients {
		seen := []string{c.Name}
		for next := waits[c.Name]; next != ""; next = waits[next] {
			seen = append(seen, next)
			if next == c.Name {
				return badAt("clients."+c.Name+".start.client", "let one of them start at a time, as in start: 0s",
					"%s waits for itself: %s", c.Name, strings.Join(seen, " waits for "))
			}
			if len(seen) > len(s.Clients) {
				break // a circle further on: the turn of those in it comes
			}
		}
	}
	return nil
}

func checkWorkload(s *Scenario) error {
	switch w := s.Workload; {
	case w.Fence == client.FenceToken && !s.Lock.Fence:
		return badAt("workload.fence", "set lock.fence: true as well; tokens come from the lock only", "the fence needs a lock that hands out tokens")
	case w.Extend >= s.Lock.TTL:
		return badAt("workload.extend", fmt.Sprintf("extend in good time, here well within %v", s.Lock.TTL),
			"the first extension after %v comes too late for a TTL of %v", w.Extend, s.Lock.TTL)
	case w.For >= s.Limit:
		return badAt("workload.for", "shorten it, or set a longer limit", "the clients work for %v, but the run ends at %v", w.For, s.Limit)
	}
	return nil
}

func checkExpect(s *Scenario) error {
	for _, property := range slices.Sorted(maps.Keys(s.Expect)) {
		e := s.Expect[property]
		if property == boundedHold && s.Limits == (Limits{}) {
			return badAt("expect."+property, "add a section, as in limits: {extensions: 5, hold: 40s}", "bounded-hold can't be judged without limits")
		}
		if e.Node != "" && !s.hasNode(e.Node) {
			return badAt("expect."+property+".node", s.nodesHint(), "there is no node %s", e.Node)
		}
	}
	return nil
}
