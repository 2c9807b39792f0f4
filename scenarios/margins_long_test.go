//go:build long

package scenarios_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// scaledRuns returns a scenario as it runs in the simulation and as it runs with processes. These
// run at a smaller scale, so the machine's fixed delays matter more.
func scaledRuns(s scenario.Scenario) []scenario.Scenario {
	return []scenario.Scenario{s, s.ScaledCopy(cmp.Or(s.Scale, campaign.RealScale))}
}

// A lock that requires more than a majority is unavailable while a minority of nodes is down. The
// checker notices because the outage is longer than the TTL of earlier keys plus the bound.
func TestMinorityDownCatchesLockThatNeedsFourVotes(t *testing.T) {
	for _, s := range scaledRuns(choose(t, "minority-down/one-vote-more")[0].Scenario) {
		bound := 10*(s.Lock.Timeout+s.Lock.RetryMax) + time.Second/4
		if outage := *s.Plan[0].Fault.For; outage <= s.Lock.TTL+bound {
			t.Errorf("two nodes are down for %v, with a TTL of %v and a bound of %v", outage, s.Lock.TTL, bound)
		}
		for seed := range uint64(3) {
			o := campaign.Execute(t.Context(), sim.New(kinds.All), campaign.Job{Scenario: s, Seed: seed, Backend: "sim", Keep: campaign.KeepNone})
			if j := o.JudgementOf(verdict.FaultTolerance); j == nil || j.Got != verdict.Violated || o.Code != outcome.ExitOK {
				t.Errorf("TTL %v, seed %d: exit %d %s: %v", s.Lock.TTL, seed, o.Code, o.Error, o.Judgements)
			}
		}
	}
}

// Verdicts on fault-tolerance have a margin of a factor of two. Violations exceed twice the bound,
// correct locks need at most half of it, and outages that the lock must survive last at least twice
// the bound.
func TestFaultToleranceHasMargins(t *testing.T) {
	backend, numRuns := sim.New(kinds.All), 0
	for _, p := range choose(t) {
		e := p.Expect[verdict.FaultTolerance]
		if e.Want == "" || e.Want == outcome.AnyOutcome || e.Implied || !canSimulate(t, p.Scenario) {
			continue
		}
		for _, s := range scaledRuns(p.Scenario) {
			h, v, err := campaign.Record(t.Context(), backend, s, 1)
			if err != nil {
				t.Fatal(err)
			}
			numRuns++
			bound := time.Duration(h.Params.Rounds)*(h.Params.NodeTimeout+h.Params.RetryMax) + h.Params.Slack
			description := fmt.Sprintf("%s with a TTL of %v and a bound of %v", s.ID(), s.Lock.TTL, bound)
			if got := v.Result(verdict.FaultTolerance); string(got.Outcome) != e.Want {
				t.Errorf("%s: %s: %s", description, got.Outcome, got.Because)
			}
			// Judge the same run with twice or half the bound.
			changed := *h
			if changed.Params.Rounds /= 2; e.Want == string(verdict.Violated) {
				changed.Params.Rounds = 2*h.Params.Rounds + int((h.Params.Slack+h.Params.NodeTimeout+h.Params.RetryMax-1)/(h.Params.NodeTimeout+h.Params.RetryMax))
			}
			if got := checker.Check(&changed, verdict.FaultTolerance).Results[0]; string(got.Outcome) != e.Want {
				t.Errorf("%s: %s with a different bound: %s", description, got.Outcome, got.Because)
			}
			for _, st := range s.Plan {
				if outage := st.Fault.For; st.Fault.Kind == "kill" && outage != nil && len(st.Fault.Targets) <= s.Topology.Nodes/2 && *outage < 2*bound {
					t.Errorf("%s: a minority is down for %v, want at least twice the bound", description, *outage)
				}
			}
		}
	}
	if numRuns < 20 {
		t.Errorf("only %d runs", numRuns)
	}
}
