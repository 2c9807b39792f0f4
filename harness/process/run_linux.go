package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Run starts the servers and links, calls body just after true time zero, and
// takes all down again. On the seed depends what is drawn for messages; clients
// get theirs with their Spec.
func (b *backend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) (err error) {
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
	c := newCluster(ctx, seed, group, rec)
	c.bin, c.self, c.program = b.cfg.RedisServer, self, b.cfg.Adapter
	defer func() { err = errors.Join(err, c.close()) }() // after a panic in body, too
	explain := interfered(group, harness.SettingUp, c.Fail)
	if err := c.setUp(ctx, s); err != nil {
		return explain(err)
	}
	return body(c.Ctx, c)
}

// setUp starts all that a run has before its clients.
func (c *cluster) setUp(ctx context.Context, s scenario.Scenario) error {
	if needsClocks(s) {
		c.turnable(s)
	}
	if err := c.Disks.MountHit(s.Plan, s.NodeNames(), c.group); err != nil {
		return err
	}
	replicas, err := c.startServers(s)
	if err == nil {
		err = c.startStore(ctx, s)
	}
	if err != nil {
		return err
	}
	if err := c.network.Open(s.NodeNames(), real.LinkClients(s)); err != nil {
		return err
	}
	err = c.SetUp(s, replicas, func(name string) (*proc.Sentinel, error) { return c.group.StartSentinel(c.Ctx, name, c.bin) })
	if err != nil {
		return err
	}
	if err := c.startAdapters(s); err != nil {
		return err
	}
	return c.Begin()
}

func newCluster(ctx context.Context, seed uint64, group *proc.Group, rec *history.Recorder) *cluster {
	c := &cluster{Run: real.New[*proc.Redis](ctx, rec), group: group}
	c.network = real.NewNetwork(c.Ctx, seed, c.Now, rec.Record)
	c.network.Addr, c.network.Down, c.network.Mute, c.network.Go = c.addr, c.down, c.mute, c.Timeline.Go
	c.Links, c.Start = c.network, c.startChild
	return c
}

// redisOf are the nodes that are redis-servers.
func redisOf(s scenario.Scenario) []string {
	if s.Topology.Server != "" {
		return nil
	}
	return s.NodeNames()
}

// startStore starts the nodes that are members of a store, where they are.
func (c *cluster) startStore(ctx context.Context, s scenario.Scenario) error {
	if s.Topology.Server == "" {
		return nil
	}
	of, err := proc.StoreOf(s.Topology.Server)
	if err != nil {
		return err
	}
	if err := repeated(func() (err error) { c.runs, err = proc.VersionOf(ctx, of); return err }); err != nil {
		return err
	}
	all, err := c.group.StartStore(c.Ctx, of, s.NodeNames())
	if err != nil {
		return err
	}
	for _, m := range all {
		c.Serve(m.Name, m)
	}
	c.servers, c.network.Store = append(c.servers, all...), &of
	return nil
}

// startServers starts the nodes, their replicas and the resource, all at once.
func (c *cluster) startServers(s scenario.Scenario) (replicas map[string]*proc.Redis, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	var errs []error
	count := 0
	start := func(name, persist string, keep func(*proc.Redis)) {
		count++
		all.Go(func() {
			p, err := c.group.StartRedis(c.Ctx, name, c.bin, persist)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			c.servers = append(c.servers, p)
			keep(p)
		})
	}
	replicas = map[string]*proc.Redis{}
	start(scenario.ResourceName, "none", func(p *proc.Redis) { c.Store = p })
	for _, node := range redisOf(s) {
		start(node, s.Topology.Persistence, func(p *proc.Redis) { c.Serve(node, p) })
		if s.Topology.Replicas > 0 {
			start(nemesis.LinkName(node, nemesis.Replica), s.Topology.Persistence, func(p *proc.Redis) { replicas[node] = p })
		}
	}
	all.Wait()
	if len(errs) == 0 {
		return replicas, nil
	}
	if c.Ctx.Err() != nil { // somebody ended the run, and nothing is wrong with the program
		return nil, errs[0]
	}
	// What stops one stops them all: one is enough to read.
	program, err := exec.LookPath(c.bin)
	if err != nil {
		program = c.bin
	}
	return nil, fmt.Errorf("%w\n%d of %d servers did not start; try %s --port 0 by hand, and whether %s has room",
		errs[0], len(errs), count, program, filepath.Dir(c.group.Dir))
}

// spareFiles is what servers, logs and questions to servers take for a moment.
const spareFiles = 16

// enough sees that this process may have the files open that a run takes at least: for
// each link where it listens, and both ends of one connection; and two pipes for each
// client. A run that begins and finds too few later ends as one that could not be run, too,
// but first starts hundreds of processes.
func enough(s scenario.Scenario) error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("count open files: %w", err)
	}
	var limit syscall.Rlimit // Go has raised it as far as it may
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("count open files: %w", err)
	}
	need := len(open) + spareFiles
	nodes := len(s.NodeNames())
	for _, c := range real.LinkClients(s) {
		reached := nodes
		if c.Reach != nil {
			reached = len(c.Reach)
		}
		need += nodes + 1 + 2*(reached+1) + 2
	}
	if uint64(need) <= limit.Cur {
		return nil
	}
	return fmt.Errorf("start %d clients with links to %d nodes: that takes %d open files or more, and this process may have %d: %w",
		len(s.Clients), nodes, need, limit.Cur, syscall.EMFILE)
}
