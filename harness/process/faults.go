//go:build linux

package process

import (
	"errors"
	"fmt"

	"lockpick/harness/real/link"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

var (
	_ nemesis.Pauser    = (*cluster)(nil)
	_ nemesis.Killer    = (*cluster)(nil)
	_ nemesis.Restarter = (*cluster)(nil)
	_ nemesis.Tapper    = (*cluster)(nil)
)

// Pause stops a client's process.
func (c *cluster) Pause(target string) (string, error) {
	ch := c.running(target)
	if ch == nil {
		return "", fmt.Errorf("pause %s: no such client runs: %w", target, nemesis.ErrEnded)
	}
	// The first of two ends would let it run while the other pause is in force.
	if ch.paused.Swap(true) {
		return "", fmt.Errorf("pause %s: it is paused already", target)
	}
	back, err := ch.Stop()
	if errors.Is(err, proc.ErrEnded) {
		err = fmt.Errorf("pause %s: %w", target, nemesis.ErrEnded)
	}
	return back, err
}

// Resume lets it go on. There is nothing to do for one that was killed meanwhile.
func (c *cluster) Resume(target string) (string, error) {
	ch := c.running(target)
	if ch == nil {
		return "it has ended", nil
	}
	defer ch.paused.Store(false)
	back, err := ch.Continue()
	if errors.Is(err, proc.ErrEnded) {
		return "it has ended", nil
	}
	return back, err
}

// Kill ends a client or a node by SIGKILL.
func (c *cluster) Kill(target string) (string, error) {
	if node, ok := c.nodes[target]; ok {
		return node.Kill()
	}
	ch := c.running(target)
	if ch == nil {
		return "", fmt.Errorf("kill %s: no such node or client runs", target)
	}
	ch.killed.Store(true)
	if err := ch.Kill(); err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d is gone", ch.PID()), nil
}

// Restart starts a killed node again.
func (c *cluster) Restart(node string) (string, error) {
	n, ok := c.nodes[node]
	if !ok {
		return "", fmt.Errorf("restart %s: no such node", node)
	}
	defer c.mesh.Gate(node)()
	return n.Restart(c.ctx)
}

func (c *cluster) running(client string) *child {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[client]
}

// Tap watches a link for one message.
func (c *cluster) Tap(m nemesis.OnMessage, hit func(nemesis.Held)) error {
	l, err := c.link("tap", m.Link)
	if err != nil {
		return err
	}
	return l.Tap(m, func(held nemesis.Held) { c.run(func() { hit(held) }) })
}

func (c *cluster) link(verb, name string) (*link.Link, error) {
	if l := c.mesh.Link(name); l != nil {
		return l, nil
	}
	if _, ok := c.refused[name]; ok {
		return nil, fmt.Errorf("%s %s: the client can't reach that node, so they have no link", verb, name)
	}
	return nil, fmt.Errorf("%s %s: there is no such link", verb, name)
}
