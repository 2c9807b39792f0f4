//go:build linux

package docker

import (
	"context"
	"fmt"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/real/server"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// These powers are failover.Nodes's.
var (
	_ nemesis.FailOverer         = (*cluster)(nil)
	_ nemesis.SentinelFailOverer = (*cluster)(nil)
)

// replicate lets each replica follow its node over a link of its own, and returns
// once all are in step.
func (c *cluster) replicate(s scenario.Scenario) error {
	for _, name := range s.NodeNames() {
		r := c.replicas[name]
		if r == nil {
			continue
		}
		link, err := c.OpenReplication(c.ctx, name, c.Nodes.Server(name).At)
		if err != nil {
			return err
		}
		if err := c.Replicate(name, r, link); err != nil {
			return err
		}
	}
	return nil
}

// beWatched makes the sentinels, each in a container.
func (c *cluster) beWatched(s scenario.Scenario) error {
	return c.Watch(s, func(name string) (*server.Sentinel, error) {
		return c.site.makeSentinel(c.ctx, name)
	})
}

// sentinelConfig is where a sentinel writes what it knows.
const sentinelConfig = dataDir + "/sentinel.conf"

// makeSentinel makes a sentinel that watches nobody yet, for one run.
func (s *site) makeSentinel(ctx context.Context, name string) (*server.Sentinel, error) {
	var i int
	if _, err := fmt.Sscanf(name, "sentinel%d", &i); err != nil {
		return nil, err
	}
	at, err := s.settle(ctx, firstSentinel+i-1)
	if err != nil {
		return nil, err
	}
	b, err := s.makeBox(ctx, name, at.host, making{image: s.stock.ref, command: s.command(server.SentinelArgs(sentinelConfig)), beside: at.id})
	if err != nil {
		return nil, err
	}
	n := s.newNode(b, at, wanted{once: true})
	host, _, _ := strings.Cut(n.At, ":")
	if err := s.engine.put(ctx, n.id, map[string][]byte{sentinelConfig: []byte(server.SentinelConfig(host))}); err != nil {
		return nil, fmt.Errorf("configure %s: %w", name, err)
	}
	if err := n.begin(ctx); err != nil {
		return nil, err
	}
	return server.NewSentinel(ctx, n.Redis())
}

// gate keeps all data from and to a node until open is called.
func (c *cluster) gate(node string) (open func() error, err error) { return c.Remote.Gate(c.ctx, node) }

// turn lets a node's links lead to its replica. The disk was the dead master's.
func (c *cluster) turn(node, upstream string) error {
	c.Forget(node)
	c.Again(c.ctx, node, upstream, history.Failover)
	return c.Remote.Turn(c.ctx, node, upstream)
}

// Return lets it go on if it was paused, and starts it again if it has ended.
func (n *node) Return(ctx context.Context) (err error) {
	if n.Runs() {
		_, err = n.Resume(ctx)
	} else {
		_, err = n.restart(ctx)
	}
	return err
}
