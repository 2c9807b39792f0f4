//go:build long

package scenarios_test

import (
	"context"
	"testing"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// tardyLock is a lock whose Acquire does not return until 2.4 s after the lock's deadline. Only c1's
// Acquire returns in time, because faults wait for it, and a run without its faults shows nothing.
type tardyLock struct {
	lock.Lock
	env lock.Env
}

func (l tardyLock) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	h, err := l.Lock.Acquire(ctx, key)
	if err == nil && l.env.Client != "c1" {
		<-l.env.After(h.Deadline().Sub(l.env.Now()) + 2400*time.Millisecond)
	}
	return h, err
}

// makeTardy changes a lock kind to create tardyLocks.
func makeTardy(k lock.Kind) lock.Kind {
	newLock := k.New
	k.New = func(e lock.Env) (lock.Lock, error) {
		l, err := newLock(e)
		return tardyLock{l, e}, err
	}
	return k
}

// A lock whose Acquire returns after the deadline fails every scenario that is required of all
// locks, both as the scenario's own lock and as the lock under test.
func TestEndedLockFailsEveryScenario(t *testing.T) {
	all := map[string]lock.Kind{"tardy": makeTardy(kinds.All["redlock"])}
	for name, k := range kinds.All {
		all[name] = makeTardy(k)
	}
	backend, numRuns := sim.New(all), 0
	for _, p := range choose(t) {
		if p.Tier != scenario.TierEvery || p.Lock.Mistake != "" || !canSimulate(t, p.Scenario) {
			continue
		}
		t.Run(p.ID(), func(t *testing.T) {
			variants := []scenario.Scenario{p.Scenario}
			if other, err := p.ForLock("tardy", all["tardy"]); err == nil && p.ID() == "baseline" {
				variants = append(variants, other)
			}
			for _, s := range variants {
				o := campaign.Execute(t.Context(), backend, campaign.Job{Scenario: s, Seed: 1, Backend: backend.Name(), Keep: campaign.KeepNone})
				if j := o.JudgementOf(verdict.ValidOnReturn); j == nil || j.Got != verdict.Violated || j.AsExpected || o.Code != outcome.ExitUnexpected {
					t.Errorf("%s: exit %d %s: %v", s.Lock.Kind, o.Code, o.Error, o.Judgements)
				}
				numRuns++
			}
		})
	}
	if numRuns < 50 {
		t.Errorf("only %d runs", numRuns)
	}
}
