package history_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"lockpick/harness/history"
)

func Example() {
	p := history.NewMaxTree([]int64{3, 1, 7, 4, 9})
	fmt.Println(p.Next(0, 4), p.Next(3, 5), p.Next(0, 10))
	// Output: 2 4 5
}

// Next gives the same results as a linear scan of short lists.
func TestMaxTreeAgainstScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		for range 20 {
			values := make([]int64, n)
			for i := range values {
				values[i] = []int64{math.MinInt64, math.MaxInt64, rng.Int64N(5), rng.Int64N(5), -rng.Int64N(5)}[rng.IntN(5)]
			}
			p := history.NewMaxTree(values)
			for from := range n + 1 {
				for _, threshold := range []int64{math.MinInt64, -3, 0, 1, 2, 3, 4, 5, math.MaxInt64} {
					want := from + max(0, slices.IndexFunc(values[from:], func(h int64) bool { return h >= threshold }))
					if !slices.ContainsFunc(values[from:], func(h int64) bool { return h >= threshold }) {
						want = n
					}
					if got := p.Next(from, threshold); got != want {
						t.Fatalf("%v: first index from %d with a value of at least %d: got %d, want %d", values, from, threshold, got, want)
					}
				}
			}
		}
	}
}
