package scenario

import (
	"slices"
	"strings"
	"time"

	"lockpick/harness/lock"
	"lockpick/nemesis"
)

// Locks may be on other servers than Redis: on a store, whose members agree among themselves. What
// a scenario needs of Redis itself they lack.

// Stores lists them. Each is a capability: that a backend can start its members.
func Stores() []string { return lock.Servers() }

// storeNeeds are what members of a store can be hit by as redis-servers can, and their links.
var storeNeeds = []string{
	nemesis.Capability("pause", nemesis.Node), nemesis.Capability("kill", nemesis.Node),
	nemesis.Capability("cut", nemesis.Link), nemesis.Capability("shape", nemesis.Link), nemesis.Capability(nemesis.PowerPackets, nemesis.Link),
	CanSetOwnTime, CanImage, CanBeExact,
}

// needsOn are the needs of Redis's nodes as those of a store's: what its members lack is one, which
// nothing has.
func needsOn(store string, all []string) (needs []string) {
	var lacks []string
	for _, need := range all {
		if slices.Contains(storeNeeds, need) || strings.HasSuffix(need, "-"+string(nemesis.Client)) {
			needs = append(needs, need)
		} else {
			lacks = append(lacks, need)
		}
	}
	if len(lacks) > 0 {
		slices.Sort(lacks)
		needs = append(needs, store+lackSign+strings.Join(lacks, "+"))
	}
	return needs
}

// lockOn is the need of a lock that is on the servers of the topology.
func lockOn(store string) string { return "lock" + lackSign + store }

const lackSign = ":"

// LackOf is why nothing can have a need that comes of the servers that a lock is on; "": it is
// no such need.
func LackOf(need string) string {
	left, right, is := strings.Cut(need, lackSign)
	switch {
	case !is:
		return ""
	case left == "lock" && right == "":
		return "the scenario's servers are Redis, and its lock is not on Redis"
	case left == "lock":
		return "the scenario's servers are " + right + ", and its lock is not on " + right + ": say --adapter with one that is"
	}
	return "the nodes are " + left + ", and there is no " + strings.ReplaceAll(right, "+", ", ") + " but with Redis"
}

// on is the topology with the members of a store, which sync each write.
func (t Topology) on(store string) Topology {
	t.Server, t.Persistence = store, PersistAlways
	return t
}

// agreement is what a store may take, besides a lease's own time, to elect a leader and to find
// what has lapsed.
const agreement = 3 * time.Second

// Settles is how much later than a lock of Redis one of a store may be free: a new leader lets
// leases begin anew, which their documentation says, and lapsed ones are looked for now and then.
func (s Scenario) Settles() time.Duration {
	if s.Topology.Server == "" {
		return 0
	}
	return s.Lock.TTL + agreement
}
