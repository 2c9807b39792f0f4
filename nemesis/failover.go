package nemesis

import "lockpick/harness/history"

// FailOverer kills a node's master and promotes its asynchronous replica, which takes over the
// master's address with the data replicated so far. It reads back which process now answers and how
// many keys that process has.
type FailOverer interface {
	FailOver(node string) (readBack string, err error)
}

// SentinelFailOverer leaves the promotion to the node's sentinels.
type SentinelFailOverer interface {
	// FailOverBySentinel kills a node's master, or stops it if stop is set. It returns when the
	// sentinels have promoted the replica and the replica confirms this, or returns an error if
	// they do not promote it.
	FailOverBySentinel(node string, stop bool) (readBack string, err error)
	// ReturnMaster brings the old master back. It reads back how many keys the old master has
	// before and after it starts to follow the new one.
	ReturnMaster(node string) (readBack string, err error)
}

// Modes of a failover.
const (
	manualFailover             = "by-hand"        // the master is killed, and the replica is promoted at once
	SentinelFailoverAfterKill  = "sentinel-kill"  // the master is killed, and its sentinels detect it
	SentinelFailoverAfterPause = "sentinel-pause" // the master is stopped, and still considers itself the master when it resumes
)

// SentinelCapability is the base name of the capability that failovers by sentinels need.
const SentinelCapability = "sentinel"

var failoverKind = Kind{
	Name:  "failover",
	Model: "failovers",
	Doc: "kills a node's master and promotes its asynchronous replica, or pauses or kills it and leaves the failover to its sentinels; " +
		"after `for` the old master comes back and follows the new one; needs topology.replicas",
	TargetTypes:       []Target{Node},
	Proof:             nodeUseProof,
	Modes:             []string{manualFailover, SentinelFailoverAfterKill, SentinelFailoverAfterPause},
	ModeActions:       map[string]mode{SentinelFailoverAfterKill: sentinelMode, SentinelFailoverAfterPause: sentinelMode},
	IsInstant:         true,
	ExtraCapabilities: []string{Capability("cut", Link)}, // cutting a replica's link makes it lag
	CheckTopology: func(t Topology) *Problem {
		return problemIf(t.Replicas == 0, "kind", "a failover needs replicas", "set topology.replicas: 1")
	},
	CheckFault: func(f Fault) *Problem {
		return problemIf(f.Mode == manualFailover && f.hasEnd(), "kind", "a master that was replaced by hand does not come back",
			"remove for and until, or use mode sentinel-kill or sentinel-pause")
	},
	Wording: Wording{Name: "failover to the replica", BeginText: "{targets} fails over to its replica{saw}", PastPredicate: "failed over to its replica{saw}",
		EndText: "the old master of {targets} is back, and follows the new one", ReturnText: "its old master was back"},
	Action: newAction("failover", func(c FailOverer, _ Fault, node string) (string, error) { return c.FailOver(node) }, nil),
}

var sentinelMode = mode{Capability(SentinelCapability, Node), newAction("fail over by sentinels",
	func(c SentinelFailOverer, f Fault, node string) (string, error) {
		return c.FailOverBySentinel(node, f.Mode == SentinelFailoverAfterPause)
	},
	func(c SentinelFailOverer, _ Fault, node string) (string, error) { return c.ReturnMaster(node) }).adjust(endOnlyIfPlanned)}

// Replica names the replica's end of a node's replication link, as in "n3-replica".
const Replica = history.Replica
