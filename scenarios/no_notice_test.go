package scenarios_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// lockWithoutDeadline hides the deadlines of a lock's handles.
type lockWithoutDeadline struct{ lock.Lock }

type handleWithoutDeadline struct{ lock.Handle }

func (handleWithoutDeadline) Deadline() time.Time { return time.Time{} }

func (l lockWithoutDeadline) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	h, err := l.Lock.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return handleWithoutDeadline{h}, nil
}

// If a lock reports no deadline and its holder continues after the key has expired, that violates
// holder-told, as expected, rather than mutual exclusion. A key that ends early still violates
// mutual exclusion. Both cases occur here. The lock meets all other expectations.
func TestLockWithoutDeadline(t *testing.T) {
	kind := lock.Kind{OneNode: true, Belief: lock.ByNothing, New: func(e lock.Env) (lock.Lock, error) {
		l, err := kinds.All["single"].New(e)
		return lockWithoutDeadline{l}, err
	}}
	all := maps.Clone(kinds.All)
	all["muted"] = kind
	for name, want := range map[string]struct{ notified, exclusion verdict.Outcome }{
		"pause-before-check":       {verdict.Violated, verdict.Holds},
		"loss-is-told":             {verdict.Violated, verdict.Holds},
		"lost-reply":               {verdict.Holds, verdict.Holds},
		"single-instance-restart":  {verdict.Holds, verdict.Violated},
		"clock-jump":               {verdict.Holds, verdict.Violated},
		"failover-loses-lock":      {verdict.Holds, verdict.Violated},
		"gc-like-pauses":           {verdict.Violated, verdict.Holds},
		"clock-drift-both-ways":    {verdict.Holds, verdict.Violated},
		"power-loss-no-fsync":      {verdict.Holds, verdict.Violated},
		"restart-delay-fast-clock": {verdict.Holds, verdict.Violated},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := choose(t, name+"/")[0].ForLock("muted", kind)
			if err != nil {
				t.Fatal(err)
			}
			o := campaign.Execute(t.Context(), sim.New(all), campaign.Job{Scenario: s, Seed: 1, Backend: "sim", Store: t.TempDir(), Keep: campaign.KeepAll})
			notified, exclusion := o.Verdict.Result(verdict.HolderNotified), o.Verdict.Result(verdict.MutualExclusion)
			if o.Error != "" || o.Code != outcome.ExitOK || notified == nil || notified.Outcome != want.notified || (exclusion.Outcome == verdict.Violated) != (want.exclusion == verdict.Violated) ||
				want.notified == verdict.Violated && notified.Cause != "notified-late" {
				t.Errorf("code %d %s: %+v; %+v; %+v", o.Code, o.Error, notified, exclusion, o.Judgements)
			}
		})
	}
}

// lockWithoutReleaseReply is a lock whose releases work but always return an error.
type lockWithoutReleaseReply struct {
	lock.Lock
	suffix string // added to each key; a different suffix for each client gives each its own lock
}

type handleWithoutReleaseReply struct{ lock.Handle }

func (h handleWithoutReleaseReply) Release(ctx context.Context) error {
	return errors.Join(h.Handle.Release(ctx), errors.New("the reply is lost"))
}

func (l lockWithoutReleaseReply) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	h, err := l.Lock.Acquire(ctx, key+l.suffix)
	if err != nil {
		return nil, err
	}
	return handleWithoutReleaseReply{h}, nil
}

// A lock that reports no deadline and does not confirm releases passes exactly if it excludes other
// clients.
func TestLockWithoutReleaseReplies(t *testing.T) {
	for name, inner := range map[string]struct {
		lock.Factory
		oneNode bool
	}{"single": {kinds.All["single"].New, true}, "redlock": {kinds.All["redlock"].New, false}} {
		for _, separateLocks := range []bool{false, true} {
			kind := lock.Kind{OneNode: inner.oneNode, Belief: lock.ByNothing, New: func(e lock.Env) (lock.Lock, error) {
				l, err := inner.Factory(e)
				suffix := ""
				if separateLocks {
					suffix = "-" + e.Client
				}
				return lockWithoutReleaseReply{lockWithoutDeadline{l}, suffix}, err
			}}
			all := maps.Clone(kinds.All)
			all["unsure"] = kind
			s, err := choose(t, "baseline/")[0].ForLock("unsure", kind)
			if err != nil {
				t.Fatal(err)
			}
			o := campaign.Execute(t.Context(), sim.New(all), campaign.Job{Scenario: s, Seed: 1, Backend: "sim", Keep: campaign.KeepNone})
			exclusion, lease := o.JudgementOf(verdict.MutualExclusion), o.JudgementOf(verdict.LeaseLinearizable)
			switch {
			case separateLocks && (o.Code != outcome.ExitUnexpected || exclusion.Got != verdict.Violated):
				t.Errorf("%s: two clients hold the lock at once, but exit %d %s: %v", name, o.Code, o.Error, o.Judgements)
			case !separateLocks && (o.Code != outcome.ExitOK || exclusion.Got != verdict.Holds || lease.Got != verdict.NotExercised || !strings.Contains(lease.String(), "not applicable to this lock")):
				t.Errorf("%s: exit %d %s: %v", name, o.Code, o.Error, o.Judgements)
			}
		}
	}
}
