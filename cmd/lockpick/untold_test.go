package main

import (
	"context"
	"maps"
	"testing"
	"time"

	"lockpick/checker"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/lock/single"
	"lockpick/harness/sim"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

// muted is the lock on one node, whose handles keep their deadline to themselves.
type muted struct{ lock.Lock }

type mutedHandle struct{ lock.Handle }

func (mutedHandle) Deadline() time.Time { return time.Time{} }

func (l muted) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	h, err := l.Lock.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return mutedHandle{h}, nil
}

// A lock that tells its holder nothing has a row of its own for what comes of it: it is neither
// a violation of mutual exclusion nor unexpected, and what the lock does promise it is held to.
func TestLockThatTellsNothing(t *testing.T) {
	kind := lock.Kind{OneNode: true, Belief: lock.ByNothing, New: func(e lock.Env) (lock.Lock, error) {
		l, err := single.New(e)
		return muted{l}, err
	}}
	all := maps.Clone(kinds.All)
	all["muted"] = kind
	for name, told := range map[string]checker.Outcome{"pause-before-check": checker.Violated, "loss-is-told": checker.Violated, "lost-reply": checker.Holds} {
		picked, err := choice{names: []string{name + "/"}}.scenarios()
		if err != nil {
			t.Fatal(err)
		}
		s, err := picked[0].With("muted", kind)
		if err != nil {
			t.Fatal(err)
		}
		o := suite.Execute(t.Context(), sim.New(all), suite.Job{Scenario: s, Seed: 1, Backend: simulation, Keep: suite.KeepNone})
		got, exclusion := o.Verdict.Result(checker.HolderTold), o.Verdict.Result(checker.MutualExclusion)
		if o.Error != "" || o.Code != outcome.ExitOK || got == nil || got.Outcome != told || exclusion.Outcome == checker.Violated ||
			told == checker.Violated && got.Cause != "told-late" {
			t.Errorf("%s: code %d %s: %+v; %+v; %+v", name, o.Code, o.Error, got, exclusion, o.Judgements)
		}
	}
}
