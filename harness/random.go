package harness

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
	w := nemesis.World{
		Clients: s.steady(), Nodes: s.NodeNames(), Resource: ResourceName, Linked: s.linked,
		Limit: s.Limit, TTL: s.Lock.TTL, Margin: s.margin(), Durable: s.Topology.Persistence == PersistAlways,
		Dice: func(names ...string) uint64 { return client.Random(seed, append([]string{"plan"}, names...)...) },
	}
	s.Plan = s.Random.Draw(w)
	s.Random = nil
	return s
}

// margin is what the lock allows clocks to differ by in a TTL, without the 2 ms
// that Redis' expiry takes up.
func (s Scenario) margin() time.Duration { return time.Duration(s.Lock.Drift * float64(s.Lock.TTL)) }

// steady are the clients that run from the start on: only they are drawn as targets.
func (s Scenario) steady() []string {
	var out []string
	for _, c := range s.Clients {
		if c.Start == nil && c.Delay == 0 && c.Cycles == nil {
			out = append(out, c.Name)
		}
	}
	return out
}

func (s Scenario) linked(name, node string) bool {
	i := slices.IndexFunc(s.Clients, func(c Client) bool { return c.Name == name })
	return i >= 0 && (s.Clients[i].Reach == nil || slices.Contains(s.Clients[i].Reach, node))
}
