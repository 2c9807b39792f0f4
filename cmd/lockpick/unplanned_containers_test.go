//go:build containers && linux

package main

import (
	"testing"
	"time"
)

// TestStoppedFromTheStart checks that a container that stops as soon as it starts does not block
// lockpick forever. It pauses a client before the run monitors it, and stops the container that
// drops a node's packets.
func TestStoppedFromTheStart(t *testing.T) {
	needEngine(t)
	for _, i := range []interference{{"baseline", "c5", "pause", 0}, {"lost-packets", "n1-packets", "SIGSTOP", 0}} {
		t.Run(i.scenario, func(t *testing.T) {
			t.Parallel() // this test mostly waits
			if !dockerSaboteur(t).try(i, 20*time.Second) {
				t.Errorf("%v: the run ended before the interference", i)
			}
		})
	}
}
