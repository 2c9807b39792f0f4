//go:build linux

package docker

import (
	"context"
	"fmt"
)

// place is a container that does nothing but to have an address on the site's network,
// as a machine has. A node that shares its network is started and ended in less than
// half the time: the engine need not make the network anew.
type place struct {
	*box
	host int
}

// settle gives a place that no node has, at a host or, if that is anyNode, at the first
// that is free of those for nodes: there is one, see vacate.
func (s *site) settle(ctx context.Context, host int) (*place, error) {
	s.mu.Lock()
	if host == anyNode {
		for host = firstNode; s.housed[host]; host++ {
		}
	}
	s.housed[host] = true
	p := s.places[host]
	s.mu.Unlock()
	if p != nil && p.Runs() {
		return p, nil
	}
	if p != nil {
		if err := s.removePlace(ctx, p); err != nil {
			return nil, err
		}
	}
	b, err := s.makeBox(ctx, fmt.Sprintf("place%d", host), host, making{image: s.image, command: []string{s.client[0], placeVerb}, talks: true})
	if err != nil {
		return nil, err
	}
	p = &place{b, host}
	s.mu.Lock()
	s.places[host] = p
	s.mu.Unlock()
	return p, p.start(ctx)
}

// removePlace removes one.
func (s *site) removePlace(ctx context.Context, p *place) error {
	s.mu.Lock()
	delete(s.places, p.host)
	s.mu.Unlock()
	return p.remove(ctx)
}

// leave gives a node's place up, and removes it if the next node there would find what
// was done to it.
func (s *site) leave(ctx context.Context, n *node) error {
	if n.spoiled.Load() {
		if err := s.removePlace(ctx, n.place); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.housed, n.place.host)
	return nil
}

// vacate sees to it that there are places for the nodes of a run.
func (s *site) vacate(ctx context.Context, nodes int) error {
	s.mu.Lock()
	free := firstReplica - firstNode - len(s.housed)
	s.mu.Unlock()
	if free >= nodes {
		return nil
	}
	return s.removeNodes(ctx, func(n *node) bool { return firstNode <= n.place.host && n.place.host < firstReplica })
}
