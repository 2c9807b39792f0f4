//go:build linux

package process

import (
	"errors"
	"time"

	"lockpick/harness"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
)

type cluster struct {
	*real.Run
	cfg      Config
	network  *real.Network
	group    *proc.Group
	adapters map[string]*real.AdapterProcess // by client
}

var _ real.Cluster = (*cluster)(nil)

// faultCapabilities has the methods that determine which faults the backend can inject on a
// suitable machine.
var faultCapabilities any = (*cluster)(nil)

// close ends everything that the run has started, and waits until it has ended.
func (c *cluster) close() error {
	c.Stop()
	c.network.StopWatchingKeys() // because the nodes are about to end
	// End the processes first, so that none of them sees its links fail.
	errs := []error{c.group.Close(), c.network.Close()}
	return harness.TimeoutAsInterference(errors.Join(append(errs, c.Wait())...), harness.DuringTeardown)
}

// addr returns the address on which a node or the resource listens, not the address of a link.
func (c *cluster) addr(node string) string {
	if n := c.Server(node); n != nil {
		return n.Addr()
	}
	return c.ResourceServer.Addr()
}

func (c *cluster) isDown(node string) bool {
	n := c.Server(node)
	return n != nil && !n.Running()
}

// isUnresponsive reports whether a node is running but can't answer, even if its links work.
func (c *cluster) isUnresponsive(node string) bool {
	n := c.Server(node)
	return c.IsStalled(node) || n != nil && n.WhyUnresponsive() != ""
}

// StampError returns a generous bound. All stamps are readings of the same clock, but by different
// processes, which may run on different cores.
func (c *cluster) StampError() time.Duration { return time.Millisecond }
