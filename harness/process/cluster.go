//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/real/disk"
	"lockpick/harness/real/link"
	"lockpick/harness/real/proc"
	"lockpick/harness/resp"
)

// cluster is one run.
type cluster struct {
	ctx    context.Context // ends with the run
	cancel context.CancelFunc
	self   []string
	group  *proc.Group
	mesh   *link.Mesh
	rec    *history.Recorder
	origin atomic.Int64 // true time zero, by proc.TrueClock

	// These are filled before body is called.
	resource  *proc.Redis
	addrs     map[string]addresses
	sentinels []*proc.Sentinel
	leisure   time.Duration           // their failover-timeout while a master is well
	promotes  time.Duration           // how long they may take, once a master is down for them
	refused   map[string]func() error // links that are none, and what frees their addresses
	clocks    map[string]*machine     // of nodes and clients, where they can be turned

	mu       sync.Mutex
	closed   bool
	nodes    map[string]*proc.Redis // behind each node's links
	replicas map[string]*proc.Redis // that have not taken a node's place
	formers  map[string]*proc.Redis // masters whose place one has taken, by sentinels
	disks    map[string]*disk.Disk  // of nodes whose disk can be hit
	clients  map[string]*child      // those that run
	ended    map[string]bool        // clients that ran and run no more
	tasks    sync.WaitGroup         // goroutines that run code of the engine
}

// addresses is where one client finds everybody.
type addresses struct {
	nodes    []lock.Node
	resource lock.Node
}

var _ harness.Cluster = (*cluster)(nil)

func newCluster(ctx context.Context, seed uint64, self []string, group *proc.Group, rec *history.Recorder) *cluster {
	c := &cluster{
		self: self, group: group, rec: rec,
		nodes: map[string]*proc.Redis{}, replicas: map[string]*proc.Redis{}, formers: map[string]*proc.Redis{}, promotes: promoteBound, disks: map[string]*disk.Disk{}, clocks: map[string]*machine{},
		addrs: map[string]addresses{}, refused: map[string]func() error{}, clients: map[string]*child{}, ended: map[string]bool{},
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.mesh = link.NewMesh(seed, c.Now, rec.Record)
	return c
}

// closeBound is how long functions of the engine may still run when the run ends.
const closeBound = 5 * time.Second

// close ends everything that the run started, and waits for it.
func (c *cluster) close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	// Processes first, so that nobody sees the links end.
	errs := []error{c.group.Close(), c.mesh.Close()}
	for _, release := range c.refused {
		errs = append(errs, release())
	}
	for _, k := range c.clocks {
		errs = append(errs, k.Close())
	}
	done := make(chan struct{})
	go func() { c.tasks.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(closeBound):
		errs = append(errs, fmt.Errorf("end the run: a function given to At or Tap still runs after %v", closeBound))
	}
	return errors.Join(errs...)
}

// run calls f in a goroutine that close waits for; after close it does not.
func (c *cluster) run(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.tasks.Go(f)
	}
}

// Now is true time since the run began.
func (c *cluster) Now() time.Duration { return proc.TrueClock() - time.Duration(c.origin.Load()) }

// At calls f at a true time, unless the run ends before.
func (c *cluster) At(t time.Duration, f func()) {
	c.run(func() {
		timer := time.NewTimer(t - c.Now())
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			return
		}
		if c.ctx.Err() == nil { // both may have been due
			f()
		}
	})
}

// StampError is generous: all stamps are readings of one clock, by different
// processes, which may be on different cores.
func (c *cluster) StampError() time.Duration { return time.Millisecond }

// Resource asks the resource directly. Its error replies are errors.
func (c *cluster) Resource(ctx context.Context, args ...string) (any, error) {
	return ask(ctx, "the resource", c.resource, args)
}

// Node asks a node directly. Its error replies are errors.
func (c *cluster) Node(ctx context.Context, node string, args ...string) (any, error) {
	r := c.server(node)
	if r == nil {
		return nil, fmt.Errorf("ask %s: there is no such node", node)
	}
	return ask(ctx, node, r, args)
}

func ask(ctx context.Context, name string, server *proc.Redis, args []string) (any, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("ask %s: no command", name)
	}
	v, err := proc.Ask(ctx, server.Addr(), args...)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", name, err)
	}
	r := reply(v)
	if err, ok := r.(error); ok {
		return nil, fmt.Errorf("ask %s: %s: %w", name, args[0], err)
	}
	return r, nil
}

// reply is a RESP value as Go has it: nil, int64, string, error or a []any of them.
func reply(v resp.Value) any {
	switch {
	case v.Null:
		return nil
	case v.Kind == '-':
		return errors.New(v.Str)
	case v.Kind == ':':
		return v.Int
	case v.Kind == '*' || v.Kind == '~' || v.Kind == '%':
		items := make([]any, len(v.Items))
		for i, it := range v.Items {
			items[i] = reply(it)
		}
		return items
	}
	return v.Str
}
