//go:build processes && linux

package main

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The same of every process of a run, and every way to hit it.
func TestUnplannedOnProcesses(t *testing.T) {
	needRedis(t)
	binary := build(t)
	ways := map[string][]syscall.Signal{
		"killed": {syscall.SIGKILL}, "terminated": {syscall.SIGTERM}, "stopped": {syscall.SIGSTOP}, "stopped for a while": {syscall.SIGSTOP, syscall.SIGCONT},
	}
	for _, actor := range []struct{ name, scenario string }{
		{"n1", oneNode}, {"r1", oneNode}, {"c1", oneNode}, {"n1-replica", watchedNode}, {"sentinel2", watchedNode},
	} {
		for way, all := range ways {
			t.Run(actor.name+" is "+way, func(t *testing.T) {
				t.Parallel()
				if actor.name == "n1-replica" && way == "stopped" {
					t.Skip("its sentinels wait for it for half a minute")
				}
				hitOnce(t, attack{binary, actor.scenario, "process", 1, onChild(actor.name, all...)}, actor.name)
			})
		}
	}
	for _, name := range []string{"n1", "r1", "c1"} {
		t.Run(name+" in each try", func(t *testing.T) {
			t.Parallel()
			code, said := attack{binary, oneNode, "process", every, onChild(name, syscall.SIGSTOP, syscall.SIGCONT)}.run(t)
			if code != 2 && code != 3 {
				t.Errorf("exit code %d:\n%s", code, said)
			}
		})
	}
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
	discarded := 0
	for _, scenario := range []string{"restart-forgets", "single-instance-restart", "clock-jump"} {
		t.Run(scenario, func(t *testing.T) {
			code, said := attack{binary, scenario, "process", 1, stop}.run(t)
			if code != 0 {
				t.Errorf("exit code %d:\n%s", code, said)
			}
			if strings.Contains(said, "discarded, and tried again: ") && strings.Contains(said, "the machine stood still") {
				discarded++
			}
		})
	}
	if discarded == 0 { // one may have shown all before it was stopped
		t.Error("no try was discarded")
	}
}

// hitOnce sees that a run whose first try was hit passes by the next one, and says so.
func hitOnce(t *testing.T, a attack, name string) {
	t.Helper()
	code, said := a.run(t)
	if want := "discarded, and tried again: nobody planned it: " + name + " "; code != 0 || !strings.Contains(said, want) {
		t.Errorf("exit code %d, want 0 and %q:\n%s", code, want, said)
	}
}
