package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/lock"
)

// cluster is the network in the engine's hands.
type cluster struct {
	*network
	locks    map[string]lock.Kind
	slot     *slot // of the engine's own events
	resource *server

	downAfter time.Duration      // the patience of sentinels
	formers   map[string]*former // masters whose place a replica has taken by sentinels, by node
}

var _ harness.Cluster = (*cluster)(nil)

// Now is true time since the run began.
func (c *cluster) Now() time.Duration { return time.Duration(c.now()) }

// StampError is nought: the simulation owns true time.
func (c *cluster) StampError() time.Duration { return 0 }

// TellsLife is true: the simulation's nodes tell what becomes of each key.
func (c *cluster) TellsLife() bool { return true }

// Epoch is what a right wall clock shows at the begin of the run.
func (c *cluster) Epoch() int64 { return c.start.UnixNano() }

// At calls f in a goroutine of its own, at an instant that nothing else has: at
// most some microseconds after t. Nothing is called any more once the run has ended.
func (c *cluster) At(t time.Duration, f func()) {
	c.at(c.slot, int64(t), func() {
		if c.running() {
			go f()
		}
	})
}

func (c *cluster) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rec != nil
}

// RunClient runs the client program until it returns or is killed.
func (c *cluster) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	kind, ok := c.locks[s.Lock.Kind]
	if !ok {
		return fmt.Errorf("run client %s: there is no lock of kind %q", s.Name, s.Lock.Kind)
	}
	for _, srv := range c.servers {
		n := lock.Node{Name: srv.name, Addr: srv.addr.String()}
		if srv == c.resource {
			s.Resource = n
		} else {
			s.Nodes = append(s.Nodes, n)
		}
	}
	return c.run(ctx, s.Name, at, func(ctx context.Context, e client.Env) error {
		e.Lock = kind.New
		return client.Run(ctx, s, e)
	})
}

// run runs any program as a client.
func (c *cluster) run(ctx context.Context, name string, at func(string), program func(context.Context, client.Env) error) error {
	h := c.host(name)
	if h == nil {
		return fmt.Errorf("run client %s: the scenario has no such client", name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	again := h.started
	h.started, h.cancel = true, cancel
	c.mu.Unlock()
	if again {
		return fmt.Errorf("run client %s: it has been started before", name)
	}
	c.sleep(h.slot, c.now())
	done := make(chan error, 1)
	if h.own != nil {
		h.launch(ctx, at, program, done)
	} else if h.pass() {
		go func() {
			var err error
			if crash := protect("client "+name, func() { err = program(ctx, h.env(at)) }); crash != nil {
				err = crash
			}
			done <- err
		}()
	}
	var err error
	select {
	case err = <-done:
	case <-h.dead:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.killed {
		return harness.ErrKilled
	}
	h.ended = true
	h.hangUp()
	return err
}

// Resource runs one command on the resource, past the network.
func (c *cluster) Resource(_ context.Context, args ...string) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource.node.Do(args...)
}

// Node runs one command on a node, past the network.
func (c *cluster) Node(_ context.Context, name string, args ...string) (any, error) {
	defer c.tell()
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.up("ask", name, "it is down")
	if err != nil {
		return nil, err
	}
	return s.do(args...)
}

// Lacks lists what clients asked nodes for that Redis has and the simulation doesn't.
func (c *cluster) Lacks() []harness.Lack {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []harness.Lack
	for _, s := range c.servers {
		for _, what := range slices.Sorted(maps.Keys(s.lacking)) {
			all = append(all, harness.Lack{Node: s.name, What: what, Times: s.lacking[what]})
		}
	}
	return all
}

func (c *cluster) host(name string) *host {
	for _, h := range c.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// coolDown is how long goroutines get to unwind after the run, in virtual time.
const coolDown = time.Minute

// close ends the run: it records what is still open, heals every fault, kills
// every client and waits until what they left behind has gone.
func (c *cluster) close() {
	c.tell()
	for _, l := range c.links {
		c.record(l, l.open())
	}
	c.mu.Lock()
	c.rec = nil
	for _, l := range c.links {
		l.mend()
	}
	c.mu.Unlock()
	for _, l := range c.links {
		for _, t := range l.taps {
			t.pass()
		}
	}
	for _, h := range c.hosts {
		h.kill()
	}
	c.sleep(c.slot, c.now()+int64(coolDown))
	c.stop()
	for _, s := range c.servers {
		if s.node != nil {
			s.node.Close()
		}
		if s.replica != nil {
			s.replica.node.Close()
		}
	}
}
