//go:build linux

package process

import (
	"fmt"

	"lockpick/nemesis"
)

var _ nemesis.Shutter = (*cluster)(nil)

// Shutdown ends a node as an operator does.
func (c *cluster) Shutdown(node string) (string, error) {
	n := c.Server(node)
	if n == nil {
		return "", fmt.Errorf("shut %s down: no such node", node)
	}
	return c.ends(node, true, func() (string, error) { return n.Shutdown(c.ctx) })
}
