package checker

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A rank by selection is that of the sorted values, whatever they are and whichever ranks
// were asked for before.
func TestRankIsOfTheSortedValues(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		n, most := 1+r.IntN(200), 1+r.Int64N(300)
		values := make([]int64, n)
		for i := range values {
			values[i] = r.Int64N(most) - most/2
		}
		switch r.IntN(4) {
		case 0:
			slices.Sort(values)
		case 1:
			slices.SortFunc(values, func(a, b int64) int { return int(b - a) })
		case 2: // organ pipes, which the middle of three finds hard
			for i := range values {
				values[i] = int64(min(i, n-i))
			}
		}
		sorted := slices.Sorted(slices.Values(values))
		for _, q := range []float64{0, 0.01, 0.5, r.Float64(), 0.99, 1} {
			want := sorted[max(0, int(math.Ceil(q*float64(n)))-1)]
			if got := nth(values, max(0, int(math.Ceil(q*float64(n)))-1)); got != want {
				t.Fatalf("rank %v of %v is %d, and should be %d", q, sorted, got, want)
			}
		}
		if !slices.Equal(slices.Sorted(slices.Values(values)), sorted) {
			t.Fatalf("the values were %v, and are %v", sorted, values)
		}
	}
}
