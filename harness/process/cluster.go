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

// faultCapabilities determines which faults the backend can inject on a suitable machine.
var faultCapabilities any = (*cluster)(nil)

// close ends everything that the run started, and waits for it.
func (c *cluster) close() error {
	c.Stop()
	c.network.StopWatchingKeys() // because the nodes are about to end
	// Processes first, so that none of them sees the links end.
	errs := []error{c.group.Close(), c.network.Close()}
	return harness.TimeoutAsInterference(errors.Join(append(errs, c.Wait())...), harness.DuringTeardown)
}

// addr returns where a node or the resource listens, bypassing the links.
func (c *cluster) addr(node string) string {
	if n := c.Server(node); n != nil {
		return n.Addr()
	}
	return c.Store.Addr()
}

func (c *cluster) down(node string) bool {
	n := c.Server(node)
	return n != nil && !n.Runs()
}

// unresponsive reports whether a node runs but can't answer, whatever its links do.
func (c *cluster) unresponsive(node string) bool {
	n := c.Server(node)
	return c.Stalled(node) || n != nil && n.WhyUnresponsive() != ""
}

// StampError is generous: all stamps are readings of one clock, but by different processes, which
// may be on different cores.
func (c *cluster) StampError() time.Duration { return time.Millisecond }
