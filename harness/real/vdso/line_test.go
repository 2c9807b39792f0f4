package vdso

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// line.timeAt agrees with arbitrary-precision arithmetic.
func TestLineIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		l := line{Real0: random.Int64N(2e18), Fake0: random.Int64N(2e18), Rate: random.Int64N(8 * unitRate)}
		at := l.Real0 + random.Int64N(1e17) - 5e16
		want := new(big.Int).Mul(big.NewInt(at-l.Real0), big.NewInt(l.Rate))
		want.Rsh(want, 32).Add(want, big.NewInt(l.Fake0))
		if got := l.timeAt(at); !want.IsInt64() || got != want.Int64() {
			t.Fatalf("%+v at %d: %d, want %v", l, at, got, want)
		}
	}
}

func TestLineAdjustments(t *testing.T) {
	const s = int64(1e9)
	if got := correctLine.timeAt(7*s + 1); got != 7*s+1 {
		t.Errorf("a correct clock shows %d", got)
	}
	jumpLine := correctLine.afterChange(10*s, 3*s, 1)
	fastLine := jumpLine.afterChange(20*s, 0, 2)
	slowLine := fastLine.afterChange(30*s, 0, 0.5)
	for _, c := range []struct {
		l        line
		at, want int64
	}{
		{jumpLine, 10 * s, 13 * s}, {jumpLine, 20 * s, 23 * s}, {fastLine, 20 * s, 23 * s}, {fastLine, 30 * s, 43 * s},
		{slowLine, 30 * s, 43 * s}, {slowLine, 40 * s, 48 * s}, {slowLine.afterChange(40*s, -8*s, 1), 41 * s, 41 * s},
	} {
		if got := c.l.timeAt(c.at); got != c.want {
			t.Errorf("%+v shows %d at %d, want %d", c.l, got, c.at, c.want)
		}
	}
}
