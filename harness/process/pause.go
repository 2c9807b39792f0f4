//go:build linux

package process

import (
	"errors"
	"fmt"

	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

var _ nemesis.Pauser = (*cluster)(nil)

// Pause stops a client's process or a node's.
func (c *cluster) Pause(target string) (string, error) {
	if n := c.Server(target); n != nil {
		return n.Stop()
	}
	ch := c.running(target)
	if ch == nil {
		return "", fmt.Errorf("pause %s: no such node or client runs: %w", target, nemesis.ErrEnded)
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
	if n := c.Server(target); n != nil {
		return n.Continue()
	}
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
