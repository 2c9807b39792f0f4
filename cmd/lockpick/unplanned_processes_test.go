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

// The same of every process of a run, and every way to hit it.
func TestUnplannedOnProcesses(t *testing.T) {
	needRedis(t)
	binary := build(t)
	for _, name := range []string{"n1", "r1", "c1"} {
		for way, all := range waysToHit {
			t.Run(name+" is "+way, func(t *testing.T) {
				t.Parallel()
				hitOnce(t, attack{binary, oneNode, "process", 1, onChild(name, all...)}, name)
			})
		}
		t.Run(name+" in each try", func(t *testing.T) {
			t.Parallel()
			code, said := attack{binary, oneNode, "process", every, onChild(name, syscall.SIGSTOP, syscall.SIGCONT)}.run(t)
			if code != 2 && code != 3 {
				t.Errorf("exit code %d:\n%s", code, said)
			}
		})
	}
}

// Whatever of a run on processes somebody kills, stops or ends, and whenever, from the first
// probe to the last process that is put away: the try is discarded, and the next one counts.
func TestInterferencesOnProcesses(t *testing.T) {
	needRedis(t)
	adapter := standIn(t, t.TempDir(), adapterName)
	s := &saboteur{T: t, binary: build(t), backend: "process", ways: slices.Sorted(maps.Keys(waysToHit)), actors: processesOf, hit: signalProcess,
		late: 20 * time.Millisecond, args: map[string][]string{
			"baseline": {"baseline/", "--expect", "fault-tolerance=any"}, "process-crash-everysec": {"process-crash-everysec/"}, "power-loss-everysec": {"power-loss-everysec/"},
			"clock-jump": {"clock-jump/"}, "failover-loses-lock": {"failover-loses-lock/"}, "watched": {watchedNode, "--scale", "0.5"},
			"adapter": {oneNode, "--adapter", adapter},
		}}
	n := 7
	if night {
		n = 140
	}
	s.sabotage(cmp.Or(*interferences, n), 4)
}

// Where lockpick itself stands still, what its plan was to bring about does not come, or
// comes otherwise: that is no lock's fault, and tried again.
func TestStallIsNoViolation(t *testing.T) {
	needRedis(t)
	binary := build(t)
	stop := func(lockpick int) error {
		err := syscall.Kill(lockpick, syscall.SIGSTOP)
		time.Sleep(3 * time.Second) // longer than the lease
		return errors.Join(err, syscall.Kill(lockpick, syscall.SIGCONT))
	}
	var discarded atomic.Bool
	t.Cleanup(func() {
		if !discarded.Load() { // one may have shown all before it was stopped
			t.Error("no try was discarded")
		}
	})
	for _, scenario := range []string{"restart-forgets", "single-instance-restart", "clock-jump"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			code, said := attack{binary, scenario, "process", 1, stop}.run(t)
			if code != 0 {
				t.Errorf("exit code %d:\n%s", code, said)
			}
			if strings.Contains(said, "discarded, and tried again: ") && strings.Contains(said, "the machine stood still") {
				discarded.Store(true)
			}
		})
	}
}
