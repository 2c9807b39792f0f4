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
	w := nemesis.World{
		Clients: s.steady(), Begin: s.begin(), Nodes: s.NodeNames(), Resource: ResourceName, Linked: s.linked,
		Limit: s.Limit, TTL: s.Lock.TTL, Margin: s.margin(),
		Persists: s.Topology.Persistence != PersistNone, Durable: s.Topology.Persistence == PersistAlways,
		Dice: func(names ...string) uint64 { return client.Random(seed, append([]string{"plan"}, names...)...) },
	}
	s.Plan = s.Random.Draw(w)
	s.Random = nil
	return s
}

// margin is what the lock allows clocks to differ by in a TTL, without the 2 ms
// that Redis' expiry takes up.
func (s Scenario) margin() time.Duration { return time.Duration(s.Lock.Drift * float64(s.Lock.TTL)) }

// latestStart is the share of the limit in which a client has to have started to be
// drawn as a target.
const latestStart = 0.1

// isSteady says whether a client runs from an early time on, and works to the end.
func (s Scenario) isSteady(c Client) bool {
	return c.Start == nil && c.Delay <= time.Duration(latestStart*float64(s.Limit)) && c.Cycles == nil
}

// steady are the clients that are drawn as targets, and begin is when they run.
func (s Scenario) steady() []string {
	var out []string
	for _, c := range s.Clients {
		if s.isSteady(c) {
			out = append(out, c.Name)
		}
	}
	return out
}

func (s Scenario) begin() time.Duration {
	var latest time.Duration
	for _, c := range s.Clients {
		if s.isSteady(c) {
			latest = max(latest, c.Delay)
		}
	}
	return latest
}

func (s Scenario) linked(name, node string) bool {
	i := slices.IndexFunc(s.Clients, func(c Client) bool { return c.Name == name })
	return i >= 0 && (s.Clients[i].Reach == nil || slices.Contains(s.Clients[i].Reach, node))
}
