package outcome

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The expected values come from bisecting the score test with 40 decimal digits. The last four are
// examples from R. G. Newcombe, "Two-sided confidence intervals for the single proportion",
// Statistics in Medicine 17 (1998), which gives four digits.
func TestWilson(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{
		{0, 0, 0, 1},
		{0, 1, 0, 0.793451},
		{0, 10, 0, 0.277533},
		{1, 10, 0.017876, 0.404150},
		{5, 10, 0.236593, 0.763407},
		{10, 10, 0.722467, 1},
		{0, 1000, 0, 0.003827},
		{37, 1000, 0.026961, 0.050582},
		{0, 10000, 0, 0.000384},
		{10000, 10000, 0.999616, 1},
		{81, 263, 0.255289, 0.366210},
		{15, 148, 0.062386, 0.160487},
		{0, 20, 0, 0.161125},
		{1, 29, 0.006113, 0.171755},
	} {
		low, high := Wilson(c.k, c.n)
		if math.Abs(low-c.low) > 1e-6 || math.Abs(high-c.high) > 1e-6 {
			t.Errorf("%d of %d: %.6f to %.6f, want %.6f to %.6f", c.k, c.n, low, high, c.low, c.high)
		}
	}
}

// The bounds solve the equation of the score test: |p − x| = z·√(x(1−x)/n).
func TestWilsonSolvesScoreTest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		n := 1 + rnd.IntN(1<<rnd.IntN(24))
		k := rnd.IntN(n + 1)
		p := float64(k) / float64(n)
		low, high := Wilson(k, n)
		if !(0 <= low && low <= p && p <= high && high <= 1 && low < high) {
			t.Fatalf("%d of %d: %g to %g", k, n, low, high)
		}
		for _, x := range []float64{low, high} {
			if d := math.Abs(math.Abs(p-x) - z*math.Sqrt(x*(1-x)/float64(n))); d > 1e-9 {
				t.Fatalf("%d of %d: bound %g is off by %g", k, n, x, d)
			}
		}
		if l, h := Wilson(n-k, n); math.Abs(1-h-low) > 1e-12 || math.Abs(1-l-high) > 1e-12 {
			t.Fatalf("%d of %d: the interval does not mirror the one of %d", k, n, n-k)
		}
	}
}

func TestRate(t *testing.T) {
	for _, c := range []struct {
		k, n int
		want string
	}{
		{37, 1000, "37 of 1000 (3.7 %, 95 %: 2.7–5.1 %)"},
		{0, 1000, "0 of 1000: at most 0.38 %"},
		{0, 10000, "0 of 10000: at most 0.038 %"},
		{20, 20, "20 of 20 (100 %, 95 %: 83.9–100 %)"},
		{1000, 1000, "1000 of 1000 (100 %, 95 %: 99.62–100 %)"},
		{1, 3000000, "1 of 3000000 (0.000033 %, 95 %: 0.0000059–0.00019 %)"},
		{59, 200, "59 of 200 (29.5 %, 95 %: 23.6–36.2 %)"},
		{10, 20, "10 of 20 (50 %, 95 %: 29.9–70.1 %)"},
	} {
		if got := Rate(c.k, c.n); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
