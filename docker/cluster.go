//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real/link"
	"lockpick/harness/real/network"
	"lockpick/harness/real/proc"
)

// cluster is one run.
type cluster struct {
	*proc.Timeline
	*network.Network
	ctx    context.Context // ends with the run
	engine *engine
	rec    *history.Recorder
	self   []string // what a client's container runs
	server string   // what a node's does
	stock  software // which is this
	images struct{ redis, client string }
	labels map[string]string
	prefix string // of the names of containers

	// These are filled before body is called.
	net      privateNet
	resource *node
	nodes    map[string]*node
	hosts    map[string]int // of clients, on the network

	mu      sync.Mutex
	waiting map[string]*player // clients that have no order yet
	playing map[string]*player // those that run
	ended   map[string]bool    // those that ran and run no more
}

var _ harness.Cluster = (*cluster)(nil)

func newCluster(ctx context.Context, seed uint64, e *engine, rec *history.Recorder) *cluster {
	c := &cluster{
		engine: e, rec: rec, nodes: map[string]*node{}, hosts: map[string]int{},
		waiting: map[string]*player{}, playing: map[string]*player{}, ended: map[string]bool{},
	}
	c.Timeline = proc.NewTimeline(ctx)
	c.ctx = c.Timeline.Context()
	c.Network = &network.Network{Context: c.ctx, Mesh: link.NewMesh(seed, c.Now, rec.Record), Go: c.Timeline.Go,
		Addr: func(name string) string { return c.at(name).addr },
		Down: func(name string) bool { return !c.at(name).Runs() },
		Mute: func(name string) bool { return c.at(name).Paused() },
	}
	return c
}

// close ends everything that the run has made, and waits for it.
func (c *cluster) close() error {
	c.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 4*engineBound)
	defer cancel()
	// Containers first, so that nobody sees the links end. Those of this run alone:
	// the network's name is the run's.
	all := func(owned) bool { return true }
	errs := []error{c.engine.clear(ctx, runLabel+"="+c.labels[runLabel], all), c.Network.Close()}
	for _, p := range c.waiting { // for an order that never came
		p.leave()
	}
	return errors.Join(append(errs, c.Wait())...)
}

// makeBox makes a container on the run's network. What was begun is not broken off:
// the engine would go on, and make what close has not seen.
func (c *cluster) makeBox(name string, m making) (*box, error) {
	if c.ctx.Err() != nil {
		return nil, context.Cause(c.ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), engineBound)
	defer cancel()
	m.name, m.network, m.labels = c.prefix+name, c.net.name, c.labels
	id, err := c.engine.create(ctx, m)
	for try := 2; isTaken(err) && try < 100; try++ {
		m.name = fmt.Sprintf("%s%s-%d", c.prefix, name, try) // the client ran before
		id, err = c.engine.create(ctx, m)
	}
	if err != nil {
		return nil, fmt.Errorf("make the container of %s: %w", name, err)
	}
	return &box{engine: c.engine, name: name, id: id}, nil
}

// at is a node or the resource.
func (c *cluster) at(name string) *node {
	if n := c.nodes[name]; n != nil {
		return n
	}
	return c.resource
}

func (c *cluster) player(client string) *player {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.playing[client]
}

// over reports whether a client ran and runs no more.
func (c *cluster) over(client string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended[client] && c.playing[client] == nil
}

// StampError is generous: all stamps are readings of one clock of one kernel, by
// different processes, which may be on different cores.
func (c *cluster) StampError() time.Duration { return time.Millisecond }

// Resource asks the resource directly. Its error replies are errors.
func (c *cluster) Resource(ctx context.Context, args ...string) (any, error) {
	return proc.Command(ctx, "the resource", c.resource.addr, args)
}

// Node asks a node directly. Its error replies are errors.
func (c *cluster) Node(ctx context.Context, node string, args ...string) (any, error) {
	n := c.nodes[node]
	switch {
	case n == nil:
		return nil, fmt.Errorf("ask %s: there is no such node", node)
	case !n.Runs(): // nobody would refuse
		return nil, fmt.Errorf("ask %s: it is down", node)
	}
	return proc.Command(ctx, node, n.addr, args)
}
