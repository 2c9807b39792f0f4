// Package vdso gives a process a wrong clock, as a machine whose clock is wrong
// would: by rewriting the functions of its vDSO, through which programs read the
// time, so that it reaches any program, whatever it is written in.
//
// Its noun is Machine: the wall clock and the monotonic clock of one machine, on
// which one process runs at a time. They stay as wrong as they are when it ends
// and another starts. Shown is what they show, as data for those who reckon with it
// elsewhere. A line says what a clock shows at an instant of true time.
//
//	program ──► __vdso_clock_gettime ──► jump ──► clock_gettime, the system call
//	                                               then fake0 + (t − real0) · rate
//	                                               of the control block ◄── Machine.Turn
//
// A child that its parent traces is patched before its first instruction. So is the
// program of a container, whose parent is the engine's: it starts as a Gate, which waits
// for a signal of one that traces it, inside of the container or outside, and executes
// the program then.
//
// What it does not reach: programs that make the system call themselves, which
// is how true time is read; sleeps and time-outs, which the kernel counts by its
// own clock; CPU time; programs that the process executes. It needs Linux on amd64.
package vdso

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// GateVerb is the argument by which a program of ours becomes a Gate, its first.
const GateVerb = "__gate"

// ErrSignaled says that somebody sent a signal to a process just as it was patched.
var ErrSignaled = errors.New("a signal came from outside")

// line is what a clock shows: fake0 + (t − real0) · rate, from real0 on. All are
// nanoseconds; rate is in units of 2⁻³². The patched process calculates the same
// with the same rounding, so that a change of rate alone is no jump.
type line struct {
	Real0, Fake0, Rate int64
}

// one is the rate of a clock that is right.
const one = 1 << 32

var right = line{Rate: one}

// at is what the clock shows at t.
func (l line) at(t int64) int64 {
	d := t - l.Real0
	hi, lo := bits.Mul64(uint64(d), uint64(l.Rate))
	if d < 0 { // Mul64 took it for 2⁶⁴ more; rate is never negative
		hi -= uint64(l.Rate)
	}
	return l.Fake0 + int64(hi<<32|lo>>32)
}

// turned is the line from t on, once the clock was set by `by` and runs at rate.
func (l line) turned(t, by int64, rate float64) line {
	return line{Real0: t, Fake0: l.at(t) + by, Rate: int64(math.Round(rate * one))}
}

// speed is the rate as a number.
func (l line) speed() float64 { return float64(l.Rate) / one }

// Ahead is how far the clock wall is ahead of the clock true. It changes only where
// somebody sets one, but this thread may be kept waiting between two readings: the closest
// of some tries counts.
func Ahead(true, wall func() int64) int64 {
	best, apart := int64(0), int64(math.MaxInt64)
	for range mostTries {
		from, at, to := true(), wall(), true()
		if to-from < apart {
			best, apart = at-from-(to-from)/2, to-from
		}
		if apart < int64(soon) {
			break
		}
	}
	return best
}

const (
	mostTries = 20                    // how often clocks are read together, or a change is prepared that was late
	soon      = 10 * time.Microsecond // two readings in a row take no longer, where nothing comes between
)

// Shown is what the clocks of a machine show, as data: by it one process reckons
// with clocks that another turns. Zero lines are clocks that are right.
type Shown struct {
	Lines  [2]line `json:"lines"`
	Offset int64   `json:"offset"` // how far the true wall clock is ahead of the true monotonic one
}

const (
	wall      = 0
	monotonic = 1
)

func (s Shown) line(which int) line {
	if l := s.Lines[which]; l != (line{}) {
		return l
	}
	return right
}

// Rate is how fast the clocks run, where 1 is right.
func (s Shown) Rate() float64 { return s.line(wall).speed() }

// Wall is what the wall clock shows at an instant of true time, which is given by
// CLOCK_MONOTONIC, and what it would show if it were right.
func (s Shown) Wall(t time.Duration) (shown, true time.Time) {
	real := int64(t) + s.Offset
	return time.Unix(0, s.line(wall).at(real)), time.Unix(0, real)
}

// Mono is what the monotonic clock shows at an instant of true time.
func (s Shown) Mono(t time.Duration) time.Duration {
	return time.Duration(s.line(monotonic).at(int64(t)))
}

// Turned is what they show once, at an instant of true time, the wall clock was set
// by `by` and began to run at rate, and with it the monotonic clock if both do.
func (s Shown) Turned(at, by time.Duration, rate float64, both bool) (Shown, error) {
	if !(rate > 0 && rate <= 1000) {
		return s, fmt.Errorf("turn a clock: a rate of %g is not above 0 and up to 1000", rate)
	}
	lines := [2]line{s.line(wall).turned(int64(at)+s.Offset, int64(by), rate), s.line(monotonic)}
	if lines[wall].Fake0 <= 0 {
		return s, fmt.Errorf("turn a clock by %v: it would show a time before 1970", by)
	}
	if both {
		lines[monotonic] = lines[monotonic].turned(int64(at), 0, rate)
	}
	return Shown{lines, s.Offset}, nil
}
