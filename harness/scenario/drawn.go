package scenario

import (
	"slices"
	"time"

	"lockpick/harness/client"
	"lockpick/nemesis"
)

// Drawn returns the scenario with the plan that its dice give for a seed, and
// without dice: what is drawn once stays. A scenario without dice is itself.
func (s Scenario) Drawn(seed uint64) Scenario {
	if s.Random == nil {
		return s
	}
	clients, begin := steady(s)
	linked := func(name, node string) bool {
		return slices.ContainsFunc(s.Clients, func(c Client) bool { return c.Name == name && c.reaches(node) })
	}
	w := nemesis.World{
		Clients: clients, Begin: begin, Nodes: s.NodeNames(), Resource: ResourceName, Linked: linked,
		Limit: s.Limit, TTL: s.Lock.TTL, Margin: margin(s),
		Persists: s.Topology.Persistence != PersistNone, Durable: s.Topology.Persistence == PersistAlways,
		Dice: func(names ...string) uint64 { return client.Random(seed, append([]string{"plan"}, names...)...) },
	}
	s.Plan = s.Random.Draw(w)
	s.Random = nil
	return s
}

// margin is what the lock allows clocks to differ by in a TTL, without the 2 ms
// that Redis' expiry takes up.
func margin(s Scenario) time.Duration { return time.Duration(s.Lock.Drift * float64(s.Lock.TTL)) }

// latestStart is the share of the limit in which a client has to have started to be
// drawn as a target.
const latestStart = 0.1

// steady are the clients that run from an early time on, and work to the end: those that are
// drawn as targets. begin is when they all run.
func steady(s Scenario) (clients []string, begin time.Duration) {
	for _, c := range s.Clients {
		if c.Start == nil && c.Delay <= time.Duration(latestStart*float64(s.Limit)) && c.Cycles == nil {
			clients, begin = append(clients, c.Name), max(begin, c.Delay)
		}
	}
	return clients, begin
}
