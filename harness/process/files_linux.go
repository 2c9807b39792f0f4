package process

import (
	"fmt"
	"os"
	"syscall"

	"lockpick/harness/real/network"
	"lockpick/harness/scenario"
)

// spareFiles is what servers, logs and questions to servers take for a moment.
const spareFiles = 16

// enough sees that this process may have the files open that a run takes at least: for
// each link where it listens, and both ends of one connection; and two pipes for each
// client. A run that begins and finds too few later ends as one that could not be run, too,
// but first starts hundreds of processes.
func enough(s scenario.Scenario) error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("count open files: %w", err)
	}
	var limit syscall.Rlimit // Go has raised it as far as it may
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("count open files: %w", err)
	}
	need := len(open) + spareFiles
	nodes := len(s.NodeNames())
	for _, c := range network.ClientsOf(s) {
		reached := nodes
		if c.Reach != nil {
			reached = len(c.Reach)
		}
		need += nodes + 1 + 2*(reached+1) + 2
	}
	if uint64(need) <= limit.Cur {
		return nil
	}
	return fmt.Errorf("start %d clients with links to %d nodes: that takes %d open files or more, and this process may have %d: %w",
		len(s.Clients), nodes, need, limit.Cur, syscall.EMFILE)
}
