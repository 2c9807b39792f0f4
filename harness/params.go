package harness

import (
	"time"

	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Liveness figures that are the same for every scenario.
const (
	clockRate = 0.0005                 // ρ: what a healthy quartz and its NTP daemon stay within
	slack     = 250 * time.Millisecond // what scheduling may add on a busy machine
	rounds    = 10                     // k: a group that loses as many in a row to split votes has no luck but a bad lock
)

// paramsOf is what the record says of a run before it begins.
func paramsOf(s scenario.Scenario, seed uint64, backend string, on Cluster) history.Params {
	p := history.Params{
		Schema: history.Schema, Scenario: s.Name, Variant: s.Variant, Backend: backend, Seed: seed,
		Clients: s.ClientNames(), Nodes: s.NodeNames(), Resource: scenario.ResourceName, Quorum: s.Quorum(),
		Lock: s.Lock.Kind, TTL: s.Lock.TTL, Drift: time.Duration(s.Lock.Drift*float64(s.Lock.TTL)) + 2*time.Millisecond,
		NodeTimeout: s.Lock.Timeout, RetryMin: s.Lock.RetryMin, RetryMax: s.Lock.RetryMax,
		Rate: clockRate, StampError: on.StampError(), Slack: slack + s.Settles(), Rounds: rounds,
		Untold: s.Lock.Untold, Fence: s.Workload.Fence, Limit: s.Limit, MaxExtends: s.Limits.Extensions, MaxHold: s.Limits.Hold, MayBeIdle: s.Vacuous, Persistence: s.Topology.Persistence,
	}
	if c, ok := on.(stocked); ok {
		p.Server = c.Stock()
	}
	if c, ok := on.(telling); ok {
		p.Life, p.Epoch = c.TellsLife(), c.Epoch()
	}
	for i, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		p.Steps = append(p.Steps, history.PlannedStep{Step: i + 1, Fault: st.Fault.Kind, Targets: s.Targets(st),
			When: st.When.String(), Every: st.When.Event != nil && st.When.Event.Every, Delay: st.Fault.Delay.Max, By: st.Fault.By, Rate: kind.RateOf(st.Fault),
			Costs: kind.Costs, Optional: st.Drawn || st.When.Before > 0})
		if !st.Drawn && st.When.Before == 0 {
			p.Steps[i].Proof = kind.ProofOf(s.Topology.Persistence)
		}
	}
	for _, c := range s.Clients {
		if c.Reach != nil {
			p.Reach = append(p.Reach, history.Reach{Client: c.Name, Nodes: c.Reach})
		}
	}
	return p
}
