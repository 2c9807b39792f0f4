package nemesis

import "lockpick/harness/history"

// FailOverer lets a node's master die and its asynchronous replica take its place
// and address, with what had been replicated by then. It reads back which process
// answers now and how many keys it has.
type FailOverer interface {
	FailOver(node string) (readBack string, err error)
}

// SentinelFailOverer leaves the promotion to the node's sentinels.
type SentinelFailOverer interface {
	// FailOverBySentinel kills a node's master, or stops it, and returns once its
	// sentinels have promoted the replica and the replica says so itself, or with the
	// error that they have not.
	FailOverBySentinel(node string, stop bool) (readBack string, err error)
	// ReturnMaster brings the old master back, and reads back what it had and what it
	// has once it follows the new one.
	ReturnMaster(node string) (readBack string, err error)
}

// Modes of a failover.
const (
	FailOverByHand = "by-hand"        // the master is killed, and the replica promoted at once
	FailOverKilled = "sentinel-kill"  // the master is killed, and its sentinels notice
	FailOverPaused = "sentinel-pause" // it is stopped, and believes that it is the master when it goes on
)

// PowerSentinel is what failovers by sentinels need besides.
const PowerSentinel = "sentinel"

var failover = Kind{
	Name: "failover",
	Doc: "kills a node's master and promotes its asynchronous replica in its place, or pauses or kills it and leaves the rest to its sentinels; " +
		"`for` is when the old master is back, to follow the new one; needs topology.replicas",
	On:    []Target{Node},
	Proof: usedNode,
	Modes: []string{FailOverByHand, FailOverKilled, FailOverPaused},
	ModeNeeds: map[string]string{
		FailOverKilled: Capability(PowerSentinel, Node),
		FailOverPaused: Capability(PowerSentinel, Node),
	},
	Inject: func(cluster any, f Fault, target string) (Effect, error) {
		if f.Mode == FailOverKilled || f.Mode == FailOverPaused {
			return failOverBySentinel(cluster, f, target)
		}
		return byHand(cluster, f, target)
	},
}

var byHand = by("failover", func(c FailOverer, _ Fault, node string) (string, error) { return c.FailOver(node) }, nil)

func failOverBySentinel(cluster any, f Fault, target string) (Effect, error) {
	c, ok := cluster.(SentinelFailOverer)
	if !ok {
		return Effect{}, missing("fail over by sentinels", cluster)
	}
	back, err := c.FailOverBySentinel(target, f.Mode == FailOverPaused)
	x := Effect{ReadBack: back}
	if f.For != nil || f.Until != nil {
		x.Heal = func() (string, error) { return c.ReturnMaster(target) }
	}
	return x, err
}

// Replica is the end of a node's replication link, as in "n3-replica".
const Replica = history.Replica
