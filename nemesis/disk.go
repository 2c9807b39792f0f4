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
	CleanPowerLoss = "clean" // every record is either complete or missing
	tornPowerLoss  = "torn"  // the first lost record was partly written
)

var powerLossKind = Kind{
	Name:          "power-loss",
	Model:         "disks",
	Doc:           "cuts a node's power: unsynced data is lost; the node is restarted after `for`",
	AllowedFaults: "any, if nodes sync each write before they reply; otherwise the node comes back only after all locks that it granted have expired",
	TargetTypes:   []Target{Node},
	Proof:         history.Proof{Targets: []string{history.TargetNode}, IdleText: "its disk lost 0 records"},
	Modes:         []string{CleanPowerLoss, tornPowerLoss},
	Fields:        []string{"timer"},
	MayForget:     func(w Environment) bool { return !w.SyncsWrites },
	Wording:       Wording{Name: "power loss", BeginText: "{targets} loses its power", EndText: "{targets} starts again", PastPredicate: "lost its power", State: StateDown},
	Action: newAction("power-loss", func(c PowerLoser, f Fault, node string) (string, error) {
		return c.LosePower(node, f.Mode == tornPowerLoss)
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

var slowDiskKind = Kind{
	Name:          "slow-disk",
	Model:         "disks",
	Doc:           "stalls all syncs of a node's disk",
	AllowedFaults: "any: a node waiting for its disk just doesn't answer",
	TargetTypes:   []Target{Node}, CapabilityName: DiskCapability, CheckTopology: needsPersistence("slow-disk"),
	Wording: Wording{Name: "stalled disk", Subject: "the disk of {targets}", BeginText: "the disk of {targets} stalls",
		EndText: "the disk of {targets} syncs again", PastPredicate: "stalled"},
	Action: newAction("slow-disk", func(d DiskFaulter, _ Fault, node string) (string, error) { return d.StallSync(node) }, freeDisk),
}

var fullDiskKind = Kind{
	Name:          "full-disk",
	Model:         "disks",
	Doc:           "fills a node's disk",
	AllowedFaults: "a minority of the nodes if they sync each write, since they exit; otherwise any nodes, since they only reject writes",
	TargetTypes:   []Target{Node}, CapabilityName: DiskCapability, CheckTopology: needsPersistence("full-disk"),
	EndsNode: func(w Environment) bool { return w.SyncsWrites }, // a node that must sync each write exits if it can't
	Wording: Wording{Name: "full disk", Subject: "the disk of {targets}", BeginText: "the disk of {targets} is full",
		EndText: "the disk of {targets} has room again", PastPredicate: "was full"},
	Action: newAction("full-disk", func(d DiskFaulter, _ Fault, node string) (string, error) { return d.FillDisk(node) }, freeDisk),
}

// needsPersistence returns a check that rejects topologies without persistence.
func needsPersistence(kind string) func(Topology) *Problem {
	return func(t Topology) *Problem {
		return problemIf(!t.HasPersistence, "kind", "the "+kind+" fault needs nodes with persistence", "set topology.persistence: everysec, always or no")
	}
}

func freeDisk(d DiskFaulter, _ Fault, node string) (string, error) { return d.FreeDisk(node) }

// Toucher writes a key on a node directly, without using any link.
type Toucher interface {
	Touch(node string) (readBack string, err error)
}

var touchKind = Kind{
	Name:          "touch",
	Doc:           "writes an unrelated key on a node: not a fault, but it shifts the node's next sync",
	AllowedFaults: "any: the lock does not use this key",
	TargetTypes:   []Target{Node},
	Proof:         persistenceProof, IsInstant: true,
	Wording: Wording{Name: "unrelated key", BeginText: "{targets} gets an unrelated key", PastPredicate: "got an unrelated key"},
	Action:  newAction("touch", func(c Toucher, _ Fault, node string) (string, error) { return c.Touch(node) }, nil),
}
