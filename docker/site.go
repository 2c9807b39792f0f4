//go:build linux

package docker

import (
	"context"
	"errors"
	"sync"

	"lockpick/docker/engine"
)

// site is what the engine has for one run after the other: a base, and the containers of
// nodes and clients there.
type site struct {
	*base

	mu          sync.Mutex
	nodes       map[role]*node        // with the resource, replicas and sentinels
	clientBoxes map[string]*clientBox // of clients
	hosts       map[string]int        // of clients, on the network
	housed      map[int]bool          // hosts where a node is, or is about to be
	addresses   map[int]*address      // by host
}

// assignHosts gives each client its host on the network, for as long as the site stands; false:
// there is no room for all.
func (s *site) assignHosts(clients []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range clients {
		if s.hosts[name] == 0 {
			s.hosts[name] = firstClient + len(s.hosts)
		}
	}
	return firstClient+len(s.hosts)-1 <= lastHost
}

// boxes are the run's containers.
func (s *site) boxes() (all []*box) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.linksBox != nil {
		all = append(all, s.linksBox)
	}
	for _, n := range s.nodes {
		all = append(all, n.box)
	}
	for _, p := range s.clientBoxes {
		all = append(all, p.box)
	}
	for _, a := range s.addresses {
		all = append(all, a.box)
	}
	return all
}

// close removes all that is on the site.
func (s *site) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeBound)
	defer cancel()
	err := engine.ClearPatiently(ctx, s.engine, runLabel+"="+s.labels[runLabel])
	if s.talk != nil {
		s.talk.leave()
	}
	for _, at := range s.clientBoxes {
		if at.talk != nil {
			at.leave()
		}
	}
	return errors.Join(err, s.engine.Close())
}
