//go:build linux

package docker

import (
	"context"
	"fmt"
)

// takeAddress gives an address that no node has, at a host or, if that is anyNode, at the first
// that is free of those for nodes: there is one, see vacate.
func (s *site) takeAddress(ctx context.Context, host int) (*address, error) {
	s.mu.Lock()
	if host == anyNode {
		for host = firstNode; s.housed[host]; host++ {
		}
	}
	s.housed[host] = true
	p := s.addresses[host]
	s.mu.Unlock()
	if p != nil && p.Runs() {
		return p, nil
	}
	if p != nil {
		if err := s.removeAddress(ctx, p); err != nil {
			return nil, err
		}
	}
	b, err := s.makeBox(ctx, fmt.Sprintf("address%d", host), host, making{image: s.image, command: []string{s.client[0], addressVerb}, talks: true})
	if err != nil {
		return nil, err
	}
	p = &address{b, host}
	s.mu.Lock()
	s.addresses[host] = p
	s.mu.Unlock()
	return p, p.start(ctx)
}

// removeAddress removes one.
func (s *site) removeAddress(ctx context.Context, p *address) error {
	s.mu.Lock()
	delete(s.addresses, p.host)
	s.mu.Unlock()
	return p.remove(ctx)
}

// leaveAddress gives a node's address up, and removes it if it is spoiled: the next node
// there would find what was done to it.
func (s *site) leaveAddress(ctx context.Context, a *address, spoiled bool) error {
	if spoiled {
		if err := s.removeAddress(ctx, a); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.housed, a.host)
	return nil
}
