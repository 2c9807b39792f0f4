package checker

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A sieve's ranks are those of the sorted values, whether they lie in few of its parts or in
// many, and at the ends of what a stamp can be.
func TestSieveIsOfTheSortedValues(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shares := []float64{0, 0.01, 0.5, 0.99, 1}
	for range 2_000 {
		values := make([]int64, 1+r.IntN(300))
		spread := int64(1) << r.IntN(63)
		for i := range values {
			values[i] = r.Int64N(spread) - spread/2
		}
		if r.IntN(4) == 0 { // which leaves the others to one part
			values[0] = math.MaxInt64
		}
		if r.IntN(4) == 0 {
			values[len(values)-1] = math.MinInt64
		}
		v := newSieve(shares...)
		for range sieveLooks {
			for _, x := range values {
				v.see(x)
			}
			v.next()
		}
		slices.Sort(values)
		if v.count != len(values) || v.least != values[0] || v.most != values[len(values)-1] {
			t.Fatalf("%d values from %d to %d: %v", v.count, v.least, v.most, values)
		}
		for i, q := range shares {
			want := values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
			if got := v.rank(i); got != want {
				t.Fatalf("rank %v of %v is %d, and should be %d", q, values, got, want)
			}
		}
	}
	none := newSieve(shares...)
	for range sieveLooks {
		none.next()
	}
	if none.count != 0 {
		t.Error(none.count)
	}
}
