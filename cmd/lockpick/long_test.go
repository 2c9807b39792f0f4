//go:build long && !windows

package main

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockpick/harness/lock/redlock"
	"lockpick/scenarios/outcome"
)

// Many bubbles in the built binary, which lean on synctest.Test taking a zero
// testing.T outside "go test". Should a Go release end that, the fall-back is
// testing.MainStart with own deps in harness/sim/bubble.go, which is all that
// knows of it.
func TestBuiltBinaryRunsBubbles(t *testing.T) {
	seeds := 100
	if night {
		seeds = 1000
	}
	code, all := outcomes(t, build(t), "run", "baseline/", "--seeds", strconv.Itoa(seeds), "--seed", "1000")
	if code != 0 || len(all) != seeds {
		t.Errorf("exit code %d, %d runs", code, len(all))
	}
	complain(t, all)
}

// The reference lock within its assumptions; make random draws ten thousand plans.
func TestRandomPlansWithinAssumptions(t *testing.T) {
	names := []string{"random-within-assumptions", "random-settings"}
	variants, err := choice{names: names}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	seeds := 25
	if night {
		seeds = 250
	}
	begin := time.Now()
	code, all := outcomes(t, build(t), append([]string{"run", "--seeds", strconv.Itoa(seeds)}, names...)...)
	if code != 0 || len(all) != seeds*len(variants) {
		t.Errorf("exit code %d, %d runs", code, len(all))
	}
	complain(t, all)
	t.Logf("%d random plans within the assumptions in %.0f s: mutual-exclusion violated in %s", len(all), time.Since(begin).Seconds(), outcome.Rate(0, len(all)))
}

// The hardened lock keeps within the assumptions what it promises with all of its settings, and at night
// with each.
func TestHardenedUnderRandomPlans(t *testing.T) {
	var all, setups []string
	for _, o := range redlock.Own {
		all = append(all, o.Name+"="+o.Values[1]) // another than the default
	}
	lockpick, seeds := build(t), "2"
	if night {
		seeds, setups = "50", slices.Concat(all, []string{""})
	}
	for _, options := range append(setups, strings.Join(all, ",")) {
		lock := strings.TrimSuffix("hardened:"+options, ":")
		_, runs := outcomes(t, lockpick, "run", "random-within-assumptions", "random-settings", "--lock", lock, "--seeds", seeds)
		runs = slices.DeleteFunc(runs, func(o outcome.Outcome) bool { return o.Skipped != "" }) // it can't ask in turn
		if len(runs) == 0 {
			t.Errorf("%s was put to no test", lock)
		}
		complain(t, runs)
	}
}

// A stored run is the same again in a process with one processor or two: by day every fourth
// of the catalogue, at night all of them on both. TestEverySeedTwice has each of them twice.
func TestSameSeedSameBytes(t *testing.T) {
	binary := build(t)
	_, all := outcomes(t, binary, "run", "--seed", "7")
	if len(all) == 0 {
		t.Fatal("nothing ran")
	}
	for i, o := range all {
		if o.Skipped != "" { // for want of containers
			continue
		}
		on := []string{"1", "2"}
		if !night && i%4 > 0 {
			continue
		}
		if !night {
			on = on[i/4%2 : i/4%2+1]
		}
		for _, procs := range on {
			cmd := exec.Command(binary, "replay", o.Dir)
			cmd.Env = append(os.Environ(), "GOMAXPROCS="+procs)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s with GOMAXPROCS %s: %v\n%s", o.Scenario, procs, err, out)
			}
		}
	}
}
