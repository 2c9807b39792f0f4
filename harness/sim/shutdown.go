package sim

import (
	"fmt"
	"io"

	"lockpick/nemesis"
)

var _ nemesis.Shutter = (*cluster)(nil)

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
