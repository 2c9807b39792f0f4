//go:build linux

package docker

import (
	"context"
	"maps"
	"slices"
	"sync"

	"lockpick/harness"
)

// Guard looks after the containers of the run until over is called.
func (c *cluster) Guard(tell func(harness.Unplanned)) (over func()) {
	g := &guard{run: c.Run, base: c.site.base, tell: tell, boxes: map[string]ward{}, stands: map[string]bool{}}
	ctx, cancel := context.WithCancel(c.Ctx)
	var watching sync.WaitGroup
	said, failed := c.site.engine.Pauses(ctx)
	for _, w := range wards(c) {
		g.take(w)
	}
	c.mu.Lock()
	c.guard = g
	c.mu.Unlock()
	watching.Go(func() { g.hear(said, failed) })
	if c.site.here {
		watching.Go(func() { every(ctx, lookTick, g.look) })
	}
	watching.Go(func() {
		g.ask(ctx, ward{box: c.site.linksBox, actor: linksName}, func(ctx context.Context) { c.site.remote.Clock(ctx) })
	})
	for _, n := range c.servers() {
		watching.Go(func() { g.ask(ctx, ward{box: n.box, actor: n.Name}, n.answers) })
	}
	return func() {
		cancel()
		watching.Wait()
		g.lookAgain()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.tell = nil
	}
}

// servers are the run's redis-servers that somebody may ask something.
func (c *cluster) servers() []*node {
	all := []*node{c.Store}
	for _, name := range c.names {
		all = append(all, c.Nodes.Server(name))
	}
	all = append(all, slices.Collect(maps.Values(c.replicas))...)
	c.site.mu.Lock()
	defer c.site.mu.Unlock()
	for _, s := range c.Sentinels {
		if n := c.site.nodes[role{name: s.Name, once: true}]; n != nil {
			all = append(all, n)
		}
	}
	return all
}

func wards(c *cluster) []ward {
	all := []ward{{box: c.site.linksBox, actor: linksName}}
	for _, n := range c.servers() {
		all = append(all, ward{box: n.box, actor: n.Name, node: n})
		if n.address.box != n.box { // a guest's is its own
			all = append(all, ward{box: n.address.box, actor: n.Name, what: "what has its address, "})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, at := range c.waiting {
		all = append(all, at.ward(name))
	}
	for name, p := range c.Clients() {
		all = append(all, p.Program.(*clientBox).ward(name))
	}
	return all
}

// guarding is the run's guard; nil: it has not begun.
func (c *cluster) guarding() *guard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guard
}

// clean says whether nobody but the plan has done anything to the run's containers. Others
// are of no use to the next run.
func (c *cluster) clean() bool {
	g := c.guarding()
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.hit
}
