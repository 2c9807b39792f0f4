// Package harness is the engine: it interprets a scenario on a Cluster and
// records a history.
//
// A Backend makes a Cluster and calls the engine with it; Run joins the two. What lies
// around it:
//
//	scenario/  one experiment as plain data, and the YAML file that it is written in
//	history/   the facts: Event, Params, the recorder and the reader
//	resp/      lock commands read off the wire
//	lock/      what a lock under test gets and offers; lock/kinds is the table of locks
//	client/    the program that one contender runs, and the protected resource
//	sim/       backend: virtual time, simulated network and Redis nodes, deterministic
//	process/   backend: real redis-servers, clients as subprocesses
//	real/      what real backends share: child processes, links
//
// The engine looks at the time only through Cluster.Now and Cluster.At, so that
// the same code runs in virtual and in real time.
//
// A fault lasts as long as planned from when it is in force, which may be late. So
// that those of a plan hit a target in their order all the same, one that by the plan
// begins after another's end waits for that end, and its invoke event is of then. One
// that by the plan begins while another is in force does not wait.
//
// What nobody planned is recorded as well: where a real machine stood still by itself
// (stall.go), and what somebody else did to a process of the run (unplanned.go).
//
// Deliberately missing: any backend, any checker, any report, any file. The engine knows
// what was planned and what happened, not what it means.
package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Run runs a scenario once on a backend and records what happens. An error means
// that the backend or a client program could not do its part; the record then
// holds what was seen so far.
func Run(ctx context.Context, b Backend, s scenario.Scenario, seed uint64, rec *history.Recorder) error {
	return RunUntil(ctx, b, s, seed, rec, nil)
}

// RunUntil is Run that ends early where until says so; nil never does.
func RunUntil(ctx context.Context, b Backend, s scenario.Scenario, seed uint64, rec *history.Recorder, until Until) error {
	s = s.Drawn(seed)
	var e *engine
	err := b.Run(ctx, s, seed, rec, func(ctx context.Context, c Cluster) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		e = &engine{s: s, seed: seed, cluster: c, rec: rec, applied: map[string]int64{}, points: map[string][]int{},
			firing: newFiring(), queues: newQueues(), nests: map[string]*nested{}, gone: map[string]bool{}, until: until, halted: make(chan struct{})}
		rec.Watch(e.see)
		params := e.params(b.Name())
		e.record(history.Event{Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: &params})
		return e.run(ctx)
	})
	if e != nil {
		e.end(err)
	}
	if err != nil {
		err = fmt.Errorf("run %s on %s with seed %d: %w", s.ID(), b.Name(), seed, err)
	}
	return errors.Join(err, rec.Err())
}

// liveness figures that are the same for every scenario.
const (
	clockRate = 0.0005                 // ρ: what a healthy quartz and its NTP daemon stay within
	slack     = 250 * time.Millisecond // what scheduling may add on a busy machine
	rounds    = 10                     // k: a group that loses as many in a row to split votes has no luck but a bad lock
)

func (e *engine) params(backend string) history.Params {
	s := e.s
	p := history.Params{
		Schema: history.Schema, Scenario: s.Name, Variant: s.Variant, Backend: backend, Seed: e.seed,
		Clients: s.ClientNames(), Nodes: s.NodeNames(), Resource: scenario.ResourceName, Quorum: s.Quorum(),
		Lock: s.Lock.Kind, TTL: s.Lock.TTL, Drift: time.Duration(s.Lock.Drift*float64(s.Lock.TTL)) + 2*time.Millisecond,
		NodeTimeout: s.Lock.Timeout, RetryMin: s.Lock.RetryMin, RetryMax: s.Lock.RetryMax,
		Rate: clockRate, StampError: e.cluster.StampError(), Slack: slack, Rounds: rounds,
		Fence: s.Workload.Fence, Limit: s.Limit, MaxExtends: s.Limits.Extensions, MaxHold: s.Limits.Hold, MayBeIdle: s.Vacuous, Persistence: s.Topology.Persistence,
	}
	if c, ok := e.cluster.(stocked); ok {
		p.Server = c.Server()
	}
	if c, ok := e.cluster.(telling); ok {
		p.Life, p.Epoch = c.TellsLife(), c.Epoch()
	}
	for i, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		p.Steps = append(p.Steps, history.PlannedStep{Step: i + 1, Fault: st.Fault.Kind, Targets: s.Targets(st),
			When: st.When.String(), Every: st.When.Event != nil && st.When.Event.Every, Delay: st.Fault.Delay.Max, By: st.Fault.By, Rate: kind.RateOf(st.Fault),
			Optional: st.Drawn || st.When.Before > 0})
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
