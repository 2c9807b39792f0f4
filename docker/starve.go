//go:build linux

package docker

import (
	"fmt"
	"strings"
	"time"

	"lockpick/nemesis"
)

var _ nemesis.Starver = (*cluster)(nil)

// share is what a container may use of its machine.
type share struct {
	quota  time.Duration // of processors in each sharePeriod; 0: no bound
	memory int64         // bytes, with swap; 0: no bound
}

// sharePeriod is what the kernel counts processor time by, unless told otherwise.
const sharePeriod = 100 * time.Millisecond

func (s share) String() string {
	var parts []string
	if s.quota > 0 {
		parts = append(parts, fmt.Sprintf("%v of a processor in each %v", s.quota, sharePeriod))
	}
	if s.memory > 0 {
		parts = append(parts, nemesis.Bytes(int(s.memory))+" of memory")
	}
	return strings.Join(parts, ", ")
}

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
	n.tell(c.ctx)
	want := share{quota: time.Duration(cpu * float64(sharePeriod)).Round(time.Microsecond), memory: int64(memory)}
	if err := n.engine.bound(c.ctx, n.id, want); err != nil {
		return "", fmt.Errorf("starve %s: %w", node, err)
	}
	is, err := n.engine.bounds(c.ctx, n.id)
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
	err := n.engine.unbound(c.ctx, n.id)
	if err != nil && n.ends() {
		err = n.engine.unbound(c.ctx, n.id) // for when it is started again
	}
	if err != nil {
		return "", fmt.Errorf("feed %s: %w", node, err)
	}
	heard, err := n.heard(c.ctx)
	n.starved.Store(false)
	n.tell(c.ctx)
	if err != nil {
		return "", fmt.Errorf("feed %s: %w", node, err)
	}
	met, err := n.engine.usage(c.ctx, n.id)
	if err != nil {
		return "", fmt.Errorf("feed %s: %w", node, err)
	}
	back := met.String() + "; " + heard
	if met.periods > 0 && met.throttled == 0 {
		return back, nemesis.ErrIdle
	}
	return back, nil
}

// ends says whether it is just ending, of which the engine may know before we do.
func (n *node) ends() bool {
	select {
	case <-n.done():
		return true
	case <-time.After(time.Second):
		return false
	}
}

// usage is what a container has met that was bound to a share of its machine.
type usage struct {
	ended              string // how; "": it has not
	periods, throttled uint64 // of sharePeriod; those in which it wanted more
	memory             uint64 // bytes that it uses
}

func (h usage) String() string {
	if h.ended != "" {
		return h.ended
	}
	return fmt.Sprintf("it was throttled in %d of %d periods, and uses %d KB of memory", h.throttled, h.periods, h.memory>>10)
}
