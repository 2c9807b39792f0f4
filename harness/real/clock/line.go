package clock

import (
	"math"
	"math/bits"
)

// line is what a clock shows: fake0 + (t − real0) · rate, from real0 on. All are
// nanoseconds; rate is in units of 2⁻³². The patched process calculates the same
// with the same rounding, so that a change of rate alone is no jump.
type line struct {
	real0, fake0, rate int64
}

// one is the rate of a clock that is right.
const one = 1 << 32

var right = line{rate: one}

// at is what the clock shows at t.
func (l line) at(t int64) int64 {
	d := t - l.real0
	hi, lo := bits.Mul64(uint64(d), uint64(l.rate))
	if d < 0 { // Mul64 took it for 2⁶⁴ more; rate is never negative
		hi -= uint64(l.rate)
	}
	return l.fake0 + int64(hi<<32|lo>>32)
}

// turned is the line from t on, once the clock was set by `by` and runs at rate.
func (l line) turned(t, by int64, rate float64) line {
	return line{real0: t, fake0: l.at(t) + by, rate: int64(math.Round(rate * one))}
}

// speed is the rate as a number.
func (l line) speed() float64 { return float64(l.rate) / one }
