//go:build processes && linux

package main

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestUnplannedOnProcesses kills or stops each process of a run in each way. If that happens in
// every attempt, the run must not pass. If it happens only in the first, the next attempt counts,
// and the output must say why the first does not.
func TestUnplannedOnProcesses(t *testing.T) {
	t.Parallel() // this test mostly waits
	needRedis(t)
	binary := build(t)
	for _, name := range []string{"n1", "r1", "c1"} {
		for way, all := range waysToHit {
			t.Run(name+" is "+way, func(t *testing.T) {
				t.Parallel()
				checkRetried(t, attack{binary, oneNode, "process", 1, attackOnChild(name, all...)}, name)
			})
		}
		t.Run(name+" in each try", func(t *testing.T) {
			t.Parallel()
			code, output := attack{binary, oneNode, "process", everyAttempt, attackOnChild(name, syscall.SIGSTOP, syscall.SIGCONT)}.run(t)
			if code != 2 && code != 3 {
				t.Errorf("exit code %d:\n%s", code, output)
			}
		})
	}
	t.Run("n1 is killed in each try", func(t *testing.T) {
		t.Parallel()
		code, output := attack{binary, oneNode, "process", everyAttempt, attackOnChild("n1", syscall.SIGKILL)}.run(t)
		if code != 2 {
			t.Errorf("exit code %d, want 2:\n%s", code, output)
		}
		for _, want := range []string{"unplanned: n1 ended", "signal 9", "5 retries"} {
			if !strings.Contains(output, want) {
				t.Errorf("no %q in the output:\n%s", want, output)
			}
		}
	})
}

// TestMoreUnplannedDuringSetup is TestUnplannedDuringSetup for other processes, and for processes
// that are hit in every attempt.
func TestMoreUnplannedDuringSetup(t *testing.T) {
	t.Parallel() // this test mostly waits
	for _, target := range [][2]string{{"n1", "terminated"}, {"n1", "stopped"}, {"r1", "killed"}, {"c1-adapter", "killed"}} {
		checkRetryAfterHit(t, target[0], target[1])
	}
	t.Run("in each try", func(t *testing.T) {
		t.Parallel()
		code, output := hitDuringSetup(t, "n1", "killed", eachTime)
		if code != 2 || !strings.Contains(output, "n1 exited while the run was being set up") || !strings.Contains(output, "5 retries") {
			t.Errorf("exit code %d, want 2 with the reason:\n%s", code, output)
		}
	})
}

// TestInterferencesOnProcesses kills, stops or ends any process of a run at any time, from the
// first probe to the end of the last process. The attempt must be discarded and the run retried.
func TestInterferencesOnProcesses(t *testing.T) {
	needRedis(t)
	adapter := linkToSelf(t, t.TempDir(), adapterName)
	s := &saboteur{T: t, binary: build(t), backend: "process", ways: slices.Sorted(maps.Keys(waysToHit)), actors: processesOf, hit: signalProcess,
		lastCheck: 20 * time.Millisecond, args: map[string][]string{
			"baseline": {"baseline/", "--expect", "fault-tolerance=any"}, "process-crash-everysec": {"process-crash-everysec/"}, "power-loss-everysec": {"power-loss-everysec/"},
			"clock-jump": {"clock-jump/"}, "failover-loses-lock": {"failover-loses-lock/"}, "watched": {watchedNode, "--scale", "0.5"},
			"adapter": {oneNode, "--adapter", adapter},
		}}
	n := 140
	if !night { // the scenarios with unique processes, and the simplest one
		n = 3
		maps.DeleteFunc(s.args, func(name string, _ []string) bool {
			return !slices.Contains([]string{"adapter", "baseline", "watched"}, name)
		})
	}
	s.sabotage(cmp.Or(*interferences, n), 4)
}

// TestStallIsNotAViolation suspends lockpick itself, so that its faults have no effect or the wrong
// effect. The run must be retried instead of blaming the lock.
func TestStallIsNotAViolation(t *testing.T) {
	t.Parallel() // this test mostly waits
	needRedis(t)
	binary := build(t)
	stop := func(lockpick int) error {
		err := syscall.Kill(lockpick, syscall.SIGSTOP)
		time.Sleep(3 * time.Second) // longer than the lease
		return errors.Join(err, syscall.Kill(lockpick, syscall.SIGCONT))
	}
	var discarded atomic.Bool
	t.Cleanup(func() {
		if !discarded.Load() { // a run may have finished before it was stopped
			t.Error("no attempt was discarded")
		}
	})
	for _, scenario := range []string{"restart-forgets", "single-instance-restart", "clock-jump"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			code, output := attack{binary, scenario, "process", 1, stop}.run(t)
			if code != 0 {
				t.Errorf("exit code %d:\n%s", code, output)
			}
			if strings.Contains(output, "retried: ") && strings.Contains(output, "the host stalled") {
				discarded.Store(true)
			}
		})
	}
}
