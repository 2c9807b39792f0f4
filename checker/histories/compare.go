package histories

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"lockpick/harness/history/facts"
)

// Compare holds what a judge keeps in order to what one would find who had all the time in
// the world: it asks each check of 3,000 upheavals, as the judge reads them, for both.
func Compare[R any](t *testing.T, read func(*facts.Facts) R, checks map[string]func(*rand.Rand, R) (got, want string)) {
	t.Helper()
	for seed := range uint64(3000) {
		r := facts.Read(Upheaval(seed))
		if r.Malformed != "" {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, what := range slices.Sorted(maps.Keys(checks)) {
			if got, want := checks[what](rng, read(r)); got != want {
				t.Fatalf("seed %d: %s: got %s, want %s", seed, what, got, want)
			}
		}
	}
}
