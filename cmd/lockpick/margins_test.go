package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/checker"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/lock/redlock"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/redlock/redisnode"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

// greedy is a lock that wants to reach four of five nodes where three are enough.
type greedy struct {
	lock.Lock
	env   lock.Env
	nodes lock.Clients[*redis.Client]
}

func newGreedy(env lock.Env) (lock.Lock, error) {
	l, err := redlock.New(env)
	g := &greedy{Lock: l, env: env}
	for _, n := range env.Nodes {
		o := redisnode.Options(n.Addr)
		o.Dialer = env.Dial
		g.nodes = append(g.nodes, redis.NewClient(o))
	}
	return g, err
}

func (g *greedy) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	for {
		h, err := g.Lock.Acquire(ctx, key)
		if err != nil || g.reached(ctx) >= 4 {
			return h, err
		}
		err = h.Release(ctx)
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-g.env.After(100 * time.Millisecond):
		}
	}
}

func (g *greedy) reached(ctx context.Context) (n int) {
	for _, c := range g.nodes {
		ctx, cancel := context.WithTimeout(ctx, g.env.Settings.Timeout)
		if c.Ping(ctx).Err() == nil {
			n++
		}
		cancel()
	}
	return n
}

func (g *greedy) Close() error { return errors.Join(g.nodes.Close(), g.Lock.Close()) }

// scaledRuns are a scenario as the simulation runs it, and as processes do: there, what a machine takes
// in fixed time weighs more.
func scaledRuns(s scenario.Scenario) []scenario.Scenario {
	return []scenario.Scenario{s, s.Scaled(cmp.Or(s.Scale, realScale))}
}

// While a minority is down, a lock that wants more than a majority can't be had.
func TestMinorityDownCatchesALockThatWantsFour(t *testing.T) {
	all := maps.Clone(kinds.All)
	all["greedy"] = lock.Kind{New: newGreedy}
	picked, err := choice{names: []string{"minority-down/"}}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	with, err := picked[0].With("greedy", all["greedy"])
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scaledRuns(with) {
		bound := 10*(s.Lock.Timeout+s.Lock.RetryMax) + time.Second/4
		if down := *s.Plan[0].Fault.For; down <= s.Lock.TTL+bound {
			t.Errorf("two nodes are down for %v, with a TTL of %v and a bound of %v", down, s.Lock.TTL, bound)
		}
		for seed := range uint64(3) {
			o := suite.Execute(t.Context(), sim.New(all), suite.Job{Scenario: s, Seed: seed, Backend: simulation, Keep: suite.KeepNone})
			if j := o.Of(checker.FaultTolerance); j == nil || j.Got != checker.Violated || o.Code != outcome.ExitUnexpected {
				t.Errorf("TTL %v, seed %d: exit %d %s: %v", s.Lock.TTL, seed, o.Code, o.Error, o.Judgements)
			}
		}
	}
}

// Verdicts of fault-tolerance have a margin of two: what violates it does so by twice the bound, what
// is right keeps half of it, and an outage in which the lock is to be had is twice as long.
func TestFaultToleranceHasMargins(t *testing.T) {
	all, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	backend, tried := sim.New(kinds.All), 0
	able := probe(t.Context(), backend)
	for _, p := range all {
		e := p.Expect[checker.FaultTolerance]
		if e.Want == "" || e.Want == outcome.AnyOutcome || e.Implied || len(able.missing(p.Scenario)) > 0 {
			continue
		}
		for _, s := range scaledRuns(p.Scenario) {
			h, v, err := suite.Record(t.Context(), backend, s, 1)
			if err != nil {
				t.Fatal(err)
			}
			tried++
			bound := time.Duration(h.Params.Rounds)*(h.Params.NodeTimeout+h.Params.RetryMax) + h.Params.Slack
			about := fmt.Sprintf("%s with a TTL of %v and a bound of %v", s.ID(), s.Lock.TTL, bound)
			if got := v.Result(checker.FaultTolerance); string(got.Outcome) != e.Want {
				t.Errorf("%s: %s: %s", about, got.Outcome, got.Because)
			}
			// The same run is judged by a bound that is twice as long, or half.
			tight := *h
			if tight.Params.Rounds /= 2; e.Want == string(checker.Violated) {
				tight.Params.Rounds = 2*h.Params.Rounds + int((h.Params.Slack+h.Params.NodeTimeout+h.Params.RetryMax-1)/(h.Params.NodeTimeout+h.Params.RetryMax))
			}
			if got := checker.Check(&tight, checker.FaultTolerance).Results[0]; string(got.Outcome) != e.Want {
				t.Errorf("%s: %s by another bound: %s", about, got.Outcome, got.Because)
			}
			for _, st := range s.Plan {
				if lasts := st.Fault.For; st.Fault.Kind == "kill" && lasts != nil && len(st.Fault.Targets) <= s.Topology.Nodes/2 && *lasts < 2*bound {
					t.Errorf("%s: a minority is down for %v", about, *lasts)
				}
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d runs", tried)
	}
}
