//go:build linux

package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lockpick/harness"
	"lockpick/harness/real/proc"
)

// watchSetUp monitors the run's containers while they are made, and ends the run if one is disturbed
// from outside. Guard takes over once the run has begun.
func (c *cluster) watchSetUp() {
	g := &guard{run: c.Run, base: c.site.base, when: harness.SettingUp, boxes: map[string]ward{}, stopped: map[string]bool{}}
	c.guard = g
	said, failed := c.site.engine.Pauses(c.Ctx)
	if there := c.site.boxes(); len(there) > 0 { // of a run before
		for _, b := range there {
			g.take(ward{box: b, actor: b.name, fresh: true})
		}
		g.lookAgain()
	}
	c.site.made = func(b *box) { g.take(ward{box: b, actor: b.name, fresh: true}) }
	c.Go(func() { g.hear(said, failed) })
	if c.site.here {
		c.Go(func() { every(c.Ctx, lookTick, g.look) })
	}
	c.Go(func() {
		select {
		case <-time.After(setUpBound):
			if g.setsUp() {
				c.Fail(proc.Late(fmt.Sprintf("it is not set up after %v", setUpBound)))
			}
		case <-c.Ctx.Done():
		}
	})
}

// setUpBound is how long setting up a run may take. It takes seconds, and many times that on a very
// busy engine.
const setUpBound = 2 * time.Minute

// Guard looks after the containers of the run until over is called.
func (c *cluster) Guard(tell func(harness.Unplanned)) (over func()) {
	g := c.guard
	g.hand(tell, "")
	for _, w := range wards(c) {
		g.take(w)
	}
	ctx, cancel := context.WithCancel(c.Ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		g.ask(ctx, ward{box: c.site.linksBox, actor: linksName}, func(ctx context.Context) { c.site.remote.Clock(ctx) })
	})
	for _, n := range c.servers() {
		asking.Go(func() { g.ask(ctx, ward{box: n.box, actor: n.Name}, n.answers) })
	}
	return func() {
		cancel()
		asking.Wait()
		g.lookAgain()
		g.hand(nil, harness.PutAway)
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
		all = append(all, ward{box: n.box, actor: n.Name, node: n}, ward{box: n.address.box, actor: n.Name, what: "what has its address, "})
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

// clean says whether nobody but the plan has done anything to the run's containers. Others
// are of no use to the next run.
func (c *cluster) clean() bool {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	return !c.guard.hit
}
