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
	failOverByHand = "by-hand"        // the master is killed, and the replica promoted at once
	FailOverKilled = "sentinel-kill"  // the master is killed, and its sentinels notice
	FailOverPaused = "sentinel-pause" // it is stopped, and believes that it is the master when it goes on
)

// PowerSentinel is what failovers by sentinels need besides.
const PowerSentinel = "sentinel"

var failover = Kind{
	Name:  "failover",
	Model: "failovers",
	Doc: "kills a node's master and promotes its asynchronous replica in its place, or pauses or kills it and leaves the rest to its sentinels; " +
		"`for` is when the old master is back, to follow the new one; needs topology.replicas",
	On:        []Target{Node},
	Proof:     usedNode,
	Modes:     []string{failOverByHand, FailOverKilled, FailOverPaused},
	ByMode:    map[string]mode{FailOverKilled: bySentinels, FailOverPaused: bySentinels},
	Momentary: true,
	Besides:   []string{Capability("cut", Link)}, // a replica that lags was cut off
	Ground: func(t Topology) *Objection {
		return objection(t.Replicas == 0, "kind", "a failover needs replicas", "set topology.replicas: 1")
	},
	Fits: func(f Fault) *Objection {
		return objection(f.Mode == failOverByHand && f.ends(), "kind", "a master that is replaced by hand does not come back",
			"leave for and until out, or use mode sentinel-kill or sentinel-pause")
	},
	Told: Told{Name: "failover to the replica", Began: "{targets} fails over to its replica{saw}", Was: "failed over to its replica{saw}",
		Ended: "the old master of {targets} is back, and follows the new one", Back: "its old master was back"},
	Act: by("failover", func(c FailOverer, _ Fault, node string) (string, error) { return c.FailOver(node) }, nil),
}

var bySentinels = mode{Capability(PowerSentinel, Node), by("fail over by sentinels",
	func(c SentinelFailOverer, f Fault, node string) (string, error) {
		return c.FailOverBySentinel(node, f.Mode == FailOverPaused)
	},
	func(c SentinelFailOverer, _ Fault, node string) (string, error) { return c.ReturnMaster(node) }).but(lasting)}

// Replica is the end of a node's replication link, as in "n3-replica".
const Replica = history.Replica
