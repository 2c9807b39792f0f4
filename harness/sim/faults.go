package sim

import (
	"fmt"
	"io"
	"syscall"

	"lockpick/nemesis"
)

var (
	_ nemesis.Killer    = (*cluster)(nil)
	_ nemesis.Restarter = (*cluster)(nil)
	_ nemesis.Shutter   = (*cluster)(nil)
)

// Kill kills a client for good, or a node's process.
func (c *cluster) Kill(target string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.host(target); h != nil {
		if over := h.over(); over != nil {
			return "", fmt.Errorf("kill %s: %w", target, over)
		}
		return fmt.Sprintf("%s was killed, its kernel closes %d connections", target, h.kill()), nil
	}
	s, err := c.up("kill", target, "it is down already")
	if err != nil {
		return "", err
	}
	before := s.identity()
	s.end(syscall.ECONNRESET)
	return fmt.Sprintf("%s was killed; PING: %s", before, s.ping()), nil
}

// Restart starts a killed node.
func (c *cluster) Restart(target string) (string, error) {
	c.inTurn(target)
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	switch {
	case err != nil:
		return "", fmt.Errorf("restart %s: %w", target, err)
	case s.node != nil:
		return "", fmt.Errorf("restart %s: it is up", target)
	}
	before := s.runID
	s.start()
	return fmt.Sprintf("was run_id %.8s, now %s; PING: %s", before, s.identity(), s.ping()), nil
}

// Shutdown ends a node in good order: what it wrote is on its disk.
func (c *cluster) Shutdown(target string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.up("shut down", target, "it is down already")
	switch {
	case err != nil:
		return "", err
	case s.paused || s.disk != nil && s.disk.Stalled:
		return "", fmt.Errorf("shut down %s: it does not answer", target)
	}
	before := s.identity()
	s.node.Shutdown()
	s.end(io.EOF)
	return fmt.Sprintf("%s was shut down; PING: %s", before, s.ping()), nil
}
