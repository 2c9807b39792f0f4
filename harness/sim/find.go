package sim

import (
	"errors"
	"fmt"
	"slices"
)

// host is the machine of a client; nil: there is no such client.
func (n *network) host(name string) *host {
	return find(n.hosts, func(h *host) bool { return h.name == name })
}

// node is a machine that isn't the resource.
func (n *network) node(name string) (*server, error) {
	if s := find(n.servers, func(s *server) bool { return s.name == name && s != n.resource }); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("there is no such client or node")
}

// up is a node that runs, of which something is asked, or says that it is down. The
// network's mutex is held.
func (n *network) up(what, target, down string) (*server, error) {
	s, err := n.node(target)
	if err == nil && s.node == nil {
		err = errors.New(down)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, target, err)
	}
	return s, nil
}

// failing is a node that has a master and a replica.
func (n *network) failing(target string) (*server, error) {
	s, err := n.node(target)
	switch {
	case err != nil:
		return nil, fmt.Errorf("fail over %s: %w", target, err)
	case s.replica == nil:
		return nil, fmt.Errorf("fail over %s: it has no replica: give topology.replicas", target)
	case s.node == nil:
		return nil, fmt.Errorf("fail over %s: its master is down already", target)
	}
	return s, nil
}

// replica is the one at the end of a link, also if it has become a master since.
func (n *network) replica(link string) *replica {
	for _, s := range n.servers {
		for _, r := range []*replica{s.replica, s.promoted} {
			if r != nil && r.link == link {
				return r
			}
		}
	}
	return nil
}

// find is the first that is what it is asked to be, or nil.
func find[T any](all []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return nil
}
