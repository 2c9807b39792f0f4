//go:build linux

package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	*packetFilters // of nodes whose packets the plan loses
	site           *site

	// These are filled before body is called.
	names  []string      // of the nodes
	ahead  time.Duration // how far the engine's clock is ahead of ours
	within time.Duration // by how much that may be wrong
	limit  time.Duration // how long the run may take
	group  *proc.Group   // directory that disks are mounted below; nil: there are none
	guard  *guard

	mu      sync.Mutex
	waiting map[string]*box // of clients that have no order yet
}

var _ real.Cluster = (*cluster)(nil)

// powers is what can inject faults wherever it can run.
var powers any = (*cluster)(nil)

// open makes the links between all who are there.
func (c *cluster) open(s scenario.Scenario, seed uint64, rec *history.Recorder) error {
	remote := c.site.remote
	c.Links = remote
	var err error
	if c.ahead, c.within, err = remote.Offset(c.Ctx); err != nil {
		return fmt.Errorf("read the clock of the engine's machine: %w", err)
	}
	c.limit = s.Limit
	c.GoBy(c.ahead)
	addrs := map[string]string{scenario.ResourceName: c.Store.Addr()}
	for _, name := range c.names {
		addrs[name] = c.Nodes.Server(name).Addr()
	}
	run := real.NetworkRun{Context: c.Ctx, Record: rec.Record, Go: c.Timeline.Go}
	if len(c.by) > 0 {
		run.Ports = firstPort
	}
	return remote.Open(run, seed, c.site.net.at(linksHost).String(), addrs, c.names, s.Clients)
}

// watch ends the run if the links do.
func (c *cluster) watch() {
	select {
	case <-c.site.remote.Ended():
		c.Fail(fmt.Errorf("the links have ended, with their container or with the engine: %w; %s", real.ErrAgentGone, cmp.Or(c.site.linksBox.Words(), "they said nothing")))
	case <-c.Ctx.Done():
	}
}

// close ends what the run has made, and waits for it. The servers stay.
func (c *cluster) close() error {
	c.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), removeBound)
	defer cancel()
	var errs []error
	for _, p := range c.Clients() { // in front of the links, so that nobody sees these end
		if _, err := p.Kill(ctx); err != nil && !errors.Is(err, proc.ErrEnded) {
			errs = append(errs, err)
		}
	}
	if c.Links != nil && (!c.guard.Heard() || c.site.linksAnswer(ctx)) {
		limit, cancel := context.WithTimeout(ctx, linksPatience)
		defer cancel()
		errs = append(errs, c.sameTime(limit), c.site.remote.Close(limit))
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
	ahead, within, err := c.site.remote.Offset(ctx)
	if errors.Is(err, real.ErrAgentGone) {
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

func (c *cluster) at(name string) *node {
	if n := c.Nodes.Server(name); n != nil {
		return n.(*node)
	}
	return c.Store.(*node)
}

// StampError bounds how wrong true stamps can be: those of clients and links are by one
// clock, the engine's; ours are by the reckoning of it.
func (c *cluster) StampError() time.Duration {
	if c.within == 0 {
		return stampError
	}
	return stampError + c.within + driftIn(c.limit)
}

// NodeReport includes what the nodes call themselves, and their image.
func (c *cluster) NodeReport() harness.NodeReport {
	r := c.Run.NodeReport()
	r.ServerVersion = c.site.software.String()
	if info, err := c.Resource(c.Ctx, "INFO", "server"); err == nil {
		r.ServerVersion = versionIn(fmt.Sprint(info)) + r.ServerVersion
	}
	return r
}

// versionIn is how a server's INFO names it. A Valkey calls itself a Redis, too.
func versionIn(info string) string {
	for _, name := range []string{"valkey", "redis"} {
		if _, rest, ok := strings.Cut(info, "\n"+name+"_version:"); ok {
			version, _, _ := strings.Cut(rest, "\r\n")
			return name + " " + version + ", "
		}
	}
	return ""
}

// setClocks lets the clocks be changed that the scenario may change.
func (c *cluster) setClocks(s scenario.Scenario) {
	for _, name := range turnable(s) {
		k := real.NewClock(c.Ctx, slices.Contains(s.ClientNames(), name), c.there)
		context.AfterFunc(c.Ctx, func() { k.Close() })
		c.AddClock(name, k)
	}
}

// there is true time by the engine's clock.
func (c *cluster) there() time.Duration { return c.Now() + c.Origin() }

// seeOthers asks the nodes whose clocks nobody turns: it is an error if one does not show
// true time, for a fault must hit whom it is meant for. Who can't answer now is left out.
func (c *cluster) seeOthers(right vdso.Shown) (names []string, err error) {
	for _, name := range c.names {
		n := c.at(name)
		if n.want.clock != nil || !n.Runs() || n.deaf() {
			continue
		}
		r, err := c.ReadTime(n)
		if err != nil {
			continue
		}
		if err := real.ClockDiffers(right, r); err != nil {
			return nil, fmt.Errorf("%s, which was not meant: %w", name, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// Prepare gets the images that scenarios need, and says what nodes will run. What can't
// be had is a *Lack.
func (b *backend) Prepare(ctx context.Context, all []scenario.Scenario, say func(string)) error {
	e, _, err := engine.Meet(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	self, err := files.Self()
	if err != nil {
		return err
	}
	from := b.supply(e, self.String(), say)
	var had []string
	for _, s := range all {
		if slices.Contains(had, s.Topology.Image) {
			continue
		}
		had = append(had, s.Topology.Image)
		nodes, err := from.nodes(ctx, s.Topology.Image)
		if err != nil {
			return err
		}
		say("nodes run " + nodes.String())
	}
	if len(had) == 0 {
		return nil
	}
	_, _, err = from.clients(ctx)
	return err
}

var _ nemesis.Starver = (*cluster)(nil)

// Starve leaves a node little of its machine, and reads back what the engine holds it to.
func (c *cluster) Starve(node string, cpu float64, memory int) (string, error) {
	n := c.at(node)
	n.changing.Lock()
	defer n.changing.Unlock()
	switch {
	case !n.Runs():
		return "", fmt.Errorf("starve %s: it does not run", node)
	case n.starved.Load():
		return "", fmt.Errorf("starve %s: it is starved already", node)
	}
	n.spoiled.Store(true)
	n.starved.Store(true)
	n.everStarved.Store(true)
	n.tell(c.Ctx)
	want := engine.Share{Quota: time.Duration(cpu * float64(engine.SharePeriod)).Round(time.Microsecond), Memory: int64(memory)}
	if err := n.engine.Bound(c.Ctx, n.id, want); err != nil {
		return "", fmt.Errorf("starve %s: %w", node, err)
	}
	is, err := n.engine.Bounds(c.Ctx, n.id)
	if err != nil {
		return "", fmt.Errorf("starve %s: %w", node, err)
	}
	if is != want {
		return "", fmt.Errorf("starve %s: the engine says that it may use %v", node, is)
	}
	return fmt.Sprintf("container %.12s may use %v", n.id, is), nil
}

// Feed ends that, and says what the node met meanwhile. One that has ended for want of
// memory stays down.
func (c *cluster) Feed(node string) (string, error) {
	n := c.at(node)
	n.changing.Lock()
	defer n.changing.Unlock()
	err := n.engine.Bound(c.Ctx, n.id, engine.Share{})
	if err != nil && n.ends() {
		err = n.engine.Bound(c.Ctx, n.id, engine.Share{}) // for when it is started again
	}
	if err != nil {
		return "", fmt.Errorf("feed %s: %w", node, err)
	}
	heard, err := n.heard(c.Ctx)
	n.starved.Store(false)
	n.tell(c.Ctx)
	if err != nil {
		return "", fmt.Errorf("feed %s: %w", node, err)
	}
	met, err := n.engine.Used(c.Ctx, n.id)
	if err != nil {
		return "", fmt.Errorf("feed %s: %w", node, err)
	}
	back := met.String() + "; " + heard
	if met.Periods > 0 && met.Throttled == 0 {
		return back, nemesis.ErrIdle
	}
	return back, nil
}

// ends says whether it is just ending, of which the engine may know before we do.
func (n *node) ends() bool {
	select {
	case <-n.Done():
		return true
	case <-time.After(time.Second):
		return false
	}
}
