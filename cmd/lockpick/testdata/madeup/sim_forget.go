package sim

import "fmt"

// Forget deletes all keys of a node.
func (c *cluster) Forget(node string) (string, error) {
	c.waitTurn(node)
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.runningNode("empty", node, "it is down")
	if err != nil {
		return "", err
	}
	had := s.identity()
	if _, err := s.do("FLUSHALL"); err != nil {
		return "", fmt.Errorf("empty %s: %w", node, err)
	}
	return "was " + had + ", now " + s.identity(), nil
}
