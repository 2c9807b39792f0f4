//go:build linux

package docker

import (
	"context"
	"maps"
	"slices"
	"sync"

	"lockpick/harness"
)

// guard sees what becomes of a run's containers, and of what is in them, that the plan does
// not ask for: the engine tells of ends and of pauses, /proc of processes that a signal has
// stopped where the engine is on this machine, and whoever answers no question for longer
// than answersIn stands still, however that came about.
type guard struct {
	c *cluster

	mu     sync.Mutex
	tell   func(harness.Unplanned)
	boxes  map[string]ward // by the container's id
	stands map[string]bool // what stands still, by how it is seen
	hit    bool            // something was told
}

// ward is a container that is looked after, and whose it is.
type ward struct {
	*box
	actor  string // in the record
	what   string // of the actor's it is, in words; "": the actor itself
	node   *node  // that it is; nil: it is none
	client bool   // its program is a client's, or starts those
	plays  bool   // its program is a client's, and ends with it
}

// linksName is what the record calls the container of the links.
const linksName = "links"

// Guard looks after the containers of the run until over is called.
func (c *cluster) Guard(tell func(harness.Unplanned)) (over func()) {
	g := &guard{c: c, tell: tell, boxes: map[string]ward{}, stands: map[string]bool{}}
	ctx, cancel := context.WithCancel(c.ctx)
	var watching sync.WaitGroup
	said, failed := c.site.engine.pauses(ctx)
	for _, w := range c.wards() {
		g.take(w)
	}
	c.mu.Lock()
	c.guard = g
	c.mu.Unlock()
	watching.Go(func() { g.hear(said, failed) })
	if c.site.here {
		watching.Go(func() { every(ctx, lookTick, g.look) })
	}
	watching.Go(func() { g.ask(ctx, ward{box: c.site.linksBox, actor: linksName}, c.askLinks) })
	for _, n := range c.servers() {
		watching.Go(func() { g.ask(ctx, ward{box: n.box, actor: n.Name}, c.answersOf(n)) })
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
	all := []*node{c.resource}
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

func (c *cluster) wards() []ward {
	all := []ward{{box: c.site.linksBox, actor: linksName}}
	for _, n := range c.servers() {
		all = append(all, ward{box: n.box, actor: n.Name, node: n})
		if n.place.box != n.box { // a guest's is its own
			all = append(all, ward{box: n.place.box, actor: n.Name, what: "what has its address, "})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, players := range []map[string]*player{c.waiting, c.playing} {
		for name, p := range players {
			all = append(all, p.ward(name))
		}
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

func (p *player) ward(name string) ward {
	return ward{box: p.box, actor: name, client: true, plays: p.turns}
}

// take looks after a container from now on, before anybody can pause it.
func (g *guard) take(w ward) {
	w.mu.Lock()
	taken := w.guard == g
	w.mu.Unlock()
	if taken {
		return
	}
	g.mu.Lock()
	g.boxes[w.id] = w
	g.mu.Unlock()
	w.mu.Lock()
	w.guard, w.frozen, w.pausing, w.resuming = g, false, 0, 0
	r, dead := w.run, !w.runs()
	w.mu.Unlock()
	if dead && r != nil {
		g.ended(w.box, r)
	}
}

func (g *guard) say(w ward, u harness.Unplanned) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tell != nil {
		g.hit = true
		u.Node, u.Cause = w.actor, w.what+u.Cause
		g.tell(u)
	}
}

func (g *guard) ward(id string) (w ward, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w, ok = g.boxes[id]
	return w, ok
}
