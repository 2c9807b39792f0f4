package harness

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"lockpick/harness/client"
	"lockpick/harness/scenario"
)

// clients are those who contend.
type clients struct {
	s       scenario.Scenario
	seed    uint64
	cluster Cluster
	waits   *waits
	// atPoint is called while a client waits at a point that is armed.
	atPoint func(client, point string)
	ended   chan error // what came of each

	running atomic.Int64 // that run or are about to
	gone    sync.Map     // names of those that have ended
}

// schedule starts a client when its time has come.
func (c *clients) schedule(ctx context.Context, who scenario.Client) {
	start := func() {
		err := c.cluster.RunClient(ctx, specOf(c.s, c.seed, who), func(point string) { c.atPoint(who.Name, point) })
		if errors.Is(err, ErrKilled) || errors.Is(err, context.Canceled) {
			err = nil
		}
		c.gone.Store(who.Name, true)
		c.ended <- err
	}
	if who.Start != nil {
		c.waits.await(*who.Start, func() { c.running.Add(1) }, start)
		return
	}
	c.running.Add(1)
	c.cluster.At(who.Delay, start)
}

// left reports whether a client runs or is about to.
func (c *clients) left() bool { return c.running.Load() > 0 }

// hasEnded reports whether a client of that name has ended.
func (c *clients) hasEnded(name string) bool {
	_, gone := c.gone.Load(name)
	return gone
}

// specOf is what one client is to do.
func specOf(s scenario.Scenario, seed uint64, c scenario.Client) client.Spec {
	w := s.Workload
	spec := client.Spec{
		Name: c.Name, Seed: seed, Lock: s.Lock, Addresses: s.Topology.Addresses, Fence: w.Fence, Writes: w.Writes, Cycles: w.Cycles,
		Keys: s.KeyNames(), Until: s.Limit, Think: w.Think, Hold: w.Hold, Prepare: w.Prepare, Cancel: w.CancelAfter, Extend: w.Extend, Reenter: w.Reenter, NoCheck: w.NoCheck,
	}
	if w.For > 0 {
		spec.Until = w.For
	}
	if c.Think != nil {
		spec.Think = *c.Think
	}
	if c.Hold != nil {
		spec.Hold = *c.Hold
	}
	if c.Cycles != nil {
		spec.Cycles = *c.Cycles
	}
	if c.CancelAfter != nil {
		spec.Cancel = *c.CancelAfter
	}
	for _, st := range s.Plan {
		if p := st.When.Point; p != nil && p.Client == c.Name {
			spec.Armed = append(spec.Armed, client.Point{Name: p.Point, Nth: p.Nth})
		}
	}
	return spec
}
