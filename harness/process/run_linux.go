package process

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real/network"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/server"
	"lockpick/harness/scenario"
)

// Run starts the servers and links, calls body just after true time zero, and
// takes all down again. On the seed depends what is drawn for messages; clients
// get theirs with their Spec.
func (b *Backend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) (err error) {
	if can := b.canRun(); !can.Available {
		return fmt.Errorf("run: %s; to fix it: %s", can.Reason, can.Remedy)
	}
	self, err := b.self()
	if err != nil {
		return err
	}
	if err := enough(s); err != nil {
		return err
	}
	group, err := proc.NewGroup(b.cfg.Dir)
	if err != nil {
		return err
	}
	c := newCluster(ctx, seed, self, group, rec)
	defer func() { err = errors.Join(err, c.close()) }() // after a panic in body, too
	if needsClocks(s) {
		c.turnable(s)
	}
	for _, setUp := range []func(scenario.Scenario) error{
		c.mountDisks,
		func(s scenario.Scenario) error { return c.startServers(s, b.cfg.RedisServer) },
		func(s scenario.Scenario) error { return c.startReplicas(s, b.cfg.RedisServer) },
		func(s scenario.Scenario) error {
			return c.Watch(s, func(name string) (*server.Sentinel, error) {
				return c.group.StartSentinel(c.ctx, name, b.cfg.RedisServer)
			})
		},
		c.tell,
		func(s scenario.Scenario) error { return c.Open(s.NodeNames(), network.ClientsOf(s)) },
		c.awaitSecond,
	} {
		if err := setUp(s); err != nil {
			return err
		}
	}
	c.Begin()
	c.lives.Start(c.Origin())
	return body(ctx, c)
}

// awaitSecond lets a run under everysec begin with a second of the wall clock. Redis
// up to 7.0 counts by these, not from its last sync: a plan that places a crash
// between two syncs needs no luck then.
func (c *cluster) awaitSecond(s scenario.Scenario) error {
	if s.Topology.Persistence != "everysec" {
		return nil
	}
	now := time.Now()
	select {
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-time.After(now.Truncate(time.Second).Add(time.Second).Sub(now)):
		return nil
	}
}

// startServers starts the nodes and the resource, all at once.
func (c *cluster) startServers(s scenario.Scenario, bin string) error {
	persist := map[string]string{scenario.ResourceName: "none"}
	for _, n := range s.NodeNames() {
		persist[n] = s.Topology.Persistence
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var errs []error
	for name, mode := range persist {
		all.Go(func() {
			r, err := c.group.StartRedis(c.ctx, name, bin, mode)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			c.servers = append(c.servers, r)
			if name == scenario.ResourceName {
				c.resource = r
			} else {
				c.Serve(name, r)
			}
		})
	}
	all.Wait()
	if len(errs) == 0 {
		return nil
	}
	// What stops one stops them all: one is enough to read.
	program, err := exec.LookPath(bin)
	if err != nil {
		program = bin
	}
	return fmt.Errorf("%w\n%d of %d servers did not start; try %s --port 0 by hand, and whether %s has room",
		errs[0], len(errs), len(persist), program, filepath.Dir(c.group.Dir))
}
