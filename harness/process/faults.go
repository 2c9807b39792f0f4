//go:build linux

package process

import (
	"errors"
	"fmt"

	"lockpick/harness/history"
	"lockpick/harness/real/server"
	"lockpick/nemesis"
)

var (
	_ nemesis.Killer    = (*cluster)(nil)
	_ nemesis.Restarter = (*cluster)(nil)
	_ nemesis.Shutter   = (*cluster)(nil)
)

// Kill ends a client or a node by SIGKILL.
func (c *cluster) Kill(target string) (string, error) {
	if n := c.Server(target); n != nil {
		return c.ends(target, false, n.Kill)
	}
	ch := c.running(target)
	if ch == nil && c.over(target) {
		return "", fmt.Errorf("kill %s: %w", target, nemesis.ErrEnded)
	}
	if ch == nil {
		return "", fmt.Errorf("kill %s: no such node or client runs", target)
	}
	select {
	case <-ch.Done():
		return "", fmt.Errorf("kill %s: %w", target, nemesis.ErrEnded)
	default:
	}
	ch.killed.Store(true)
	if err := ch.Kill(); err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d is gone", ch.PID()), nil
}

// Restart starts a node again that is down. One whose disk can lose data or be full
// may not come back, which is what becomes of such nodes, and no error.
func (c *cluster) Restart(node string) (string, error) {
	n := c.Server(node)
	if n == nil {
		return "", fmt.Errorf("restart %s: no such node", node)
	}
	defer c.mesh.Gate(node)()
	defer c.clocks.Of(node).Starts()()
	back, err := n.Restart(c.ctx)
	if errors.Is(err, server.ErrWontStart) && c.Of(node) != nil {
		return "it did not come back: " + err.Error(), nil
	}
	if err != nil {
		return back, err
	}
	c.lives.Again(node, n.Addr(), history.Restart)
	shown, err := c.clocks.Again(node)
	return back + shown, err
}

func (c *cluster) running(client string) *child {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[client]
}

// over reports whether a client ran and runs no more.
func (c *cluster) over(client string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended[client] && c.clients[client] == nil
}

// Shutdown ends a node as an operator does.
func (c *cluster) Shutdown(node string) (string, error) {
	n := c.Server(node)
	if n == nil {
		return "", fmt.Errorf("shut %s down: no such node", node)
	}
	return c.ends(node, true, func() (string, error) { return n.Shutdown(c.ctx) })
}
