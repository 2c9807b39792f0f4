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

// powers is what can inject faults wherever it can run.
var powers any = (*cluster)(nil)

// close ends everything that the run started, and waits for it.
func (c *cluster) close() error {
	c.Stop()
	c.network.Leave() // nodes that are about to end
	// Processes first, so that nobody sees the links end.
	errs := []error{c.group.Close(), c.network.Close()}
	return harness.Late(errors.Join(append(errs, c.Wait())...), harness.PutAway)
}

// addr is where a node, or the resource, listens, past the links.
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

// mute says whether a node is there and can't answer, whatever its links do.
func (c *cluster) mute(node string) bool {
	n := c.Server(node)
	return c.Stalled(node) || n != nil && n.Mute() != ""
}

// StampError is generous: all stamps are readings of one clock, by different
// processes, which may be on different cores.
func (c *cluster) StampError() time.Duration { return time.Millisecond }
