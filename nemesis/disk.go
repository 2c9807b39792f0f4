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
	powerTorn  = "torn"  // the first record that was lost is there in part
)

var powerLoss = Kind{
	Name:    "power-loss",
	Model:   "disks",
	Doc:     "cuts a node's power: what it had not synced is lost; it starts again after `for`",
	Within:  "any where nodes sync each write before they answer; otherwise the node comes back after all that it granted has lapsed",
	On:      []Target{Node},
	Proof:   history.Proof{Use: []string{history.UseNode}, Idle: "its disk lost 0 records"},
	Modes:   []string{PowerClean, powerTorn},
	Takes:   []string{"timer"},
	Forgets: func(w World) bool { return !w.Durable },
	Told:    Told{Name: "power loss", Began: "{targets} loses its power", Ended: "{targets} starts again", Was: "lost its power", State: Down},
	Act: by("power-loss", func(c PowerLoser, f Fault, node string) (string, error) {
		return c.LosePower(node, f.Mode == powerTorn)
	}, nil).but(restarts),
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
	Model:  "disks",
	Doc:    "lets no sync of a node's disk come back while it lasts",
	Within: "any: a node that waits for its disk only fails to answer",
	On:     []Target{Node}, Power: PowerDisk, Ground: onDisk("slow-disk"),
	Told: Told{Name: "disk that stalls", Whom: "the disk of {targets}", Began: "the disk of {targets} stalls",
		Ended: "the disk of {targets} syncs again", Was: "stalled"},
	Act: by("slow-disk", func(d Disker, _ Fault, node string) (string, error) { return d.StallSync(node) }, freeDisk),
}

var fullDisk = Kind{
	Name:   "full-disk",
	Model:  "disks",
	Doc:    "leaves no room on a node's disk while it lasts",
	Within: "any of a minority where nodes sync each write, for of that they end; any otherwise, for they refuse to write",
	On:     []Target{Node}, Power: PowerDisk, Ground: onDisk("full-disk"),
	Ends: func(w World) bool { return w.Durable }, // who must sync each write and can't
	Told: Told{Name: "full disk", Whom: "the disk of {targets}", Began: "the disk of {targets} is full",
		Ended: "the disk of {targets} has room again", Was: "was full"},
	Act: by("full-disk", func(d Disker, _ Fault, node string) (string, error) { return d.FillDisk(node) }, freeDisk),
}

// onDisk objects to nodes that keep nothing on a disk.
func onDisk(kind string) func(Topology) *Objection {
	return func(t Topology) *Objection {
		return objection(!t.Persists, "kind", "a "+kind+" needs nodes that persist", "set topology.persistence: everysec, always or no")
	}
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
	Proof:  keeps, Momentary: true,
	Told: Told{Name: "another key", Began: "{targets} gets another key", Was: "got another key"},
	Act:  by("touch", func(c Toucher, _ Fault, node string) (string, error) { return c.Touch(node) }, nil),
}
