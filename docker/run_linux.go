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

// testbedCount counts the testbeds of this process, to name them.
var sites atomic.Int64

// Run creates the network and the containers or reuses those of an earlier run, opens the links,
// and calls body just after true time zero. It keeps what the next run can reuse. The seed
// determines the random faults of messages; clients get their own seeds in their Spec.
func (b *backend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) (err error) {
	b.making.RLock()
	made := sync.OnceFunc(b.making.RUnlock)
	defer made()
	st, err := b.take(ctx, s)
	if err != nil {
		return err
	}
	if st.linksBox != nil { // it was created by an earlier run
		made()
	}
	c := newCluster(ctx, st, rec)
	c.watchSetUp()
	well := false
	defer func() { // also after a panic in body
		err = errors.Join(err, c.guard.explain(c.close()))
		if well && err == nil {
			b.give(st)
			return
		}
		err = errors.Join(err, st.close())
	}()
	if err := c.mountDisks(s); err != nil {
		return err
	}
	if err := c.fill(s); err != nil {
		return c.guard.explain(err)
	}
	made()
	b.making.Lock() // creating a testbed would delay a run that has begun
	//lint:ignore SA2001 it only waits for the other runs
	b.making.Unlock()
	if err := c.setUp(s, seed, rec); err != nil {
		return c.guard.explain(err)
	}
	err = body(c.Ctx, c)
	well = !c.guard.Heard() // otherwise the next run can't reuse the testbed
	return err
}

// setUp connects the containers and lets the run begin.
func (c *cluster) setUp(s scenario.Scenario, seed uint64, rec *history.Recorder) error {
	if err := c.filterPackets(s, c.at); err != nil {
		return err
	}
	if err := c.open(s, seed, rec); err != nil {
		return err
	}
	go c.watch()
	sentinel := func(name string) (*proc.Sentinel, error) { return c.site.makeSentinel(c.Ctx, name) }
	if err := c.SetUp(s, sentinel); err != nil {
		return err
	}
	return c.Begin()
}

// takeTestbed returns a testbed left by an earlier run, or a new one.
func (b *backend) take(ctx context.Context, s scenario.Scenario) (*site, error) {
	if err := b.Fits(s); err != nil {
		return nil, err
	}
	st := b.left()
	if st != nil && st.named == s.Topology.Image && st.lives() && st.assignHosts(s.ClientNames()) {
		return st, nil
	}
	if st != nil {
		if err := st.close(); err != nil {
			return nil, err
		}
	}
	e, a, err := engine.Meet(ctx)
	if err != nil {
		reason, remedy := engine.Explain(err)
		return nil, fmt.Errorf("run: %s; to fix it: %s", reason, remedy)
	}
	self, err := files.Self()
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	id := fmt.Sprintf("%s.%d", self, sites.Add(1))
	st = &site{
		cfg: b.cfg, engine: e, here: e.IsHere(a) && !b.far, named: s.Topology.Image, joined: make(chan struct{}),
		labels: map[string]string{engine.OwnerLabel: self.String(), runLabel: id}, prefix: "lockpick-" + id + "-",
		nodes: map[role]*node{}, clientBoxes: map[string]*box{}, hosts: map[string]int{}, housed: map[int]bool{}, addresses: map[int]*box{},
	}
	st.assignHosts(s.ClientNames())
	if err := st.setUp(ctx, b); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

// Fits returns an error if a scenario is too large for any machine.
func (*backend) Fits(s scenario.Scenario) error {
	if n, m := len(s.NodeNames()), len(s.Clients); firstNode+n > firstReplica || firstClient+m-1 > lastHost {
		return fmt.Errorf("create a network: it has room for %d nodes and %d clients, not for %d and %d",
			firstReplica-firstNode, lastHost-firstClient+1, n, m)
	}
	return nil
}

// takeIdle takes a testbed left by an earlier run; nil if there is none.
func (b *backend) left() *site {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.idle)
	if n == 0 {
		return nil
	}
	st := b.idle[n-1]
	b.idle = b.idle[:n-1]
	return st
}

// putIdle keeps a testbed for the next run.
func (b *backend) give(st *site) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, st)
}

// Close removes the testbeds kept for later runs.
func (b *backend) Close() error {
	var errs []error
	for st := b.left(); st != nil; st = b.left() {
		errs = append(errs, st.close())
	}
	return errors.Join(errs...)
}

// setUp makes sure that the engine has the images, removes leftovers of dead lockpicks, and creates
// the network. It reports no progress, because Prepare has fetched the images before.
func (s *site) setUp(ctx context.Context, b *backend) (err error) {
	from := b.supply(s.engine, s.labels[engine.OwnerLabel], func(string) {})
	if s.software, err = from.nodes(ctx, s.named); err != nil {
		return err
	}
	if s.own, s.client, err = from.clients(ctx); err != nil {
		return err
	}
	if err := from.hasAdapters(ctx); err != nil {
		return err
	}
	if err := engine.Sweep(ctx, s.engine, s.here, s.software.ref, s.own.ref); err != nil {
		return err
	}
	if _, err := proc.Sweep(os.TempDir()); err != nil { // disks, after the containers that used them
		return err
	}
	s.net, err = makeNet(ctx, s.engine, strings.TrimSuffix(s.prefix, "-"), s.labels)
	return err
}

// startContainers creates all missing containers concurrently. It returns when the servers answer
// and the clients wait for their orders.
func (c *cluster) fill(s scenario.Scenario) error {
	c.setClocks(s)
	c.names = s.NodeNames()
	if err := c.site.vacate(c.Ctx, len(c.names)); err != nil {
		return err
	}
	var also []func() error
	if c.site.linksBox == nil {
		also = append(also, func() error { return c.site.join(c.Ctx) })
	}
	for _, client := range s.ClientNames() {
		also = append(also, func() error {
			p, err := c.site.makeClient(c.Ctx, client, c.Clock(client))
			if err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.waiting[client] = p
			return nil
		})
	}
	return errors.Join(c.StartServers(s, c.names, c.startServer, also...)...)
}

func (c *cluster) startServer(r real.Role) (real.Server, error) {
	host := anyNode
	want := wanted{role: role{name: r.Name, persist: r.Persistence}, disk: c.Of(r.Name), clock: c.Clock(r.Name)}
	switch {
	case r.Name == scenario.ResourceName:
		host = resourceHost
	case r.Master != "":
		host = firstReplica + slices.Index(c.names, r.Master)
	}
	if want.disk != nil {
		want.data = c.group.DataDir(r.Name)
	}
	// Replication changes nodes in ways that wipe does not undo.
	want.once = want.clock != nil || want.disk != nil || r.Replicated
	return c.site.makeNode(c.Ctx, host, want)
}

// startClient returns the client whose process waits for its order, or starts another process if
// it runs a second time.
func (c *cluster) startClient(name string) (*real.Client, error) {
	c.mu.Lock()
	at := c.waiting[name]
	delete(c.waiting, name)
	c.mu.Unlock()
	if at == nil {
		var err error
		if at, err = c.site.makeClient(c.Ctx, name, c.Clock(name)); err != nil {
			return nil, err
		}
	}
	c.guard.take(clientWard(at))
	gone := func(signal int) {
		c.guard.say(clientWard(at), harness.Unplanned{Op: "kill", Cause: fmt.Sprintf("its process in container %.12s was killed by signal %d", at.id, signal)})
	}
	return &real.Client{Program: at, In: at.talk.in, Out: at.talk.out, Gone: gone, Known: awaitWhoKnows}, nil
}

// linksEndTimeout is how much later than a client's end that of the links may come, if the engine
// stopped and ended both.
const goneBound = 5 * time.Second

// awaitLinksEnd waits if the engine is gone: watchLinks knows the reason and is about to end the
// run with it.
func awaitWhoKnows(ctx context.Context, end error) {
	if engine.Away(end) {
		select {
		case <-ctx.Done():
		case <-time.After(goneBound):
		}
	}
}

func newCluster(ctx context.Context, s *site, rec *history.Recorder) *cluster {
	c := &cluster{
		Run: real.New(ctx, rec), site: s, waiting: map[string]*box{},
	}
	c.packetFilters = &packetFilters{site: s, ctx: c.Ctx, by: map[string]*filter{}}
	c.Start, c.True = c.startClient, c.there
	c.Others = func(m *real.Clock) error {
		_, err := c.seeOthers(vdso.Shown{Offset: m.Shown().Offset})
		return err
	}
	c.Disks.Around = func(node string) func() { return c.at(node).quiet(c.Ctx) }
	c.Disks.Kill = func(node string) (string, error) {
		return c.EndBy(node, false, func() (string, error) { return c.at(node).end(c.Ctx) })
	}
	return c
}

// imageSource returns the image source for a run or for Prepare.
func (b *backend) supply(e *engine.Engine, owner string, say func(string)) supply {
	return supply{b.cfg, b.clients, e, map[string]string{engine.OwnerLabel: owner}, say}
}

// Roles of an agent, that is, the argument after AgentVerb.
const (
	linksAgent   = "links"   // serves the links of runs
	clockAgent   = "clock"   // changes the clocks of the container beside it
	packetsAgent = "packets" // drops packets in the network namespace it is started in
	addressAgent = "address" // keeps the address of a node until its input ends
	loopAgent    = "loop"    // runs clients one after another; the remaining arguments are their command
)

// Agent is the part of lockpick that runs in a container. It serves requests from in until in ends.
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
		return real.ClientLoop(in, out, errs, args[1:], clearRoom)
	}
	return fmt.Errorf("start an agent: no role %q", args[0])
}
