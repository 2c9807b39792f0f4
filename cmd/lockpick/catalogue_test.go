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

// tagged chooses what of the catalogue is run on a real backend: all of it at night, and
// by day what real time has room for.
func tagged() []string {
	if night {
		return nil
	}
	return []string{"--tag", "ci"}
}

// containersOnly is what no process can show, and why.
var containersOnly = map[string]string{
	"lost-packets":            "packets-link: nodes share this machine's network, and dropping packets needs a network of the node's own",
	"lost-packets/requests":   "packets-link: nodes share this machine's network, and dropping packets needs a network of the node's own",
	"lost-packets/replies":    "packets-link: nodes share this machine's network, and dropping packets needs a network of the node's own",
	"node-starved":            "starve-node: nodes share this machine's processors and memory, without limits of their own",
	"node-starved/memory":     "starve-node: nodes share this machine's processors and memory, without limits of their own",
	"node-unplugged":          "unplug-node: nodes share this machine's network, so none can be unplugged",
	"node-unplugged/majority": "unplug-node: nodes share this machine's network, so none can be unplugged",
}

// simulatedOnly is what no real server can show, and why.
var simulatedOnly = map[string]string{
	"clock-jump/monotonic-expiry": "monotonic-expiry: this backend does not have it", // Redis goes by the wall clock
	"weak-token":                  "exact-instants: this backend does not have it",   // two starts within a microsecond
	"weak-token/random-bytes":     "exact-instants: this backend does not have it",
}

// able is the runs that were not skipped. Those of lists were, each for the reason there,
// and no others may be; at night, when all are run, each of the lists has to be among them.
func able(t *testing.T, all []outcome.Outcome, lists ...map[string]string) []outcome.Outcome {
	t.Helper()
	why := map[string]string{}
	for _, list := range lists {
		maps.Copy(why, list)
	}
	seen := 0
	for _, o := range all {
		if o.Skipped != why[o.Scenario] {
			t.Errorf("%s was skipped for %q, want %q", o.Scenario, o.Skipped, why[o.Scenario])
		}
		if o.Skipped != "" {
			seen++
		}
	}
	if night && seen != len(why) {
		t.Errorf("%d skipped for what this backend has not, want %d", seen, len(why))
	}
	return slices.DeleteFunc(all, func(o outcome.Outcome) bool { return o.Skipped != "" })
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
			case !strings.Contains(why, campaign.Missed), strings.Contains(why, campaign.Stalls):
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
