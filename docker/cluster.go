//go:build linux

package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"lockpick/docker/engine"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/vdso"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/nemesis"
)

type cluster struct {
	*real.Run
	*packetFilters // for nodes whose packets the plan drops
	testbed        *testbed

	// Set before body is called.
	nodeNames        []string      // of the nodes
	clockOffset      time.Duration // how far the engine's clock is ahead of lockpick's
	clockOffsetError time.Duration // error bound of clockOffset
	runLimit         time.Duration // maximum duration of the run
	group            *proc.Group   // owns the directory that contains the disks; nil without disks
	monitor          *monitor

	mu             sync.Mutex
	waitingClients map[string]*container // containers of clients that have not received an order
}

var _ real.Cluster = (*cluster)(nil)

// faultInterfaces implements the fault interfaces that this backend supports on Linux.
var faultInterfaces any = (*cluster)(nil)

// openLinks opens the links between clients and servers.
func (c *cluster) openLinks(s scenario.Scenario, seed uint64, rec *history.Recorder) error {
	remote := c.testbed.remoteNetwork
	c.Links = remote
	var err error
	if c.clockOffset, c.clockOffsetError, err = remote.Offset(c.Ctx); err != nil {
		return fmt.Errorf("read the clock of the engine's machine: %w", err)
	}
	c.runLimit = s.Limit
	c.SetClockAhead(c.clockOffset)
	addrs := map[string]string{scenario.ResourceName: c.ResourceServer.Addr()}
	for _, name := range c.nodeNames {
		addrs[name] = c.Nodes.Server(name).Addr()
	}
	run := real.NetworkRun{Context: c.Ctx, Record: rec.Record, Go: c.Timeline.Go}
	if len(c.byNode) > 0 {
		run.Ports = firstPort
	}
	return remote.Open(run, seed, c.testbed.net.addr(linksHost).String(), addrs, c.nodeNames, s.Clients)
}

// watchLinks ends the run if the links' container exits.
func (c *cluster) watchLinks() {
	select {
	case <-c.testbed.remoteNetwork.Done():
		c.Fail(fmt.Errorf("the links exited because their container or the engine stopped: %w; %s", real.ErrAgentGone, cmp.Or(c.testbed.linksContainer.StderrTail(), "they wrote nothing to stderr")))
	case <-c.Ctx.Done():
	}
}

// close stops the run's clients, closes its links, and waits for its goroutines. The servers keep
// running.
func (c *cluster) close() error {
	c.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	var errs []error
	for _, p := range c.Clients() { // before the links, so that clients don't see the links end
		if _, err := p.Kill(ctx); err != nil && !errors.Is(err, proc.ErrEnded) {
			errs = append(errs, err)
		}
	}
	if c.Links != nil && (!c.monitor.SawInterference() || c.testbed.linksAnswer(ctx)) {
		limit, cancel := context.WithTimeout(ctx, linksTimeout)
		defer cancel()
		errs = append(errs, c.checkClockOffset(limit), c.testbed.remoteNetwork.Close(limit))
	}
	errs = append(errs, c.closeFilters(ctx))
	errs = append(errs, c.testbed.removeNodes(ctx, func(n *node) bool { return n.spec.singleUse }))
	if c.group != nil {
		errs = append(errs, c.group.Close())
	}
	return errors.Join(append(errs, c.Wait())...)
}

// checkClockOffset checks that the offset of the engine's clock is still within the error bound reported
// by TimestampUncertainty.
func (c *cluster) checkClockOffset(ctx context.Context) error {
	if c.clockOffsetError == 0 {
		return nil
	}
	offset, errorBound, err := c.testbed.remoteNetwork.Offset(ctx)
	if errors.Is(err, real.ErrAgentGone) {
		return nil // reported elsewhere
	}
	if err != nil {
		return fmt.Errorf("read the clock of the engine's machine: %w", err)
	}
	if change := (offset - c.clockOffset).Abs(); change > c.clockOffsetError+errorBound+maxDriftIn(c.runLimit) {
		return fmt.Errorf("the clock of the engine's machine changed by %v during the run, too much for reliable timestamps; synchronize both machines with NTP", change)
	}
	return nil
}

func (c *cluster) nodeByName(name string) *node {
	if n := c.Nodes.Server(name); n != nil {
		return n.(*node)
	}
	return c.ResourceServer.(*node)
}

// TimestampUncertainty returns an error bound for true-time timestamps. Clients and links read the engine's clock;
// lockpick reads its own clock and converts the result to the engine's clock.
func (c *cluster) TimestampUncertainty() time.Duration {
	if c.clockOffsetError == 0 {
		return timestampUncertainty
	}
	return timestampUncertainty + c.clockOffsetError + maxDriftIn(c.runLimit)
}

// NodeReport adds the servers' image.
func (c *cluster) NodeReport() harness.NodeReport {
	r := c.Run.NodeReport()
	if r.ServerVersion != "" {
		r.ServerVersion += ", "
	}
	r.ServerVersion += c.testbed.software.String()
	return r
}

// addClocks adds an adjustable clock for each node and client whose clock the scenario may change.
func (c *cluster) addClocks(s scenario.Scenario) {
	for _, name := range adjustableClocks(s) {
		k := real.NewClock(c.Ctx, slices.Contains(s.ClientNames(), name), c.engineTime)
		context.AfterFunc(c.Ctx, func() { k.Close() })
		c.AddClock(name, k)
	}
}

// engineTime returns true time by the engine's clock.
func (c *cluster) engineTime() time.Duration { return c.Now() + c.Origin() }

// checkOtherClocks checks that nodes without an adjustable clock still show true time, because a fault
// must affect only its targets. It skips nodes that cannot answer now, and returns the names of the
// others.
func (c *cluster) checkOtherClocks(trueClock vdso.ClockState) (names []string, err error) {
	for _, name := range c.nodeNames {
		n := c.nodeByName(name)
		if n.spec.clock != nil || !n.Running() || n.isUnresponsive() {
			continue
		}
		r, err := c.ReadTime(n)
		if err != nil {
			continue
		}
		if err := real.CheckWallClock(trueClock, r); err != nil {
			return nil, fmt.Errorf("the fault also hit %s: %w", name, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// Prepare makes sure that the engine has the images for the scenarios. It calls say to report progress
// and what nodes will run. If an image is unavailable, the error is a *MissingError.
func (b *backend) Prepare(ctx context.Context, all []scenario.Scenario, say func(string)) error {
	e, _, err := engine.Open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	self, err := files.CurrentOwner()
	if err != nil {
		return err
	}
	images := b.imageSource(e, self.String(), say)
	var prepared []string
	for _, s := range all {
		if slices.Contains(prepared, s.Topology.Image) {
			continue
		}
		prepared = append(prepared, s.Topology.Image)
		nodes, err := images.nodeSoftware(ctx, s.Topology.Image)
		if err != nil {
			return err
		}
		say("nodes run " + nodes.String())
	}
	if len(prepared) == 0 {
		return nil
	}
	_, _, err = images.provideClients(ctx)
	return err
}

var _ nemesis.Starver = (*cluster)(nil)

// Starve limits a node's CPU time and memory and reads the limits back from the engine.
func (c *cluster) Starve(node string, cpu float64, memory int) (string, error) {
	n := c.nodeByName(node)
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	switch {
	case !n.Running():
		return "", fmt.Errorf("starve %s: it is not running", node)
	case n.starved.Load():
		return "", fmt.Errorf("starve %s: it is already starved", node)
	}
	n.modified.Store(true)
	n.starved.Store(true)
	n.everStarved.Store(true)
	n.updateLinks(c.Ctx)
	want := engine.Limits{Quota: time.Duration(cpu * float64(engine.SharePeriod)).Round(time.Microsecond), Memory: int64(memory)}
	if err := n.engine.SetLimits(c.Ctx, n.id, want); err != nil {
		return "", fmt.Errorf("starve %s: %w", node, err)
	}
	got, err := n.engine.ReadLimits(c.Ctx, n.id)
	if err != nil {
		return "", fmt.Errorf("starve %s: %w", node, err)
	}
	if got != want {
		return "", fmt.Errorf("starve %s: the engine reports limits of %v", node, got)
	}
	return fmt.Sprintf("container %.12s may use %v", n.id, got), nil
}

// ClearLimits removes a node's limits and reports how they affected the node. If the node was killed
// because it ran out of memory, it stays down.
func (c *cluster) ClearLimits(node string) (string, error) {
	n := c.nodeByName(node)
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	err := n.engine.SetLimits(c.Ctx, n.id, engine.Limits{})
	if err != nil && n.isEnding() {
		err = n.engine.SetLimits(c.Ctx, n.id, engine.Limits{}) // for the node's next start
	}
	if err != nil {
		return "", fmt.Errorf("remove the limits of %s: %w", node, err)
	}
	answer, err := n.awaitAnswer(c.Ctx)
	n.starved.Store(false)
	n.updateLinks(c.Ctx)
	if err != nil {
		return "", fmt.Errorf("remove the limits of %s: %w", node, err)
	}
	usage, err := n.engine.Usage(c.Ctx, n.id)
	if err != nil {
		return "", fmt.Errorf("remove the limits of %s: %w", node, err)
	}
	back := usage.String() + "; " + answer
	if usage.Periods > 0 && usage.ThrottledPeriods == 0 {
		return back, nemesis.ErrIdle
	}
	return back, nil
}

// isEnding reports whether the program has exited or exits within a second. The engine may know about the
// exit before lockpick does.
func (n *node) isEnding() bool {
	select {
	case <-n.Done():
		return true
	case <-time.After(time.Second):
		return false
	}
}
