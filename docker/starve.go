//go:build linux

package docker

import (
	"fmt"
	"time"

	"lockpick/docker/engine"
	"lockpick/nemesis"
)

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
