//go:build containers && linux

package main

import (
	"testing"
	"time"
)

// TestStoppedFromTheStart checks that a container that is stopped at its start does not block lockpick
// forever: a client that is paused before the run monitors it, and the container that drops a node's
// packets.
func TestStoppedFromTheStart(t *testing.T) {
	needEngine(t)
	for _, i := range []interference{{"baseline", "c5", "pause", 0}, {"lost-packets", "n1-packets", "SIGSTOP", 0}} {
		t.Run(i.scenario, func(t *testing.T) {
			t.Parallel() // it mostly waits
			if !onDocker(t).try(i, 20*time.Second) {
				t.Errorf("%v: not detected in time", i)
			}
		})
	}
}
