package nemesis

import "lockpick/harness/history"

// PowerLoser cuts a node's power. Its process ends, and data not synced to its disk is lost. If
// torn is set, the last record on the disk is only half written. A Restarter brings the node back
// if the node can read its disk.
type PowerLoser interface {
	LosePower(node string, torn bool) (readBack string, err error)
}

// Modes of a power loss.
const (
	PowerClean = "clean" // every record is either complete or missing
	powerTorn  = "torn"  // the first lost record was partly written
)

var powerLoss = Kind{
	Name:      "power-loss",
	Model:     "disks",
	Doc:       "cuts a node's power: unsynced data is lost; the node is restarted after `for`",
	Allowed:   "any, if nodes sync each write before they reply; otherwise the node comes back only after all locks that it granted have expired",
	On:        []Target{Node},
	Proof:     history.Proof{Use: []string{history.UseNode}, IdleText: "its disk lost 0 records"},
	Modes:     []string{PowerClean, powerTorn},
	Fields:    []string{"timer"},
	MayForget: func(w Environment) bool { return !w.Durable },
	Wording:   Wording{Name: "power loss", Began: "{targets} loses its power", Ended: "{targets} starts again", Past: "lost its power", State: Down},
	Action: newAction("power-loss", func(c PowerLoser, f Fault, node string) (string, error) {
		return c.LosePower(node, f.Mode == powerTorn)
	}, nil).adjust(healByRestart),
}

// DiskFaulter stalls or fills a node's disk.
type DiskFaulter interface {
	// StallSync stalls all syncs of the node's disk until FreeDisk is called.
	StallSync(node string) (readBack string, err error)
	// FillDisk makes every write to the node's disk fail because the disk is full.
	FillDisk(node string) (readBack string, err error)
	// FreeDisk ends both faults and reads back how many of the node's syncs and writes they
	// affected. If they affected none, the error is ErrIdle.
	FreeDisk(node string) (readBack string, err error)
}

var slowDisk = Kind{
	Name:    "slow-disk",
	Model:   "disks",
	Doc:     "stalls all syncs of a node's disk",
	Allowed: "any: a node waiting for its disk just doesn't answer",
	On:      []Target{Node}, Power: PowerDisk, CheckTopology: needsPersistence("slow-disk"),
	Wording: Wording{Name: "stalled disk", Subject: "the disk of {targets}", Began: "the disk of {targets} stalls",
		Ended: "the disk of {targets} syncs again", Past: "stalled"},
	Action: newAction("slow-disk", func(d DiskFaulter, _ Fault, node string) (string, error) { return d.StallSync(node) }, freeDisk),
}

var fullDisk = Kind{
	Name:    "full-disk",
	Model:   "disks",
	Doc:     "fills a node's disk",
	Allowed: "a minority of the nodes if they sync each write, since they exit; otherwise any nodes, since they only reject writes",
	On:      []Target{Node}, Power: PowerDisk, CheckTopology: needsPersistence("full-disk"),
	EndsNode: func(w Environment) bool { return w.Durable }, // a node that must sync each write exits if it can't
	Wording: Wording{Name: "full disk", Subject: "the disk of {targets}", Began: "the disk of {targets} is full",
		Ended: "the disk of {targets} has room again", Past: "was full"},
	Action: newAction("full-disk", func(d DiskFaulter, _ Fault, node string) (string, error) { return d.FillDisk(node) }, freeDisk),
}

// needsPersistence returns a check that rejects topologies without persistence.
func needsPersistence(kind string) func(Topology) *Problem {
	return func(t Topology) *Problem {
		return problemIf(!t.Persists, "kind", "the "+kind+" fault needs nodes with persistence", "set topology.persistence: everysec, always or no")
	}
}

func freeDisk(d DiskFaulter, _ Fault, node string) (string, error) { return d.FreeDisk(node) }

// Toucher writes a key on a node directly, without using any link.
type Toucher interface {
	Touch(node string) (readBack string, err error)
}

var touch = Kind{
	Name:    "touch",
	Doc:     "writes an unrelated key on a node: not a fault, but it shifts the node's next sync",
	Allowed: "any: the lock does not use this key",
	On:      []Target{Node},
	Proof:   persistenceProof, Instant: true,
	Wording: Wording{Name: "unrelated key", Began: "{targets} gets an unrelated key", Past: "got an unrelated key"},
	Action:  newAction("touch", func(c Toucher, _ Fault, node string) (string, error) { return c.Touch(node) }, nil),
}
