//go:build linux

package docker

import (
	"errors"
	"fmt"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/server"
	"lockpick/nemesis"
)

// Those over links and messages are network.Remote's.
var (
	_ nemesis.Pauser    = (*cluster)(nil)
	_ nemesis.Killer    = (*cluster)(nil)
	_ nemesis.Restarter = (*cluster)(nil)
	_ nemesis.Shutter   = (*cluster)(nil)
	_ nemesis.Cutter    = (*cluster)(nil)
	_ nemesis.Shaper    = (*cluster)(nil)
	_ nemesis.Tapper    = (*cluster)(nil)
)

// Pause freezes the container of a client or a node.
func (c *cluster) Pause(target string) (string, error) {
	if n := c.Nodes.Server(target); n != nil {
		defer c.quiet(target)()
		return n.Pause(c.ctx)
	}
	p := c.player(target)
	if p == nil {
		return "", fmt.Errorf("pause %s: no such node or client runs: %w", target, nemesis.ErrEnded)
	}
	back, err := p.Pause(c.ctx)
	return back, overIfEnded("pause", target, err)
}

// quiet waits until a node is not just being started or ended, and keeps it from that
// until done is called, which tells the links how it is.
func (c *cluster) quiet(node string) (done func()) {
	n := c.at(node)
	n.changing.Lock()
	return func() {
		n.changing.Unlock()
		n.tell(c.ctx)
	}
}

// Resume lets it go on. There is nothing to do for one that was killed meanwhile.
func (c *cluster) Resume(target string) (string, error) {
	if n := c.Nodes.Server(target); n != nil {
		back, err := n.Resume(c.ctx)
		n.tell(c.ctx)
		return back, err
	}
	p := c.player(target)
	if p == nil {
		return "it has ended", nil
	}
	return p.Resume(c.ctx)
}

// Kill ends a client or a node by SIGKILL.
func (c *cluster) Kill(target string) (string, error) {
	if n := c.Nodes.Server(target); n != nil {
		return c.ends(target, false, func() (string, error) { return n.kill(c.ctx) })
	}
	p := c.player(target)
	if p == nil && c.over(target) {
		return "", fmt.Errorf("kill %s: %w", target, nemesis.ErrEnded)
	}
	if p == nil {
		return "", fmt.Errorf("kill %s: no such node or client runs", target)
	}
	p.killed.Store(true)
	back, err := p.box.Kill(c.ctx)
	if errors.Is(err, proc.ErrEnded) {
		p.killed.Store(false)
	}
	return back, overIfEnded("kill", target, err)
}

// Shutdown ends a node as an operator does.
func (c *cluster) Shutdown(node string) (string, error) {
	n := c.Nodes.Server(node)
	if n == nil {
		return "", fmt.Errorf("shut %s down: no such node", node)
	}
	return c.ends(node, true, func() (string, error) { return n.shutdown(c.ctx) })
}

// Restart starts a node again that is down.
func (c *cluster) Restart(node string) (string, error) {
	n := c.Nodes.Server(node)
	if n == nil {
		return "", fmt.Errorf("restart %s: no such node", node)
	}
	if n.unplugged.Load() {
		return "", fmt.Errorf("restart %s: it is unplugged, and nobody would see whether it is back", node)
	}
	open, err := c.gate(node)
	if err != nil {
		return "", fmt.Errorf("restart %s: %w", node, err)
	}
	defer c.clocks.Of(n.Name).Starts()()
	back, err := n.restart(c.ctx)
	if errors.Is(err, server.ErrWontStart) && c.Of(node) != nil { // as becomes of nodes whose disk has lost something
		back, err = "it did not come back: "+err.Error(), nil
	}
	if err == nil {
		c.Again(c.ctx, node, n.At, history.Restart)
		var shown string
		shown, err = c.clocks.Again(node)
		back += shown
	}
	return back, errors.Join(err, open())
}

// overIfEnded says in the nemesis's words that a client had ended already.
func overIfEnded(verb, client string, err error) error {
	if errors.Is(err, proc.ErrEnded) {
		return fmt.Errorf("%s %s: %w", verb, client, nemesis.ErrEnded)
	}
	return err
}
