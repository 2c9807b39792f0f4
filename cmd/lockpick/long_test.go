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

// TestBuiltBinaryRunsBubbles runs many synctest bubbles in the built binary. They depend on
// synctest.Test accepting a zero testing.T outside "go test". If a Go release changes that,
// harness/sim/bubble.go, the only file that depends on it, can use testing.MainStart with custom
// deps instead.
func TestBuiltBinaryRunsBubbles(t *testing.T) {
	seeds := 100
	if night {
		seeds = 1000
	}
	code, all := outcomes(t, build(t), "run", "baseline/", "--seeds", strconv.Itoa(seeds), "--seed", "1000")
	if code != 0 || len(all) != seeds {
		t.Errorf("exit code %d, %d runs", code, len(all))
	}
	checkOutcomes(t, all)
}

// TestRandomPlansWithinAssumptions runs the reference lock under random plans within its
// assumptions. make random does the same with ten thousand plans.
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
	start := time.Now()
	code, all := outcomes(t, build(t), append([]string{"run", "--seeds", strconv.Itoa(seeds)}, names...)...)
	if code != 0 || len(all) != seeds*len(variants) {
		t.Errorf("exit code %d, %d runs", code, len(all))
	}
	checkOutcomes(t, all)
	t.Logf("%d random plans within the assumptions in %.0f s: mutual-exclusion violated in %s", len(all), time.Since(start).Seconds(), outcome.Rate(0, len(all)))
}

// TestHardenedUnderRandomPlans checks the hardened lock's guarantees within the assumptions, with
// all its settings enabled and, in nightly runs, with each setting alone.
func TestHardenedUnderRandomPlans(t *testing.T) {
	var all, setups []string
	for _, o := range redlock.Options {
		all = append(all, o.Name+"="+o.Values[1]) // not the default
	}
	lockpick, seeds := build(t), "2"
	if night {
		seeds, setups = "50", slices.Concat(all, []string{""})
	}
	for _, options := range append(setups, strings.Join(all, ",")) {
		lock := strings.TrimSuffix("hardened:"+options, ":")
		_, runs := outcomes(t, lockpick, "run", "random-within-assumptions", "random-settings", "--lock", lock, "--seeds", seeds)
		runs = slices.DeleteFunc(runs, func(o outcome.Outcome) bool { return o.Skipped != "" }) // the hardened lock can't query nodes in turn
		if len(runs) == 0 {
			t.Errorf("%s was not tested", lock)
		}
		checkOutcomes(t, runs)
	}
}

// TestSameSeedSameBytes replays stored runs of the catalog on one and on two processors. Regular
// runs replay every fourth run, on either one or two. TestEverySeedTwice covers all runs.
func TestSameSeedSameBytes(t *testing.T) {
	binary := build(t)
	_, all := outcomes(t, binary, "run", "--seed", "7")
	if len(all) == 0 {
		t.Fatal("nothing ran")
	}
	for i, o := range all {
		if o.Skipped != "" { // containers are missing
			continue
		}
		processorCounts := []string{"1", "2"}
		if !night && i%4 > 0 {
			continue
		}
		if !night {
			processorCounts = processorCounts[i/4%2 : i/4%2+1]
		}
		for _, procs := range processorCounts {
			cmd := exec.Command(binary, "replay", o.Dir)
			cmd.Env = append(os.Environ(), "GOMAXPROCS="+procs)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s with GOMAXPROCS=%s: %v\n%s", o.Scenario, procs, err, out)
			}
		}
	}
}
