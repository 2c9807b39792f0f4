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
	Inject: func(cluster any, f Fault, target string) (Effect, error) {
		c, ok := cluster.(PowerLoser)
		if !ok {
			return Effect{}, missing("power-loss", cluster)
		}
		back, err := c.LosePower(target, f.Mode == PowerTorn)
		return Effect{ReadBack: back, Heal: restart(cluster, f, target)}, err
	},
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

var slowDisk = diskKind("slow-disk", "lets no sync of a node's disk come back while it lasts",
	"any: a node that waits for its disk only fails to answer",
	func(d Disker, node string) (string, error) { return d.StallSync(node) })

var fullDisk = diskKind("full-disk", "leaves no room on a node's disk while it lasts",
	"any of a minority where nodes sync each write, for of that they end; any otherwise, for they refuse to write",
	func(d Disker, node string) (string, error) { return d.FillDisk(node) })

func diskKind(name, doc, within string, harm func(Disker, string) (string, error)) Kind {
	return Kind{
		Name: name, Doc: doc, Within: within, On: []Target{Node}, Power: PowerDisk,
		Inject: func(cluster any, _ Fault, target string) (Effect, error) {
			d, ok := cluster.(Disker)
			if !ok {
				return Effect{}, missing(name, cluster)
			}
			back, err := harm(d, target)
			return Effect{ReadBack: back, Heal: func() (string, error) { return d.FreeDisk(target) }}, err
		},
	}
}

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
	Inject: func(cluster any, _ Fault, target string) (Effect, error) {
		c, ok := cluster.(Toucher)
		if !ok {
			return Effect{}, missing("touch", cluster)
		}
		back, err := c.Touch(target)
		return Effect{ReadBack: back}, err
	},
}
