//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"lockpick/harness/real"
	"lockpick/nemesis"
)

var _ nemesis.Unplugger = (*cluster)(nil)

// unheard is how long a node off the network is given to answer: it takes a millisecond
// where it can.
const unheard = 20 * time.Millisecond

// Unplug takes a node off the run's network.
func (c *cluster) Unplug(node string) (string, error) {
	n := c.at(node)
	n.changing.Lock()
	defer n.changing.Unlock()
	switch {
	case !n.Runs():
		return "", fmt.Errorf("unplug %s: it does not run", node)
	case n.unplugged.Load():
		return "", fmt.Errorf("unplug %s: it is unplugged already", node)
	}
	n.spoiled.Store(true)
	n.unplugged.Store(true)
	n.tell(c.Ctx)
	if err := n.engine.API.NetworkDisconnect(c.Ctx, c.site.net.name, n.address.id, false); err != nil {
		return "", fmt.Errorf("unplug %s: %w", node, err)
	}
	ctx, cancel := context.WithTimeout(c.Ctx, unheard)
	defer cancel()
	_, err := n.Ask(ctx, n.At, "PING")
	switch {
	case err == nil:
		return "", fmt.Errorf("unplug %s: PING is still answered", node)
	case errors.Is(err, real.ErrAgentGone) || c.Ctx.Err() != nil:
		return "", fmt.Errorf("unplug %s: %w", node, err)
	}
	return fmt.Sprintf("container %.12s, whose network it has, is off that of the run; PING past the links got no answer within %v", n.address.id, unheard), nil
}

// Plug puts it back, where it was.
func (c *cluster) Plug(node string) (string, error) {
	n := c.at(node)
	n.changing.Lock()
	defer n.changing.Unlock()
	if err := n.engine.Connect(c.Ctx, c.site.net.name, n.address.id, netip.MustParseAddrPort(n.At).Addr()); err != nil {
		return "", fmt.Errorf("plug %s in: %w", node, err)
	}
	n.unplugged.Store(false)
	back, err := n.heard(c.Ctx)
	n.tell(c.Ctx)
	if err != nil {
		return "", fmt.Errorf("plug %s in: %w", node, err)
	}
	return back, nil
}

// heard waits until a node answers again, if it can.
func (n *node) heard(ctx context.Context) (readBack string, err error) {
	began := time.Now()
	limit, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	for {
		switch {
		case !n.Runs():
			return "the node has ended", nil
		case n.Paused():
			return "the node is paused, and answers nobody", nil
		case n.unplugged.Load():
			return "the node is unplugged, and answers nobody", nil
		}
		_, err := n.Hello(limit)
		if err == nil {
			return fmt.Sprintf("PING past the links was answered after %v", time.Since(began).Round(time.Millisecond)), nil
		}
		select {
		case <-limit.Done():
			return "", fmt.Errorf("PING past the links is not answered within %v: %w", readyBound, err)
		case <-n.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}
