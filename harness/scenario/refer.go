package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockpick/nemesis"
)

// What a scenario refers to by name must be there: nodes, clients and the links between
// them.

func (s *Scenario) nodesHint() string {
	return fmt.Sprintf("the topology has %d nodes: n1 … n%d", s.Topology.Nodes, s.Topology.Nodes)
}

// hasNode and hasClient make no list of names: there may be a million targets to look up.
func (s *Scenario) hasNode(name string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
	return err == nil && n <= s.Topology.Nodes && nodePattern.MatchString(name)
}

func (s *Scenario) hasClient(name string) bool {
	return slices.ContainsFunc(s.Clients, func(c Client) bool { return c.Name == name })
}

func checkClient(s *Scenario, path, name string) error {
	if s.hasClient(name) {
		return nil
	}
	return badAt(path, s.clientsHint(), "there is no client %s", name)
}

func (s *Scenario) clientsHint() string {
	all := s.ClientNames()
	if len(all) > 10 {
		all = append(all[:9:9], "…", all[len(all)-1])
	}
	return "clients: " + strings.Join(all, ", ")
}

func checkEvent(s *Scenario, path string, e nemesis.Event) error {
	switch {
	case e.After >= s.Limit:
		return badAt(path+".after", "shorten it, or set a longer limit", "%v after an event is later than the end of the run", e.After)
	case e.Every && e.Nth != 1:
		return badAt(path+".nth", "keep one of them", "every and nth exclude each other")
	}
	return checkClient(s, path+".client", e.Client)
}

// checkLink says whether a link exists: between a client and the resource, or a
// node that the client can reach.
func checkLink(s *Scenario, path, link string) error {
	const hint = "a link is a client and a node or r1, the resource, as in c1-n3"
	name, end, ok := nemesis.SplitLink(link)
	if !ok {
		return badAt(path, hint, "%s is not a link", quote(link))
	}
	if end == nemesis.Replica && s.Topology.Replicas > 0 && s.hasNode(name) {
		return nil
	}
	if err := checkClient(s, path, name); err != nil {
		return err
	}
	if end == ResourceName {
		return nil
	}
	if !s.hasNode(end) {
		return badAt(path, s.nodesHint()+"; the resource is r1", "there is no node %s", end)
	}
	for _, c := range s.Clients {
		if c.Name == name && !c.reaches(end) {
			return badAt(path, name+" reaches "+strings.Join(c.Reach, ", "), "there is no link %s: %s can't reach %s", link, name, end)
		}
	}
	return nil
}
