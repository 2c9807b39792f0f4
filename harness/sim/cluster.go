package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"lockpick/harness"
)

// cluster is the network in the engine's hands.
type cluster struct {
	*network
	clients
	sentinels
	slot slot // of the engine's own events
}

var _ harness.Cluster = (*cluster)(nil)

// StampError is nought: the simulation owns true time.
func (c *cluster) StampError() time.Duration { return 0 }

// TellsLife is true: the simulation's nodes tell what becomes of each key.
func (c *cluster) TellsLife() bool { return true }

// At calls f in a goroutine of its own, at an instant that nothing else has: at
// most some microseconds after t. Nothing is called any more once the run has ended.
func (c *cluster) At(t time.Duration, f func()) {
	c.at(c.slot, int64(t), func() {
		if c.rec != nil {
			go f()
		}
	})
}

// Resource runs one command on the resource, past the network.
func (c *cluster) Resource(_ context.Context, args ...string) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource.node.Do(args...)
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

// coolDown is how long goroutines get to unwind after the run, in virtual time.
const coolDown = time.Minute

// close ends the run: it records what is still open, heals every fault, kills
// every client and waits until what they left behind has gone.
func (c *cluster) close() {
	c.mu.Lock()
	for _, l := range c.links {
		c.record(l, l.open())
	}
	c.rec = nil
	for _, l := range c.links {
		l.mend()
		for _, t := range l.taps {
			t.letGo()
		}
	}
	for _, h := range c.hosts {
		h.kill()
	}
	c.mu.Unlock()
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
