//go:build containers && linux

package main

import (
	"cmp"
	"testing"
	"time"
)

// Whatever of a run in containers somebody kills, pauses, stops or ends, and whenever, from the
// first container to the last that is removed: the try is discarded, and the next one counts.
func TestInterferencesOnDocker(t *testing.T) {
	needEngine(t)
	s := onDocker(t)
	n := 2
	if night {
		n = 60
	}
	s.sabotage(cmp.Or(*interferences, n), 2)
}

// A container that stands still from its first moment keeps nobody waiting without end: the client
// that is paused before the run looks after it, and what loses a node's packets.
func TestStoppedFromTheStart(t *testing.T) {
	needEngine(t)
	s := onDocker(t)
	for _, i := range []interference{{"baseline", "c5", "pause", 0}, {"lost-packets", "n1-packets", "SIGSTOP", 0}} {
		if !s.try(i, 20*time.Second) {
			t.Errorf("%v: it was not seen in time", i)
		}
	}
}

func onDocker(t *testing.T) *saboteur {
	return &saboteur{T: t, binary: build(t), backend: "docker", ways: waysToHitContainer, actors: containersOf, hit: hitContainer,
		late: 500 * time.Millisecond, args: map[string][]string{
			"baseline": {"baseline/", "--expect", "fault-tolerance=any"}, "power-loss-everysec": {"power-loss-everysec/"}, "clock-jump": {"clock-jump/"},
			"lost-packets": {"lost-packets/", "--expect", "fault-tolerance=any"}, "watched": {watchedNode, "--scale", "0.5"},
		}}
}
