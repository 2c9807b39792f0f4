//go:build linux

package docker

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"lockpick/docker/engine"
	"lockpick/harness/real/proc"
)

// newNode is a redis-server in a container that has not started.
func (s *site) newNode(b *box, at *address, want wanted) *node {
	n := &node{box: b, base: s.base, address: at, want: want}
	n.Server = proc.Server{
		Name: b.name, At: net.JoinHostPort(s.net.at(at.host).String(), redisPort), Ask: s.ask,
		Log: func() string { return s.engine.Logs(context.Background(), b.id) },
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[n.role()] = n
	return n
}

// makeNode gives the container of a node, or of the resource, and starts it: that
// which is there, wiped, if it will do.
func (s *site) makeNode(ctx context.Context, name string, host int, want wanted) (*node, error) {
	s.mu.Lock()
	n := s.nodes[role{name, want.persist, want.once}]
	s.mu.Unlock()
	if n != nil && !want.once && n.Runs() && !n.deaf() && !n.spoiled.Load() && n.wipe(ctx) == nil {
		return n, nil
	}
	if n != nil { // or the last run ended while it was being started again
		if err := s.removeNode(ctx, n); err != nil {
			return nil, err
		}
	}
	settings, err := proc.RedisArgs(want.persist)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	makeBox := s.makeBox
	if want.turner != nil {
		makeBox = s.makeTurnable
	}
	at, err := s.takeAddress(ctx, host)
	if err != nil {
		return nil, err
	}
	m := engine.Making{Image: s.software.ref, Command: s.command(settings), Data: want.data, Name: fmt.Sprintf("%s-%d", name, at.host), Beside: at.id}
	b, err := makeBox(ctx, name, at.host, m)
	if err != nil {
		return nil, err
	}
	n = s.newNode(b, at, want)
	return n, n.begin(ctx)
}

// command starts a redis-server, with settings of its own.
func (s *site) command(settings []string) []string {
	listen := []string{"--bind", "0.0.0.0", "--protected-mode", "no", "--port", redisPort, "--dir", engine.DataDir}
	return slices.Concat([]string{s.software.program}, settings, listen)
}

// removeNode removes a node that is of no more use.
func (s *site) removeNode(ctx context.Context, n *node) error {
	s.mu.Lock()
	delete(s.nodes, n.role())
	s.mu.Unlock()
	n.telling.Lock()
	n.removed = true
	n.telling.Unlock()
	if err := n.remove(ctx); err != nil {
		return err
	}
	return s.leaveAddress(ctx, n.address, n.spoiled.Load())
}

// removeNodes removes all those that are to go, for the next run to make its own.
func (s *site) removeNodes(ctx context.Context, goes func(*node) bool) error {
	s.mu.Lock()
	going := slices.DeleteFunc(slices.Collect(maps.Values(s.nodes)), func(n *node) bool { return !goes(n) })
	s.mu.Unlock()
	return engine.AtOnce(going, func(n *node) error { return s.removeNode(ctx, n) })
}

// vacate sees to it that there are addresses for the nodes of a run.
func (s *site) vacate(ctx context.Context, nodes int) error {
	s.mu.Lock()
	free := firstReplica - firstNode - len(s.housed)
	s.mu.Unlock()
	if free >= nodes {
		return nil
	}
	return s.removeNodes(ctx, func(n *node) bool { return firstNode <= n.address.host && n.address.host < firstReplica })
}

// sentinelConfig is where a sentinel writes what it knows.
const sentinelConfig = engine.DataDir + "/sentinel.conf"

// makeSentinel makes a sentinel that watches nobody yet, for one run.
func (s *site) makeSentinel(ctx context.Context, name string) (*proc.Sentinel, error) {
	var i int
	if _, err := fmt.Sscanf(name, "sentinel%d", &i); err != nil {
		return nil, err
	}
	at, err := s.takeAddress(ctx, firstSentinel+i-1)
	if err != nil {
		return nil, err
	}
	b, err := s.makeBox(ctx, name, at.host, engine.Making{Image: s.software.ref, Command: s.command(proc.SentinelArgs(sentinelConfig)), Beside: at.id})
	if err != nil {
		return nil, err
	}
	n := s.newNode(b, at, wanted{once: true})
	host, _, _ := strings.Cut(n.At, ":")
	if err := s.engine.Put(ctx, n.id, map[string][]byte{sentinelConfig: []byte(proc.SentinelConfig(host))}); err != nil {
		return nil, fmt.Errorf("configure %s: %w", name, err)
	}
	if err := n.begin(ctx); err != nil {
		return nil, err
	}
	return proc.NewSentinel(ctx, n.Redis())
}

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
	b, err := s.makeBox(ctx, fmt.Sprintf("address%d", host), host, engine.Making{Image: s.image, Command: []string{s.client[0], addressVerb}, Talks: true})
	if err != nil {
		return nil, err
	}
	p = &address{b, host}
	s.mu.Lock()
	s.addresses[host] = p
	s.mu.Unlock()
	return p, p.start(ctx)
}

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
