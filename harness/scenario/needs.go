package scenario

import (
	"slices"

	"lockpick/harness/lock"
	"lockpick/nemesis"
)

// Capabilities that a scenario needs besides those of its plan.
const (
	CanReplicate       = "replicas"
	CanPersist         = "persistence"
	CanBeExact         = "exact-instants"
	CanExpireMonotonic = "monotonic-expiry" // no Redis does
	CanImage           = "image"            // nodes that run a named image, and so are containers
	CanTellLife        = "life"             // nodes tell of each key's life, which no scenario needs: see history.Life
	CanSetOwnTime      = "set-own-time"     // the clock of a client whose lock reads package time itself
)

// Capabilities lists all that a backend may have, besides CanRun: those of
// topologies, and of each fault on each sort of target.
func Capabilities() []string {
	all := []string{CanPersist, CanReplicate, CanImage, CanExpireMonotonic, CanSetOwnTime, CanBeExact}
	all = append(all, Stores()...)
	faults, _ := nemesis.Capabilities(nil)
	return append(all, faults...)
}

// NeedsOf is Needs for a lock of that kind.
func (s Scenario) NeedsOf(k lock.Kind) []string {
	needs := s.Needs()
	if k.OwnTime && setsClient(s) {
		needs = append(needs, CanSetOwnTime)
	}
	if k.Server != s.Topology.Server {
		needs = append(needs, lockOn(s.Topology.Server))
	}
	slices.Sort(needs)
	return needs
}

// setsClient says whether the plan may set a client's clock, rather than let it run
// fast or slow.
func setsClient(s Scenario) bool {
	if s.Random != nil && slices.ContainsFunc(s.Random.Choices(), func(c nemesis.Choice) bool { return c.Kind.Sets && c.On == nemesis.Client }) {
		return true
	}
	return slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		return kind.Sets && slices.ContainsFunc(st.Fault.Targets, func(t string) bool { return slices.Contains(s.ClientNames(), t) })
	})
}

// Needs lists the capabilities that a cluster must have for the scenario's
// plan, sorted.
func (s Scenario) Needs() []string {
	var out []string
	add := func(c string) {
		if c != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	for _, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		if st.When.Message != nil {
			add(nemesis.Capability(nemesis.Hold, nemesis.Message)) // whatever the fault, the message waits for it
		}
		add(kind.ByMode[st.Fault.Mode].Needs)
		if kind.Hits(nemesis.Message) {
			add(kind.Capability(nemesis.Message))
		}
		for _, t := range st.Fault.Targets {
			switch {
			case kind.Hits(nemesis.Link):
				add(kind.Capability(nemesis.Link))
			case slices.Contains(s.ClientNames(), t):
				add(kind.Capability(nemesis.Client))
			default:
				add(kind.Capability(nemesis.Node))
			}
		}
	}
	if s.Random != nil { // whatever a seed leaves out: the same seeds must run everywhere
		for _, c := range s.Random.Choices() {
			add(c.Kind.Capability(c.On))
			for _, mode := range s.Random.ModesOf(c.Kind) {
				add(c.Kind.ByMode[mode].Needs)
			}
			for _, besides := range c.Kind.Besides {
				add(besides)
			}
			if c.On == nemesis.Message {
				add(nemesis.Capability(nemesis.Hold, nemesis.Message))
			}
		}
	}
	for need, is := range map[string]bool{
		CanReplicate: s.Topology.Replicas > 0, CanPersist: s.Topology.Persistence != PersistNone && s.Topology.Server == "", CanImage: s.Topology.Image != "",
		CanExpireMonotonic: s.Topology.Expiry == ExpiryMonotonic, CanBeExact: s.Exact,
	} {
		if is {
			add(need)
		}
	}
	if store := s.Topology.Server; store != "" {
		out = needsOn(store, out)
		add(store)
	}
	slices.Sort(out)
	return out
}

// ground is the topology as kinds of fault see it.
func (s *Scenario) ground() nemesis.Topology {
	return nemesis.Topology{Replicas: s.Topology.Replicas, Persists: s.Topology.Persistence != PersistNone}
}

// BySentinel lists the nodes that the plan leaves to sentinels to fail over.
func (s Scenario) BySentinel() []string {
	var nodes []string
	for _, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		for _, node := range st.Fault.Targets {
			if kind.ByMode[st.Fault.Mode].Needs == canWatch && !slices.Contains(nodes, node) {
				nodes = append(nodes, node)
			}
		}
	}
	return nodes
}

// canWatch is the capability of clusters that have sentinels.
var canWatch = nemesis.Capability(nemesis.PowerSentinel, nemesis.Node)
