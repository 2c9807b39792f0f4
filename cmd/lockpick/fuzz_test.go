package main

import (
	"cmp"
	"strings"
	"testing"
)

// What a scenario asks of the tokens of a lock that it names is asked of no other, unless the user does;
// what it asks of the specification's is asked of each that gives some.
func TestHuntsAskForTokensAsTheirLockCounts(t *testing.T) {
	for _, c := range []struct {
		scenario string
		lock     []string
		want     string
	}{
		{"clocks-agree", []string{"hardened"}, "holds"},
		{"clocks-agree", []string{"redlock"}, "any"},
		{"clocks-agree", []string{"redlock", "fencing-order=holds"}, "holds"},
		{"always", []string{"redlock"}, "holds"},
		{"always", []string{"hardened"}, "holds"},
		{"base", []string{"redlock"}, "any"},
		{"clocks-agree", []string{"broken"}, "any"},
		{"clocks-agree", []string{"broken", "fencing-order=holds"}, "holds"},
		{"always", []string{"broken"}, "holds"},
	} {
		flags := runFlags{lock: c.lock[0], expects: c.lock[1:], backend: simulation}
		if flags.lock == "broken" {
			flags.sets = []string{"lock.mistake=fence-from-one-node"}
		}
		x := &hunter{flags: &huntFlags{runFlags: flags}}
		if err := x.choose([]string{"random-within-assumptions/" + strings.TrimPrefix(c.scenario, "base")}); err != nil {
			t.Fatal(err)
		}
		if got := cmp.Or(x.picks[0].Expect["fencing-order"].Want, "any"); len(x.picks) != 1 || got != c.want {
			t.Errorf("%s, %v: fencing-order=%s is asked of %d, want %s of one", c.scenario, c.lock, got, len(x.picks), c.want)
		}
	}
}

// A name that is too long is clipped so that another stays another.
func TestClippedNames(t *testing.T) {
	long := strings.Repeat("extension-", 8)
	a, b := clipped(long+"a", 64), clipped(long+"b", 64)
	if a == b || len(a) > 64 || !strings.HasPrefix(a, "extension-extension-") || clipped("short", 64) != "short" {
		t.Error(a, b)
	}
}
