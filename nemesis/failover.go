package nemesis

// FailOverer lets a node's master die and its asynchronous replica take its place
// and address, with what had been replicated by then. It reads back which process
// answers now and how many keys it has.
type FailOverer interface {
	FailOver(node string) (readBack string, err error)
}

var failover = Kind{
	Name: "failover",
	Doc:  "kills a node's master and promotes its asynchronous replica in its place; needs topology.replicas",
	On:   []Target{Node},
	Inject: func(cluster any, _ Fault, target string) (Effect, error) {
		c, ok := cluster.(FailOverer)
		if !ok {
			return Effect{}, missing("failover", cluster)
		}
		back, err := c.FailOver(target)
		return Effect{ReadBack: back}, err
	},
}

// Replica is the end of a node's replication link, as in "n3-replica".
const Replica = "replica"
