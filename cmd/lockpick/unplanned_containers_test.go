//go:build containers && linux

package main

import (
	"testing"
	"time"
)

// A container that stands still from its first moment keeps nobody waiting without end: the client
// that is paused before the run looks after it, and what loses a node's packets.
func TestStoppedFromTheStart(t *testing.T) {
	needEngine(t)
	for _, i := range []interference{{"baseline", "c5", "pause", 0}, {"lost-packets", "n1-packets", "SIGSTOP", 0}} {
		t.Run(i.scenario, func(t *testing.T) {
			t.Parallel() // it mostly waits
			if !onDocker(t).try(i, 20*time.Second) {
				t.Errorf("%v: it was not seen in time", i)
			}
		})
	}
}
