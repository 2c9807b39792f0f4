//go:build nightly && !windows

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/lock/broken"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// maxSeeds is the maximum number of random plans to try per lock.
const maxSeeds = 200

// randomPlan is a scenario whose random plans stay within the assumptions. Under these plans the
// reference lock violates only the order of fencing tokens, so any other violation is due to the
// mistake.
const randomPlan = "random-within-assumptions/extending"

// batchSize is the number of seeds tried at once. It makes the reported seed independent of the number
// of workers.
const batchSize = 20

// TestBrokenLocksUnderRandomPlans lists the broken locks that random plans catch: the lock violates
// some property that the reference lock does not violate under the same plan. The other broken
// locks need situations that random plans rarely create but scenarios of the catalog do.
func TestBrokenLocksUnderRandomPlans(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	h := seedSearch{t, campaign.Pool{Command: []string{build(t), workerVerb}, Size: 2, Timeout: defaultTimeout}, map[string][]string{}}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "mistake\tplan\tproperty\tcause\tseed")
	numCaught := 0
	for _, m := range broken.Mistakes() {
		seed, violation := h.firstCatchingSeed(ctx, m.Name)
		switch {
		case ctx.Err() != nil:
			t.Fatalf("timeout while searching for %s", m.Name)
		case seed == 0:
			fmt.Fprintf(table, "%s\t%s\t\t\tnot within %d\n", m.Name, randomPlan, maxSeeds)
		default:
			numCaught++
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\n", m.Name, randomPlan, violation.Property, violation.Cause, seed)
		}
	}
	fmt.Fprintf(table, "caught: %d of %d\n", numCaught, len(broken.Mistakes()))
	if numCaught == 0 {
		t.Error("random plans catch none of the broken locks")
	}
}

// A seedSearch looks for seeds whose plans catch a broken lock.
type seedSearch struct {
	t              *testing.T
	pool           campaign.Pool
	referenceCache map[string][]string // properties that the reference lock violates, by overrides and seed
}

// firstCatchingSeed returns the first seed with which the broken lock violates a property that the
// reference lock does not violate, and that violation. If there is none, it returns 0.
func (h seedSearch) firstCatchingSeed(ctx context.Context, mistake string) (uint64, outcome.Judgement) {
	var overrides []string
	if !strings.HasPrefix(mistake, "fence-") { // few of the others can issue fencing tokens
		overrides = []string{"lock.fence=false", "workload.fence=none"}
	}
	brokenPick := findPick(h.t, randomPlan, append([]string{"lock.kind=broken", "lock.mistake=" + mistake}, overrides...)...)
	referencePick := findPick(h.t, randomPlan, overrides...)
	for from := uint64(1); from <= maxSeeds && ctx.Err() == nil; from += batchSize {
		for i, seedViolations := range h.violations(ctx, brokenPick, from, batchSize) {
			if len(seedViolations) == 0 {
				continue
			}
			seed := from + uint64(i)
			referenceProperties := h.referenceViolations(ctx, referencePick, fmt.Sprint(overrides, seed), seed)
			for _, j := range seedViolations {
				if !slices.Contains(referenceProperties, j.Property) {
					return seed, j
				}
			}
		}
	}
	return 0, outcome.Judgement{}
}

func (h seedSearch) referenceViolations(ctx context.Context, s pick, name string, seed uint64) []string {
	properties, ok := h.referenceCache[name]
	if !ok {
		for _, j := range h.violations(ctx, s, seed, 1)[0] {
			properties = append(properties, j.Property)
		}
		h.referenceCache[name] = properties
	}
	return properties
}

// violations returns the violations with each of the n seeds that start at from.
func (h seedSearch) violations(ctx context.Context, s pick, from uint64, n int) [][]outcome.Judgement {
	all := make([][]outcome.Judgement, n)
	h.pool.Run(ctx, n, func(i int) campaign.Job {
		return campaign.Job{Scenario: s.Scenario, Seed: from + uint64(i), Backend: simulation, Keep: campaign.KeepNone}
	}, func(i int, o outcome.Outcome) {
		if o.Error != "" || o.Skipped != "" {
			h.t.Errorf("%s, seed %d: %s%s", s.ID(), o.Seed, o.Error, o.Skipped)
		}
		all[i] = slices.DeleteFunc(o.Judgements, func(j outcome.Judgement) bool { return j.Got != verdict.Violated })
	})
	return all
}
