package scenario

import (
	"fmt"
	"time"
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

// MaxEvents bounds the record of one run, which is kept in memory until it is judged
// (a gigabyte or so by then). The longest of the catalogue has 22,609 events.
const MaxEvents = 300_000

// maxLinks bounds those between clients and nodes; the catalogue has 25.
const maxLinks = 10_000

// Bounds lists in words what one run may have at most.
func Bounds() []string {
	return []string{
		fmt.Sprintf("%d nodes", maxNodes), fmt.Sprintf("%d clients", maxClients), fmt.Sprintf("%d links between them", maxLinks),
		fmt.Sprintf("%d keys", maxKeys), fmt.Sprintf("%d writes in a critical section", maxWrites),
		fmt.Sprintf("%d steps in a plan, %d targets in one", maxItems, maxItems),
		fmt.Sprintf("a duration of %v, and of %v at least where it isn't nothing", maxDuration, fileUnit),
		fmt.Sprintf("%d events, and as many writes, extensions and faults that come again", MaxEvents),
	}
}
