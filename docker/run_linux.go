package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/docker/engine"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/vdso"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
)

// testbedCount counts this process's testbeds, for their names.
var testbedCount atomic.Int64

// Run creates a network and containers, or reuses those of an earlier run, opens the links, and calls body
// just after true time zero. Afterward, it keeps what the next run can reuse. seed determines the random
// message faults. Clients have their own seeds, in their Spec.
func (b *backend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) (err error) {
	b.creationMu.RLock()
	doneCreating := sync.OnceFunc(b.creationMu.RUnlock)
	defer doneCreating()
	st, err := b.takeTestbed(ctx, s)
	if err != nil {
		return err
	}
	if st.linksContainer != nil { // left by an earlier run
		doneCreating()
	}
	c := newCluster(ctx, st, rec)
	c.watchSetUp()
	reusable := false
	defer func() { // even if body panics
		err = errors.Join(err, c.monitor.explain(c.close()))
		if reusable && err == nil {
			b.putIdle(st)
			return
		}
		err = errors.Join(err, st.close())
	}()
	if err := c.mountDisks(s); err != nil {
		return err
	}
	if err := c.startContainers(s); err != nil {
		return c.monitor.explain(err)
	}
	doneCreating()
	b.creationMu.Lock() // creating a testbed would delay a run in progress
	//lint:ignore SA2001 just waits for the other runs
	b.creationMu.Unlock()
	if err := c.setUp(s, seed, rec); err != nil {
		return c.monitor.explain(err)
	}
	err = body(c.Ctx, c)
	reusable = !c.monitor.SawInterference() // otherwise, the next run cannot reuse the testbed
	return err
}

// setUp connects the containers and starts the run.
func (c *cluster) setUp(s scenario.Scenario, seed uint64, rec *history.Recorder) error {
	if err := c.makeFilters(s, c.nodeByName); err != nil {
		return err
	}
	if err := c.openLinks(s, seed, rec); err != nil {
		return err
	}
	go c.watchLinks()
	sentinel := func(name string) (*proc.Sentinel, error) { return c.testbed.makeSentinel(c.Ctx, name) }
	if err := c.SetUp(s, sentinel); err != nil {
		return err
	}
	return c.Begin()
}

// takeTestbed returns an earlier run's testbed or a new one.
func (b *backend) takeTestbed(ctx context.Context, s scenario.Scenario) (*testbed, error) {
	if err := b.Fits(s); err != nil {
		return nil, err
	}
	st := b.takeIdle()
	if st != nil && st.nodeImage == s.Topology.Image && st.linksAlive() && st.assignHosts(s.ClientNames()) {
		return st, nil
	}
	if st != nil {
		if err := st.close(); err != nil {
			return nil, err
		}
	}
	e, a, err := engine.Open(ctx)
	if err != nil {
		reason, remedy := engine.Explain(err)
		return nil, fmt.Errorf("run: %s; to fix it: %s", reason, remedy)
	}
	self, err := files.CurrentOwner()
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	id := fmt.Sprintf("%s.%d", self, testbedCount.Add(1))
	st = &testbed{
		cfg: b.cfg, engine: e, engineIsLocal: e.IsLocal(a) && !b.assumeRemote, nodeImage: s.Topology.Image, linksReady: make(chan struct{}),
		labels: map[string]string{engine.OwnerLabel: self.String(), runLabel: id}, prefix: "lockpick-" + id + "-",
		nodes: map[role]*node{}, clientContainers: map[string]*container{}, clientHosts: map[string]int{}, usedHosts: map[int]bool{}, addresses: map[int]*container{},
	}
	st.assignHosts(s.ClientNames())
	if err := st.setUp(ctx, b); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

// Fits returns an error if a scenario has too many nodes or clients to run on any machine.
func (*backend) Fits(s scenario.Scenario) error {
	if n, m := len(s.NodeNames()), len(s.Clients); firstNode+n > firstReplica || firstClient+m-1 > lastHost {
		return fmt.Errorf("create a network: it has room for %d nodes and %d clients, not for %d and %d",
			firstReplica-firstNode, lastHost-firstClient+1, n, m)
	}
	return nil
}

// takeIdle returns an earlier run's testbed, or nil if there is none.
func (b *backend) takeIdle() *testbed {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.idleTestbeds)
	if n == 0 {
		return nil
	}
	st := b.idleTestbeds[n-1]
	b.idleTestbeds = b.idleTestbeds[:n-1]
	return st
}

// putIdle stores a testbed for the next run.
func (b *backend) putIdle(st *testbed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idleTestbeds = append(b.idleTestbeds, st)
}

// Close removes the testbeds that were kept for later runs.
func (b *backend) Close() error {
	var errs []error
	for st := b.takeIdle(); st != nil; st = b.takeIdle() {
		errs = append(errs, st.close())
	}
	return errors.Join(errs...)
}

// setUp makes sure that the engine has the images, removes what dead lockpick processes left behind, and
// creates the network. It reports no progress, because Prepare has already fetched the images.
func (s *testbed) setUp(ctx context.Context, b *backend) (err error) {
	images := b.imageSource(s.engine, s.labels[engine.OwnerLabel], func(string) {})
	if s.software, err = images.nodeSoftware(ctx, s.nodeImage); err != nil {
		return err
	}
	if s.ownImage, s.clientCommand, err = images.provideClients(ctx); err != nil {
		return err
	}
	if err := images.checkAdapterImage(ctx); err != nil {
		return err
	}
	if err := engine.Sweep(ctx, s.engine, s.engineIsLocal, s.software.ref, s.ownImage.ref); err != nil {
		return err
	}
	if _, err := proc.Sweep(os.TempDir()); err != nil { // removes disks, which must come after the containers that used them
		return err
	}
	s.net, err = makeNetwork(ctx, s.engine, strings.TrimSuffix(s.prefix, "-"), s.labels)
	return err
}

// startContainers creates all missing containers concurrently. It returns when the servers answer and the
// clients wait for their orders.
func (c *cluster) startContainers(s scenario.Scenario) error {
	c.addClocks(s)
	c.nodeNames = s.NodeNames()
	if err := c.testbed.reserveAddresses(c.Ctx, len(c.nodeNames)); err != nil {
		return err
	}
	var otherTasks []func() error
	if c.testbed.linksContainer == nil {
		otherTasks = append(otherTasks, func() error { return c.testbed.startLinks(c.Ctx) })
	}
	for _, client := range s.ClientNames() {
		otherTasks = append(otherTasks, func() error {
			p, err := c.testbed.makeClient(c.Ctx, client, c.Clock(client))
			if err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.waitingClients[client] = p
			return nil
		})
	}
	return errors.Join(c.StartServers(s, c.nodeNames, c.startServer, otherTasks...)...)
}

func (c *cluster) startServer(r real.Role) (real.Server, error) {
	host := anyHost
	want := nodeSpec{role: role{name: r.Name, persistence: r.Persistence}, disk: c.Disk(r.Name), clock: c.Clock(r.Name)}
	switch {
	case r.Name == scenario.ResourceName:
		host = resourceHost
	case r.Master != "":
		host = firstReplica + slices.Index(c.nodeNames, r.Master)
	}
	if want.disk != nil {
		want.data = c.group.DataDir(r.Name)
	}
	// Replication changes nodes in ways that wipe does not undo.
	want.singleUse = want.clock != nil || want.disk != nil || r.Replicated
	return c.testbed.makeNode(c.Ctx, host, want)
}

// startClient returns the client's waiting process. If the client has already run, it starts another
// process.
func (c *cluster) startClient(name string) (*real.Client, error) {
	c.mu.Lock()
	cont := c.waitingClients[name]
	delete(c.waitingClients, name)
	c.mu.Unlock()
	if cont == nil {
		var err error
		if cont, err = c.testbed.makeClient(c.Ctx, name, c.Clock(name)); err != nil {
			return nil, err
		}
	}
	c.monitor.add(monitoredClient(cont))
	reportKill := func(signal int) {
		c.monitor.report(monitoredClient(cont), harness.UnplannedEvent{Op: "kill", Cause: fmt.Sprintf("its process in container %.12s was killed by signal %d", cont.id, signal)})
	}
	return &real.Client{Program: cont, In: cont.stdio.in, Out: cont.stdio.out, OnSignal: reportKill, AwaitCause: awaitLinksEnd}, nil
}

// linksEndTimeout limits how long after a client the links may end, if both end because the engine
// stopped.
const linksEndTimeout = 5 * time.Second

// awaitLinksEnd waits for the links to end if the engine is gone, so that watchLinks can end the run with
// the actual reason.
func awaitLinksEnd(ctx context.Context, end error) {
	if engine.Unreachable(end) {
		select {
		case <-ctx.Done():
		case <-time.After(linksEndTimeout):
		}
	}
}

func newCluster(ctx context.Context, s *testbed, rec *history.Recorder) *cluster {
	c := &cluster{
		Run: real.New(ctx, rec), testbed: s, waitingClients: map[string]*container{},
	}
	c.packetFilters = &packetFilters{testbed: s, ctx: c.Ctx, byNode: map[string]*packetFilter{}}
	c.NewClient, c.TrueTime = c.startClient, c.engineTime
	c.CheckOthers = func(m *real.Clock) error {
		_, err := c.checkOtherClocks(vdso.ClockState{Offset: m.State().Offset})
		return err
	}
	c.Disks.WrapFault = func(node string) func() { return c.nodeByName(node).lockLifecycle(c.Ctx) }
	c.Disks.Kill = func(node string) (string, error) {
		return c.EndNode(node, false, func() (string, error) { return c.nodeByName(node).end(c.Ctx) })
	}
	return c
}

func (b *backend) imageSource(e *engine.Engine, owner string, report func(string)) imageSource {
	return imageSource{b.cfg, b.program, e, map[string]string{engine.OwnerLabel: owner}, report}
}

// Agent roles, for use as the argument after AgentVerb.
const (
	linksAgent   = "links"   // serves the links
	clockAgent   = "clock"   // changes the clocks of the container whose processes it shares
	packetsAgent = "packets" // drops packets in its network namespace
	addressAgent = "address" // holds a node's address until its input is closed
	loopAgent    = "loop"    // runs clients one after another with the command in the remaining arguments
)

// Agent is the part of lockpick that runs in containers. It serves requests from in until in is closed.
func Agent(in io.Reader, out, errs io.Writer, args []string) error {
	if len(args) == 0 {
		args = []string{""}
	}
	switch args[0] {
	case linksAgent:
		return real.ServeLinks(in, out)
	case clockAgent:
		return real.ServeClock(in, out)
	case packetsAgent:
		return servePackets(in, out)
	case addressAgent:
		_, err := io.Copy(io.Discard, in)
		return err
	case loopAgent:
		return real.ClientLoop(in, out, errs, args[1:], killLeftovers)
	}
	return fmt.Errorf("start an agent: unknown role %q", args[0])
}
