package campaign

import (
	"context"
	"maps"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios"
	"lockpick/scenarios/outcome"
)

// unavailableLock is a lock that no client can acquire.
type unavailableLock struct{ lock.Lock }

func (unavailableLock) Acquire(ctx context.Context, _ string) (lock.Handle, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The run counts even if steps wait for a holder, and leaves all other properties undecided.
func TestUnavailableLockViolatesFaultTolerance(t *testing.T) {
	locks := maps.Clone(kinds.All)
	kind := locks["redlock"]
	newRedlock := kind.New
	kind.New = func(env lock.Env) (lock.Lock, error) {
		l, err := newRedlock(env)
		return unavailableLock{l}, err
	}
	locks["unavailable"] = kind
	for _, name := range []string{"baseline", "holder-crashes", "gc-pause-after-acquire"} {
		text, err := scenarios.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		all, err := scenario.ParseWithOptions(name, text, KnownLocks(locks), scenario.ParseOptions{Overrides: []string{"lock.kind=unavailable"}}, func(variant string) bool { return variant == "" })
		if err != nil {
			t.Fatal(err)
		}
		o := Execute(t.Context(), sim.New(locks), Job{Scenario: all[0].Scenario, Seed: 1, Keep: KeepNone})
		if o.Code == outcome.ExitOK || o.Verdict.Assumption != "" {
			t.Errorf("%s: code %d, assumption %q", name, o.Code, o.Verdict.Assumption)
		}
		for _, r := range o.Verdict.Results {
			if want := r.Property == verdict.FaultTolerance; (r.Outcome == verdict.Violated) != want || !want && r.Outcome != verdict.Undecided {
				t.Errorf("%s: %s is %s: %s", name, r.Property, r.Outcome, r.Because)
			}
		}
	}
}
