//go:build processes || containers

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// tagFlags returns the flags that select scenarios for a real backend: in nightly runs all of them,
// in regular runs only a few, because they take real time.
func tagFlags() []string {
	if night {
		return nil
	}
	return []string{"--tag", "ci"}
}

// containerScenarios lists the scenarios that the process backend can't run, with the reason why.
var containerScenarios = map[string]string{
	"lost-packets":            "packets-link: nodes share this machine's network, and dropping packets needs a network of the node's own",
	"lost-packets/requests":   "packets-link: nodes share this machine's network, and dropping packets needs a network of the node's own",
	"lost-packets/replies":    "packets-link: nodes share this machine's network, and dropping packets needs a network of the node's own",
	"node-starved":            "starve-node: nodes share this machine's processors and memory, without limits of their own",
	"node-starved/memory":     "starve-node: nodes share this machine's processors and memory, without limits of their own",
	"node-unplugged":          "unplug-node: nodes share this machine's network, so none can be unplugged",
	"node-unplugged/majority": "unplug-node: nodes share this machine's network, so none can be unplugged",
}

// simulatedScenarios lists the scenarios that no real backend can run, with the reason why.
var simulatedScenarios = map[string]string{
	"clock-jump/monotonic-expiry": "monotonic-expiry: this backend does not have it", // Redis uses the wall clock
	"weak-token":                  "exact-instants: this backend does not have it",   // two starts within a microsecond
	"weak-token/random-bytes":     "exact-instants: this backend does not have it",
}

// notSkipped returns the runs that were not skipped. It checks that skipped scenarios are in lists,
// with that reason. In nightly runs, which cover the whole catalog, all scenarios in lists must
// have been skipped.
func notSkipped(t *testing.T, all []outcome.Outcome, lists ...map[string]string) []outcome.Outcome {
	t.Helper()
	reasons := map[string]string{}
	for _, list := range lists {
		maps.Copy(reasons, list)
	}
	numSkipped := 0
	for _, o := range all {
		if o.Skipped != reasons[o.Scenario] {
			t.Errorf("%s: skipped for %q, want %q", o.Scenario, o.Skipped, reasons[o.Scenario])
		}
		if o.Skipped != "" {
			numSkipped++
		}
	}
	if night && numSkipped != len(reasons) {
		t.Errorf("%d scenarios skipped, want %d", numSkipped, len(reasons))
	}
	return slices.DeleteFunc(all, func(o outcome.Outcome) bool { return o.Skipped != "" })
}

// maxRetriedRuns is the number of runs that may need a retry to show their violation. No scenario should
// depend on luck, but on an overloaded machine a violation can fail to occur. The test logs these
// runs.
const maxRetriedRuns = 4

// logRetries logs retried runs, and distinguishes between runs that missed a violation and runs that
// showed nothing because of load on the machine, such as a host stall.
func logRetries(t *testing.T, all []outcome.Outcome) {
	t.Helper()
	numNoise := 0
	var luckyScenarios []string
	for _, o := range all {
		for _, reason := range o.RetryReasons {
			t.Logf("%s was retried: %s", o.Scenario, reason)
			switch {
			case !strings.Contains(reason, campaign.MissedReason), strings.Contains(reason, campaign.StallReason):
				numNoise++
			case !slices.Contains(luckyScenarios, o.Scenario):
				luckyScenarios = append(luckyScenarios, o.Scenario)
			}
		}
	}
	t.Logf("retried: %d runs because of load on the machine; %d because they first missed a violation: %s", numNoise, len(luckyScenarios), strings.Join(luckyScenarios, ", "))
	if len(luckyScenarios) > maxRetriedRuns {
		t.Errorf("%d runs needed a retry to show their violation, want at most %d", len(luckyScenarios), maxRetriedRuns)
	}
}
