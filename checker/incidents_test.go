package checker

import (
	"cmp"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/internal/histories"
)

// Incidents returns as many incidents as the verdict counts, ordered by time. Exactly one of them
// is the violation shown in the verdict, with the same text.
func TestIncidentsMatchVerdict(t *testing.T) {
	checkIncidents(t, histories.NumCases(600))
}

func checkIncidents(t *testing.T, numRandom int) {
	t.Helper()
	multipleCounts := map[string]int{}
	check := func(name string, h *history.History) {
		t.Helper()
		for _, res := range Check(h).Results {
			if res.Outcome != verdict.Violated {
				continue
			}
			all := Incidents(h, res.Property, math.MaxInt)
			if len(all) != res.Incidents {
				t.Fatalf("%s: %d incidents of %s, but the verdict counts %d", name, len(all), res.Property, res.Incidents)
			}
			shown := 0
			for i, x := range all {
				if x.Outcome != verdict.Violated || x.Because == "" || len(x.Witness.Events) == 0 || i > 0 && x.Witness.From < all[i-1].Witness.From {
					t.Fatalf("%s: incident %d of %s: %+v", name, i, res.Property, x)
				}
				if x.Witness.SameViolation(res.Witness) && strings.HasPrefix(res.Because, x.Because) {
					shown++
				}
			}
			if shown != 1 {
				t.Fatalf("%s: %s shows %q, which matches %d incidents: %+v", name, res.Property, res.Because, shown, all)
			}
			if len(all) > 1 {
				multipleCounts[res.Property]++
				if first := Incidents(h, res.Property, 1); len(first) != 1 || !first[0].Witness.SameViolation(all[0].Witness) {
					t.Fatalf("%s: the first incident of %s is %+v, want %+v", name, res.Property, first, all[0])
				}
			}
		}
	}
	for name, h := range testdataHistories(t) {
		check(name, h)
		check(name+" twice", duplicate(h))
	}
	rnd := rand.New(rand.NewPCG(15, 1))
	for range numRandom {
		check("random", histories.Random(rnd))
		check("upheaval", histories.RandomWithFaults(rnd.Uint64()))
		h := histories.Random(rnd)
		h.Params.NoLossNotice = true
		check("random, unnotified", h)
	}
	t.Logf("histories with several incidents: %v", multipleCounts)
	for _, name := range Properties() {
		if multipleCounts[name] == 0 {
			t.Errorf("no history violates %s twice", name)
		}
	}
}

// duplicate returns the history with a copy of each client, lock and account. The copies do the
// same as the originals at the same time.
func duplicate(h *history.History) *history.History {
	namePattern := regexp.MustCompile(`\b(c\d+|lock-|acct-)`)
	copyName := func(name string) string { return namePattern.ReplaceAllString(name, "x$1") }
	doubled := &history.History{Params: h.Params, Truncation: h.Truncation, Events: slices.Clone(h.Events)}
	for _, c := range h.Params.Clients {
		doubled.Params.Clients = append(doubled.Params.Clients, copyName(c))
	}
	for _, e := range h.Events {
		copied := e
		copied.Process, copied.Key, copied.Session, copied.Node = copyName(e.Process), copyName(e.Key), copyName(e.Session), copyName(e.Node)
		if copied.Process == e.Process && copied.Key == e.Key && copied.Node == e.Node {
			continue // an event of a node or of the run
		}
		doubled.Events = append(doubled.Events, copied)
	}
	slices.SortStableFunc(doubled.Events, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	for i := range doubled.Events {
		doubled.Events[i].N = int64(i + 1)
	}
	return doubled
}
