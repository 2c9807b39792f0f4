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

// maxSeeds is how many seeds random plans have to catch a lock.
const maxSeeds = 200

// randomPlan is the plan that is drawn. Within its assumptions the reference is
// violated in nothing but the order of its fencing tokens, so that what else comes to
// light is the mistake's. Beyond them one could not tell whose a violation is.
const randomPlan = "random-within-assumptions/extending"

// batch is how many seeds are tried before one looks whether any caught the lock, so that
// the seed told is the first, however many workers there are.
const batch = 20

// TestBrokenLocksUnderRandomPlans tells which of the locks random plans catch, though
// nobody has told them what to look for: by a violation that the reference does not
// show under the same plan. What they miss needs a situation that no dice make, and the
// catalogue's scenario shows it all the same.
func TestBrokenLocksUnderRandomPlans(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	h := search{t, campaign.Pool{Command: []string{build(t), workerVerb}, Size: 2, Patience: patience}, map[string][]string{}}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "mistake\tplan\tproperty\tcause\tseed")
	caught := 0
	for _, m := range broken.Mistakes() {
		seed, what := h.first(ctx, m.Name)
		switch {
		case ctx.Err() != nil:
			t.Fatalf("time is over at %s", m.Name)
		case seed == 0:
			fmt.Fprintf(table, "%s\t%s\t\t\tnot within %d\n", m.Name, randomPlan, maxSeeds)
		default:
			caught++
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\n", m.Name, randomPlan, what.Property, what.Cause, seed)
		}
	}
	fmt.Fprintf(table, "caught: %d of %d\n", caught, len(broken.Mistakes()))
	if caught == 0 {
		t.Error("random plans catch no lock at all")
	}
}

// search is for seeds whose plan catches a lock.
type search struct {
	t          *testing.T
	pool       campaign.Pool
	references map[string][]string // properties that the reference violates, by its settings and the seed
}

// first is the first seed whose plan shows something that the reference does not show
// under it, and what; 0 if none does.
func (h search) first(ctx context.Context, mistake string) (uint64, outcome.Judgement) {
	var sets []string
	if !strings.HasPrefix(mistake, "fence-") { // few of the others can hand out fencing tokens
		sets = []string{"lock.fence=false", "workload.fence=none"}
	}
	wrong := drawnScenario(h.t, randomPlan, append([]string{"lock.kind=broken", "lock.mistake=" + mistake}, sets...)...)
	right := drawnScenario(h.t, randomPlan, sets...)
	for from := uint64(1); from <= maxSeeds && ctx.Err() == nil; from += batch {
		for i, found := range h.violations(ctx, wrong, from, batch) {
			if len(found) == 0 {
				continue
			}
			seed := from + uint64(i)
			had := h.reference(ctx, right, fmt.Sprint(sets, seed), seed)
			for _, j := range found {
				if !slices.Contains(had, j.Property) {
					return seed, j
				}
			}
		}
	}
	return 0, outcome.Judgement{}
}

func (h search) reference(ctx context.Context, s pick, name string, seed uint64) []string {
	had, ok := h.references[name]
	if !ok {
		for _, j := range h.violations(ctx, s, seed, 1)[0] {
			had = append(had, j.Property)
		}
		h.references[name] = had
	}
	return had
}

// violations is what was violated with each of n seeds.
func (h search) violations(ctx context.Context, s pick, from uint64, n int) [][]outcome.Judgement {
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
