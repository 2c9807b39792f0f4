//go:build processes && linux

package main

import (
	"errors"
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
			if name == "c1" && way == "terminated" {
				continue // it says so itself, and that is an error
			}
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
	t.Run("c1 is terminated in each try", func(t *testing.T) {
		t.Parallel()
		code, said := attack{binary, oneNode, "process", every, onChild("c1", syscall.SIGTERM)}.run(t)
		if code != 3 || !strings.Contains(said, "error: ") || !strings.Contains(said, "run client c1") {
			t.Errorf("exit code %d, want 3 and why:\n%s", code, said)
		}
	})
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
