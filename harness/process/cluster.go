//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real/disk"
	"lockpick/harness/real/failover"
	"lockpick/harness/real/life"
	"lockpick/harness/real/link"
	"lockpick/harness/real/network"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/skew"
)

// cluster is one run.
type cluster struct {
	*proc.Timeline
	*network.Network
	*disk.Disks
	*failover.Nodes[*proc.Redis]
	ctx   context.Context // ends with the run
	self  []string
	group *proc.Group
	mesh  *link.Mesh
	lives *life.Lives
	rec   *history.Recorder

	// These are filled before body is called.
	resource *proc.Redis
	servers  []*proc.Redis // that one, the nodes and their replicas
	clocks   skew.Machines // of nodes and clients, where they can be turned
	tells    bool          // the nodes tell of their keys

	mu      sync.Mutex
	clients map[string]*child // those that run
	ended   map[string]bool   // clients that ran and run no more
}

var _ harness.Cluster = (*cluster)(nil)

func newCluster(ctx context.Context, seed uint64, self []string, group *proc.Group, rec *history.Recorder) *cluster {
	c := &cluster{
		self: self, group: group, rec: rec,
		clients: map[string]*child{}, ended: map[string]bool{},
	}
	c.Timeline = proc.NewTimeline(ctx)
	c.ctx = c.Timeline.Context()
	c.clocks = skew.Machines{Recorder: rec, Origin: c.Origin, Node: c.clockOf, Client: c.clocksOf, Over: c.over}
	c.mesh = link.NewMesh(seed, c.Now, rec.Record)
	c.lives = life.New(life.Config{Clock: proc.TrueClock, Ours: proc.Asked, Record: rec.Record})
	c.Network = &network.Network{Context: c.ctx, Mesh: c.mesh, Lives: c.lives, Addr: c.addr, Down: c.down, Mute: c.mute, Go: c.Timeline.Go}
	c.Disks = &disk.Disks{Kill: c.Kill, Runs: func(node string) bool { return !c.down(node) }}
	c.Nodes = &failover.Nodes[*proc.Redis]{Context: c.ctx, Kill: c.Kill, Pause: c.Pause, Gate: c.gate, Turn: c.turn}
	return c
}

// close ends everything that the run started, and waits for it.
func (c *cluster) close() error {
	c.Stop()
	c.lives.Close() // of servers that are about to end
	// Processes first, so that nobody sees the links end.
	errs := []error{c.group.Close(), c.Network.Close()}
	return errors.Join(append(errs, c.Wait())...)
}

// addr is where a node, or the resource, listens, past the links.
func (c *cluster) addr(node string) string {
	if n := c.Server(node); n != nil {
		return n.Addr()
	}
	return c.resource.Addr()
}

func (c *cluster) down(node string) bool {
	n := c.Server(node)
	return n != nil && !n.Runs()
}

// mute says whether a node is there and can't answer, whatever its links do.
func (c *cluster) mute(node string) bool {
	n := c.Server(node)
	return c.Stalled(node) || n != nil && n.Stopped()
}

// StampError is generous: all stamps are readings of one clock, by different
// processes, which may be on different cores.
func (c *cluster) StampError() time.Duration { return time.Millisecond }

// Resource asks the resource directly. Its error replies are errors.
func (c *cluster) Resource(ctx context.Context, args ...string) (any, error) {
	return proc.Command(ctx, "the resource", c.resource.Addr(), args)
}

// Node asks a node directly. Its error replies are errors.
func (c *cluster) Node(ctx context.Context, node string, args ...string) (any, error) {
	r := c.Server(node)
	if r == nil {
		return nil, fmt.Errorf("ask %s: there is no such node", node)
	}
	return proc.Command(ctx, node, r.Addr(), args)
}
