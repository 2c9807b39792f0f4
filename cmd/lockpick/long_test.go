//go:build long && !windows

package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

// outcomes runs lockpick with --json and returns its exit code and what came out.
func outcomes(t *testing.T, binary string, args ...string) (int, []outcome.Outcome) {
	t.Helper()
	args = append(args, "--json", "--store", filepath.Join(t.TempDir(), "store"))
	cmd := exec.Command(binary, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var all struct{ Outcomes []outcome.Outcome }
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("lockpick %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	return cmd.ProcessState.ExitCode(), all.Outcomes
}

func complain(t *testing.T, all []outcome.Outcome) {
	t.Helper()
	for _, o := range all {
		if o.Code != outcome.ExitOK || o.Skipped != "" {
			t.Errorf("%s seed %d: %s %s %s", o.Scenario, o.Seed, strings.Join(summary(o), "; "), o.Error, o.Skipped)
		}
	}
}

// A hundred bubbles in the built binary. They lean on synctest.Test taking a
// zero testing.T outside "go test". Should a Go release end that, the fall-back
// is testing.MainStart with own deps in harness/sim/bubble.go, which is all that
// knows of it.
func TestBuiltBinaryRunsBubbles(t *testing.T) {
	code, all := outcomes(t, build(t), "run", "baseline/", "--seeds", "100")
	if code != 0 || len(all) != 100 {
		t.Errorf("exit code %d, %d runs", code, len(all))
	}
	complain(t, all)
}

func TestThousandSeedsOfBaseline(t *testing.T) {
	code, all := outcomes(t, build(t), "run", "baseline/", "--seeds", "1000", "--seed", "1000")
	if code != 0 || len(all) != 1000 {
		t.Errorf("exit code %d, %d runs", code, len(all))
	}
	complain(t, all)
}

// The reference lock within its assumptions. A thousand plans fit into a minute; make
// random draws ten thousand.
func TestThousandRandomPlansWithinAssumptions(t *testing.T) {
	const seeds, variants = 250, 4
	begin := time.Now()
	code, all := outcomes(t, build(t), "run", "random-within-assumptions", "--seeds", strconv.Itoa(seeds))
	if code != 0 || len(all) != seeds*variants {
		t.Errorf("exit code %d, %d runs", code, len(all))
	}
	complain(t, all)
	t.Logf("%d random plans within the assumptions in %.0f s: mutual-exclusion violated in %s", len(all), time.Since(begin).Seconds(), outcome.Rate(0, len(all)))
}

// Every scenario, each twice: in a worker with one processor, and in a process
// with two.
func TestSameSeedSameBytes(t *testing.T) {
	binary := build(t)
	_, all := outcomes(t, binary, "run", "--seed", "7")
	if len(all) == 0 {
		t.Fatal("nothing ran")
	}
	for _, o := range all {
		if o.Skipped != "" { // for want of containers
			continue
		}
		for _, procs := range []string{"1", "2"} {
			cmd := exec.Command(binary, "replay", o.Dir)
			cmd.Env = append(os.Environ(), "GOMAXPROCS="+procs)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s with GOMAXPROCS %s: %v\n%s", o.Scenario, procs, err, out)
			}
		}
	}
}

// containersOnly is what no process can show, and why.
var containersOnly = map[string]string{
	"lost-packets":            "packets-link: nodes share this machine's network, and packets are dropped in a node's own",
	"lost-packets/requests":   "packets-link: nodes share this machine's network, and packets are dropped in a node's own",
	"lost-packets/replies":    "packets-link: nodes share this machine's network, and packets are dropped in a node's own",
	"node-starved":            "starve-node: nodes share this machine's processors and memory, without bounds of their own",
	"node-starved/memory":     "starve-node: nodes share this machine's processors and memory, without bounds of their own",
	"node-unplugged":          "unplug-node: nodes share this machine's network, and have no cable of their own",
	"node-unplugged/majority": "unplug-node: nodes share this machine's network, and have no cable of their own",
}

// simulatedOnly is what no real server can show, and why.
var simulatedOnly = map[string]string{
	"clock-jump/monotonic-expiry": "monotonic-expiry: this backend does not have it", // Redis goes by the wall clock
	"weak-token":                  "exact-instants: this backend does not have it",   // two starts within a microsecond
	"weak-token/random-bytes":     "exact-instants: this backend does not have it",
}

// The whole catalogue on real redis-servers: nothing skipped that they can do,
// nothing otherwise than expected.
func TestCatalogueOnProcesses(t *testing.T) {
	needRedis(t)
	code, all := outcomes(t, build(t), "run", "--backend", "process", "--jobs", "2")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	all = able(t, all, simulatedOnly, containersOnly)
	complain(t, all)
	retries(t, all)
	for _, o := range all {
		h, err := history.ReadFile(filepath.Join(o.Dir, suite.HistoryFile))
		if err != nil {
			t.Fatal(err)
		}
		if _, why := withoutVotes(h); h.Params.Lock == "redlock" && why != "" {
			t.Errorf("%s: %s", o.Scenario, why)
		}
	}
}

// able is the runs that were not skipped. Those of lists were, each for the reason there,
// and no others may be.
func able(t *testing.T, all []outcome.Outcome, lists ...map[string]string) []outcome.Outcome {
	t.Helper()
	why := map[string]string{}
	for _, list := range lists {
		maps.Copy(why, list)
	}
	total := len(all)
	all = slices.DeleteFunc(all, func(o outcome.Outcome) bool { return o.Skipped != "" && o.Skipped == why[o.Scenario] })
	if skipped := total - len(all); skipped != len(why) {
		t.Errorf("%d skipped for what this backend has not, want %d", skipped, len(why))
	}
	return all
}

// mostLucky is how many runs may come out right only when tried again. None is there
// to need luck; but a busy machine can miss a violation even so, and says which.
const mostLucky = 4

// retries tells what was tried again: a violation that was missed, or a run that showed
// nothing or in which the machine stood still, which is its noise.
func retries(t *testing.T, all []outcome.Outcome) {
	t.Helper()
	noise := 0
	var lucky []string
	for _, o := range all {
		for _, why := range o.Retried {
			t.Logf("%s was tried again: %s", o.Scenario, why)
			switch {
			case !strings.Contains(why, suite.Missed), strings.Contains(why, suite.Stalls):
				noise++
			case !slices.Contains(lucky, o.Scenario):
				lucky = append(lucky, o.Scenario)
			}
		}
	}
	t.Logf("tried again: %d runs for the machine's noise; a violation was missed at first in %d: %s", noise, len(lucky), strings.Join(lucky, ", "))
	if len(lucky) > mostLucky {
		t.Errorf("%d runs needed luck, at most %d may", len(lucky), mostLucky)
	}
}
