//go:build nightly

package campaign

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios"
	"lockpick/scenarios/outcome"
)

// Every overlap under random faults has a cause. Reruns without that cause confirm it, whereas
// preventing other key losses on the same nodes usually confirms nothing. LOCKPICK_SEEDS is the
// number of seeds per variant, and LOCKPICK_FROM the first seed.
func TestCausesOfRandomFaultsAreConfirmed(t *testing.T) {
	seeds, from := uint64(300), uint64(1)
	if text := os.Getenv("LOCKPICK_SEEDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		seeds = n
	}
	if text := os.Getenv("LOCKPICK_FROM"); text != "" {
		from, _ = strconv.ParseUint(text, 10, 32)
	}
	for _, variant := range []string{"", "power-loss", "replicas"} {
		t.Run("random-faults/"+variant, func(t *testing.T) {
			s := embeddedScenario(t, "random-faults", variant)
			sum := newCounts()
			var wg sync.WaitGroup
			next := make(chan uint64)
			for range 2 {
				wg.Go(func() {
					for seed := range next {
						sum.confirmViolation(t, s, seed)
					}
				})
			}
			for seed := from; seed < from+seeds; seed++ {
				next <- seed
			}
			close(next)
			wg.Wait()
			t.Logf("%d seeds from %d: %s", seeds, from, sum)
			sum.check(t)
		})
	}
}

func embeddedScenario(t *testing.T, name, variant string) scenario.Scenario {
	t.Helper()
	data, err := scenarios.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	all, err := scenario.Parse(name, data, KnownLocks(kinds.All))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.Variant == variant })
	return all[i]
}

// counts counts violations and the results of their reruns.
type counts struct {
	mu                            sync.Mutex
	causes, states                map[string]int
	spareVotes                    map[int]int
	violations, multipleCauses    int
	otherEnds, otherEndsConfirmed int
	unconfirmed                   []string
}

func newCounts() *counts {
	return &counts{causes: map[string]int{}, states: map[string]int{}, spareVotes: map[int]int{}}
}

func (c *counts) String() string {
	return fmt.Sprintf("%d violations, %d of them with several causes; causes %v; confirmations %v; spare votes %v; %d of %d other ends passed\n%s",
		c.violations, c.multipleCauses, c.causes, c.states, c.spareVotes, c.otherEndsConfirmed, c.otherEnds, strings.Join(c.unconfirmed, "\n"))
}

func (c *counts) check(t *testing.T) {
	if c.violations == 0 {
		t.Fatal("no violation found")
	}
	if n := c.causes[verdict.Unexplained]; n > 0 {
		t.Errorf("%d violations are unexplained", n)
	}
	confirmed := 0
	for _, s := range []outcome.Certainty{outcome.CauseConfirmed, outcome.OverlapPostponed, outcome.CausesJointlyNecessary} {
		confirmed += c.states[string(s)]
	}
	if tried := c.violations - c.states[string(outcome.NoEarlyLoss)] - c.states[string(outcome.CausePartlyTested)]; 100*confirmed < 99*tried {
		t.Errorf("%d of %d are confirmed, postponed or jointly necessary, want at least 99 %%", confirmed, tried)
	}
	if 20*c.otherEndsConfirmed > c.otherEnds {
		t.Errorf("%d of %d other ends passed, want at most 5 %%", c.otherEndsConfirmed, c.otherEnds)
	}
}

// confirmViolation runs a seed. After a violation, it reruns the seed without the cause, and then
// with other key losses prevented instead.
func (c *counts) confirmViolation(t *testing.T, s scenario.Scenario, seed uint64) {
	ctx, b := context.Background(), sim.New(kinds.All)
	s = s.WithRandomPlan(seed)
	var record bytes.Buffer
	if err := harness.Run(ctx, b, s, seed, history.NewRecorder(&record)); err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	h, err := history.Read(&record)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	v := checker.Check(h, verdict.MutualExclusion)
	r := v.Result(verdict.MutualExclusion)
	if r.Outcome != verdict.Violated {
		return
	}
	got, err := confirmCause(ctx, b, s, seed, h, v)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	tried, passed := tryOtherEnds(t, b, s, seed, h, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations++
	c.causes[r.Cause]++
	c.states[string(got.State)]++
	c.spareVotes[r.SpareVotes]++
	c.otherEnds += tried
	c.otherEndsConfirmed += passed
	if slices.ContainsFunc(r.Losses, func(l verdict.Loss) bool { return l.Cause != r.Cause }) {
		c.multipleCauses++
	}
	if r.Cause == verdict.Unexplained || got.State == outcome.CauseRefuted || got.State == outcome.NoEarlyLoss {
		c.unconfirmed = append(c.unconfirmed, fmt.Sprintf("  seed %d: %s (%s): %s: %s", seed, r.Cause, got.State, got.Why, r.Because))
	}
}

// tryOtherEnds treats other key losses on the same nodes as the cause: those between the first
// session's acquire and the second session's grant. It counts the reruns and those that confirm
// this.
func tryOtherEnds(t *testing.T, b *sim.Backend, s scenario.Scenario, seed uint64, h *history.History, r *verdict.Result) (tried, confirmed int) {
	x := newTrial(h, r)
	if len(x.earlyEnds) == 0 {
		return 0, 0
	}
	f := facts.Read(h)
	from, lives := f.SessionByName(x.firstSession).Acquire.Call.T, f.Lives()
	for _, named := range x.earlyEnds {
		for _, interval := range lives.Intervals(named.end.Process, named.end.Key) {
			e := interval.End
			if e == nil || e.N == named.end.N || e.T < from || e.T > x.grantTime || tried >= 8 || interval.Start.Life.Seq > named.replacement.Life.Seq {
				continue
			}
			other := &earlyEnd{end: e, replacement: named.replacement, value: interval.Value, firstClient: x.secondClient, expiry: named.expiry}
			tried++
			rerunHistory, err := x.rerun(context.Background(), b, s, seed, []*earlyEnd{other})
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
				return tried, confirmed
			}
			// As with the real cause, the first session's key must make the node refuse the second.
			other.value = named.value
			if got := x.judge(rerunHistory, []*earlyEnd{other}); !got.sameOverlap && got.grantingNode == "" {
				confirmed++
			}
		}
	}
	return tried, confirmed
}
