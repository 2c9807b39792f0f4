package nemesis

import "lockpick/harness/history"

// PowerLoser cuts a node's power: its process is gone, and so is all that its disk
// was not asked to sync. Torn leaves the last record half written. A Restarter
// brings it back, which may fail: a node that can't read its disk stays away.
type PowerLoser interface {
	LosePower(node string, torn bool) (readBack string, err error)
}

// Modes of a power loss.
const (
	PowerClean = "clean" // each record is there or is not
	PowerTorn  = "torn"  // the first record that was lost is there in part
)

var powerLoss = Kind{
	Name:   "power-loss",
	Doc:    "cuts a node's power: what it had not synced is lost; it starts again after `for`",
	Within: "any where nodes sync each write before they answer; otherwise the node comes back after all that it granted has lapsed",
	On:     []Target{Node},
	Proof:  history.Proof{Use: []string{history.UseNode}, Idle: "its disk lost 0 records"},
	Modes:  []string{PowerClean, PowerTorn},
	Takes:  []string{"timer"},
	Inject: restarts(by("power-loss", func(c PowerLoser, f Fault, node string) (string, error) {
		return c.LosePower(node, f.Mode == PowerTorn)
	}, nil)),
}

// Disker makes a node's disk slow or full.
type Disker interface {
	// StallSync lets no sync of the node's disk come back until FreeDisk.
	StallSync(node string) (readBack string, err error)
	// FillDisk lets every write to the node's disk fail for want of room.
	FillDisk(node string) (readBack string, err error)
	// FreeDisk ends both, and reads back how many syncs and writes of the node they
	// met. If none, the error is ErrIdle.
	FreeDisk(node string) (readBack string, err error)
}

var slowDisk = Kind{
	Name:   "slow-disk",
	Doc:    "lets no sync of a node's disk come back while it lasts",
	Within: "any: a node that waits for its disk only fails to answer",
	On:     []Target{Node}, Power: PowerDisk,
	Inject: by("slow-disk", func(d Disker, _ Fault, node string) (string, error) { return d.StallSync(node) }, freeDisk),
}

var fullDisk = Kind{
	Name:   "full-disk",
	Doc:    "leaves no room on a node's disk while it lasts",
	Within: "any of a minority where nodes sync each write, for of that they end; any otherwise, for they refuse to write",
	On:     []Target{Node}, Power: PowerDisk,
	Inject: by("full-disk", func(d Disker, _ Fault, node string) (string, error) { return d.FillDisk(node) }, freeDisk),
}

func freeDisk(d Disker, _ Fault, node string) (string, error) { return d.FreeDisk(node) }

// Toucher writes a key of its own on a node, past all links.
type Toucher interface {
	Touch(node string) (readBack string, err error)
}

var touch = Kind{
	Name:   "touch",
	Doc:    "writes another key on a node: no fault, but it moves the node's next sync",
	Within: "any: a lock has its own keys",
	On:     []Target{Node},
	Proof:  keeps,
	Inject: by("touch", func(c Toucher, _ Fault, node string) (string, error) { return c.Touch(node) }, nil),
}
