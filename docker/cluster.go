//go:build linux

package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real/disk"
	"lockpick/harness/real/failover"
	"lockpick/harness/real/network"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/skew"
	"lockpick/harness/real/wire"
	"lockpick/harness/scenario"
)

// cluster is one run on a site.
type cluster struct {
	*proc.Timeline
	*network.Remote
	*failover.Nodes[*node]
	*disk.Disks
	ctx  context.Context // ends with the run
	site *site
	rec  *history.Recorder

	// These are filled before body is called.
	resource *node
	names    []string           // of the nodes
	replicas map[string]*node   // by the names of their nodes
	filters  map[string]*filter // by node, where the plan loses packets
	turners  map[string]*turner // of nodes and clients whose clocks the plan may turn
	clocks   skew.Machines      // likewise
	ahead    time.Duration      // how far the engine's clock is ahead of ours
	within   time.Duration      // by how much that may be wrong
	limit    time.Duration      // how long the run may take
	tells    bool               // the nodes tell of their keys
	epoch    int64              // what a right wall clock shows at true time zero
	group    *proc.Group        // directory that disks are mounted below; nil: there are none

	mu      sync.Mutex
	waiting map[string]*player // clients that have no order yet
	playing map[string]*player // those that run
	ended   map[string]bool    // those that ran and run no more
	guard   *guard             // of this run; nil: it has not begun
}

var _ harness.Cluster = (*cluster)(nil)

func newCluster(ctx context.Context, s *site, rec *history.Recorder) *cluster {
	c := &cluster{
		site: s, rec: rec, replicas: map[string]*node{}, filters: map[string]*filter{}, turners: map[string]*turner{},
		waiting: map[string]*player{}, playing: map[string]*player{}, ended: map[string]bool{},
	}
	c.Timeline = proc.NewTimeline(ctx)
	c.ctx = c.Timeline.Context()
	c.clocks = skew.Machines{Recorder: rec, Origin: c.Origin, Node: c.clockOf, Client: c.clocksOf, Over: c.over, Others: c.othersRight}
	c.Nodes = &failover.Nodes[*node]{Context: c.ctx, Kill: c.Kill, Pause: c.Pause, Gate: c.gate, Turn: c.turn}
	c.Disks = &disk.Disks{Kill: func(node string) (string, error) {
		return c.ends(node, false, func() (string, error) { return c.at(node).end(c.ctx) })
	}, Runs: func(node string) bool { return c.at(node).Runs() }}
	return c
}

// open makes the links between all who are there.
func (c *cluster) open(s scenario.Scenario, seed uint64) error {
	var err error
	if c.ahead, c.within, err = c.Offset(c.ctx); err != nil {
		return fmt.Errorf("read the clock of the engine's machine: %w", err)
	}
	c.limit = s.Limit
	c.GoBy(c.ahead)
	addrs := map[string]string{scenario.ResourceName: c.resource.At}
	for _, name := range c.names {
		addrs[name] = c.Nodes.Server(name).At
	}
	run := network.Run{Context: c.ctx, Record: c.rec.Record, Go: c.Timeline.Go}
	if len(c.filters) > 0 {
		run.Ports = firstPort
	}
	return c.Open(run, seed, c.site.net.at(linksHost).String(), addrs, c.names, network.ClientsOf(s))
}

// watch ends the run if the links do.
func (c *cluster) watch() {
	select {
	case <-c.Ended():
		c.Fail(fmt.Errorf("the links have ended, with their container or with the engine: %w; %s", wire.ErrGone, cmp.Or(c.site.talk.words(), "they said nothing")))
	case <-c.ctx.Done():
	}
}

// begin makes this instant true time zero.
func (c *cluster) begin() error {
	c.Timeline.Begin()
	var err error
	c.epoch, err = c.Remote.Begin(c.Origin())
	return err
}

// close ends what the run has made, and waits for it. The servers stay.
func (c *cluster) close() error {
	c.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), removeBound)
	defer cancel()
	var errs []error
	c.mu.Lock()
	playing := slices.Collect(maps.Values(c.playing))
	c.mu.Unlock()
	for _, p := range playing { // in front of the links, so that nobody sees these end
		if _, err := p.Kill(ctx); err != nil && !errors.Is(err, proc.ErrEnded) {
			errs = append(errs, err)
		}
	}
	if c.Remote != nil && (c.clean() || c.linksAnswer(ctx)) {
		errs = append(errs, c.sameTime(ctx), c.Remote.Close(ctx))
	}
	errs = append(errs, c.unfilter(ctx))
	errs = append(errs, c.site.removeNodes(ctx, func(n *node) bool { return n.want.once }))
	if c.group != nil {
		errs = append(errs, c.group.Close())
	}
	return errors.Join(append(errs, c.Wait())...)
}

// sameTime sees that the engine's clock is where StampError says, as far as it is not ours.
func (c *cluster) sameTime(ctx context.Context) error {
	if c.within == 0 {
		return nil
	}
	ahead, within, err := c.Offset(ctx)
	if errors.Is(err, wire.ErrGone) {
		return nil // which has been said
	}
	if err != nil {
		return fmt.Errorf("read the clock of the engine's machine: %w", err)
	}
	if off := (ahead - c.ahead).Abs(); off > c.within+within+driftIn(c.limit) {
		return fmt.Errorf("the clock of the engine's machine has moved by %v in the run, and no verdict could rely on the stamps; let NTP look after both machines", off)
	}
	return nil
}

// at is a node or the resource.
func (c *cluster) at(name string) *node {
	if n := c.Nodes.Server(name); n != nil {
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

// StampError bounds how wrong true stamps can be: those of clients and links are by one
// clock, the engine's; ours are by the reckoning of it.
func (c *cluster) StampError() time.Duration {
	if c.within == 0 {
		return stampError
	}
	return stampError + c.within + driftIn(c.limit)
}

// Resource asks the resource directly. Its error replies are errors.
func (c *cluster) Resource(ctx context.Context, args ...string) (any, error) {
	return c.resource.command(ctx, "the resource", args)
}

// Node asks a node directly. Its error replies are errors.
func (c *cluster) Node(ctx context.Context, node string, args ...string) (any, error) {
	n := c.Nodes.Server(node)
	switch {
	case n == nil:
		return nil, fmt.Errorf("ask %s: there is no such node", node)
	case !n.Runs(): // nobody would refuse
		return nil, fmt.Errorf("ask %s: it is down", node)
	}
	return n.command(ctx, node, args)
}
