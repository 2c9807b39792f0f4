//go:build linux

package process

import (
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real/proc"
)

// Guard tells what becomes of the run's processes that the plan does not ask for. Names are
// those that the processes have had from the start: a replica that serves a node now is
// called as before.
func (c *cluster) Guard(tell func(harness.Unplanned)) (over func()) {
	return c.group.Listen(func(x proc.Unasked) {
		u := harness.Unplanned{Op: "kill", Node: x.Child, Cause: x.Cause}
		switch {
		case x.What == proc.Ended && x.Status > 0 && c.harmed(x.Child):
			return // which is what becomes of servers whose disk is hit
		case x.Paused:
			u.Op = history.OpGoOn
		case x.What != proc.Ended:
			u.Op, u.Over = "pause", x.What == proc.WentOn
		}
		tell(u)
	})
}

// harmed says whether a fault has hit a node's disk.
func (c *cluster) harmed(node string) bool {
	d := c.Of(node)
	return d != nil && d.Harmed()
}
