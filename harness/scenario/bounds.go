package scenario

import (
	"fmt"
	"time"

	"lockpick/harness/history"
)

// MaxFile is the largest scenario file that is read. The largest in the
// catalogue has a few kilobytes.
const MaxFile = 1 << 20

// Bounds of what one run can carry, each by itself. The catalogue needs five nodes and
// clients, one key and two writes; check_work.go bounds what comes of several together.
const (
	maxNodes    = 99
	maxClients  = 999
	maxKeys     = 1000
	maxWrites   = 1000
	maxReenter  = 10
	maxCount    = 1_000_000
	maxVariants = 100
)

// The least durations that are told from nothing: in a file what Redis counts in, and
// in what was scaled a thousandth of it.
const (
	fileUnit = time.Millisecond
	runUnit  = time.Microsecond
)

// maxItems bounds a list, and with it the time that reading a hostile file takes.
const maxItems = 1000

// maxDrawn bounds a plan that dice have drawn; no seed of the catalogue draws a tenth.
const maxDrawn = 10_000

// maxScale is the largest factor for durations, and maxDuration the longest
// duration: together far from overflow.
const (
	maxScale    = 100
	maxDuration = 24 * time.Hour
)

// maxLinks bounds those between clients and nodes; the catalogue has 25.
const maxLinks = 10_000

// Bounds lists in words what one run may have at most.
func Bounds() []string {
	return []string{
		fmt.Sprintf("%d nodes", maxNodes), fmt.Sprintf("%d clients", maxClients), fmt.Sprintf("%d links between them", maxLinks),
		fmt.Sprintf("%d keys", maxKeys), fmt.Sprintf("%d writes in a critical section", maxWrites),
		fmt.Sprintf("%d steps in a plan, %d targets in one", maxItems, maxItems),
		fmt.Sprintf("a duration of %v, and of %v at least where it isn't nothing", maxDuration, fileUnit),
		fmt.Sprintf("%d events, and as many writes, extensions and faults that come again", history.MaxEvents),
	}
}

// CheckRecord says which of the bounds a stored history breaks, so that no file takes more
// time and memory than a run does.
func CheckRecord(h *history.History) error {
	clients, keys := map[string]bool{}, map[string]bool{}
	for _, c := range h.Params.Clients {
		clients[c] = true
	}
	processes := map[string]bool{}
	for i := range h.Events {
		e := &h.Events[i]
		processes[e.Process] = true
		if clients[e.Process] && e.Key != "" {
			keys[e.Key] = true
		}
	}
	var longest, reach, targets int
	for _, r := range h.Params.Reach {
		reach = max(reach, len(r.Nodes))
	}
	for _, s := range h.Params.Steps {
		longest, targets = max(longest, len(s.Targets)), targets+len(s.Targets)
	}
	for _, b := range []struct {
		what      string
		got, most int
	}{
		{"clients", len(h.Params.Clients), maxClients},
		{"nodes", len(h.Params.Nodes), maxNodes},
		{"clients that can't reach every node", len(h.Params.Reach), maxClients},
		{"nodes that a client can reach", reach, maxNodes},
		{"links between clients and nodes", len(h.Params.Clients) * len(h.Params.Nodes), maxLinks},
		{"steps in its plan", len(h.Params.Steps), maxDrawn},
		{"targets in a step of its plan", longest, maxLinks},
		{"targets in its plan", targets, history.MaxEvents},
		{"keys that clients lock", len(keys), maxKeys},
		{"processes", len(processes), maxProcesses},
	} {
		if b.got > b.most {
			return fmt.Errorf("it has %d %s, and a run has at most %d", b.got, b.what, b.most)
		}
	}
	return nil
}

// maxProcesses bounds those that a record names: links, clients, nodes with their replicas,
// and the few that every run has.
const maxProcesses = maxLinks + maxClients + 3*maxNodes + 100
