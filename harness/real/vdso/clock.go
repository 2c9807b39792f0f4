// Package vdso gives a process a wrong clock, like that of a machine with a wrong clock. It rewrites the
// functions in the process's vDSO, through which programs read the time, and therefore works with
// programs in any language.
//
// A Machine holds the wall clock and the monotonic clock of one machine, which runs one process at a
// time. When a process exits, the next one gets the same clocks. ClockState describes the clocks as
// data, for calculations elsewhere. A line maps true time to a clock's time.
//
//	program ──► __vdso_clock_gettime ──► jump ──► clock_gettime, the system call
//	                                               then fake0 + (t − real0) · rate
//	                                               of the control block ◄── Machine.Adjust
//
// A child traced by its parent is patched before its first instruction. A container's program is a
// child of the container engine. It therefore starts as a Gate, which waits for a signal from its
// tracer, inside or outside the container, and then executes the program.
//
// The following are not affected: programs that make the system call themselves, as this package does
// to read true time; sleeps and timeouts, which the kernel measures by its own clock; CPU time; and
// programs that the process executes. The package needs Linux on amd64.
package vdso

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// GateVerb is the first argument of a program that acts as a Gate.
const GateVerb = "__gate"

// ErrSignaled means that a process received a signal from outside while it was being patched.
var ErrSignaled = errors.New("interrupted by a signal")

// line maps true time t to a clock's time from real0 on: fake0 + (t − real0) · rate. All times are
// in nanoseconds, and the unit of rate is 2⁻³². The patched process does the same calculation with
// the same rounding, so that a mere rate change does not cause a jump.
type line struct {
	Real0, Fake0, Rate int64
}

// unitRate is the rate of a correct clock.
const unitRate = 1 << 32

var correctLine = line{Rate: unitRate}

// timeAt returns the clock's time at true time t.
func (l line) timeAt(t int64) int64 {
	d := t - l.Real0
	hi, lo := bits.Mul64(uint64(d), uint64(l.Rate))
	if d < 0 { // Mul64 treated d as d + 2⁶⁴; the rate is never negative
		hi -= uint64(l.Rate)
	}
	return l.Fake0 + int64(hi<<32|lo>>32)
}

// afterChange returns the line from t on if the clock jumps by step nanoseconds and then runs at the
// given rate.
func (l line) afterChange(t, step int64, rate float64) line {
	return line{Real0: t, Fake0: l.timeAt(t) + step, Rate: int64(math.Round(rate * unitRate))}
}

// speed returns the rate as a factor.
func (l line) speed() float64 { return float64(l.Rate) / unitRate }

// ClockOffset returns how far wallClock is ahead of trueClock. The offset changes only when a clock
// is set, but this thread may be preempted between two readings. ClockOffset therefore uses the two
// readings closest together.
func ClockOffset(trueClock, wallClock func() int64) int64 {
	bestOffset, minGap := int64(0), int64(math.MaxInt64)
	for range maxTries {
		from, at, to := trueClock(), wallClock(), trueClock()
		if to-from < minGap {
			bestOffset, minGap = at-from-(to-from)/2, to-from
		}
		if minGap < int64(maxGap) {
			break
		}
	}
	return bestOffset
}

const (
	maxTries = 20                    // attempts to read clocks together or to prepare a change in time
	maxGap   = 10 * time.Microsecond // exceeded by two consecutive readings only if the thread is preempted
)

// ClockState is the state of a machine's clocks as data. It lets a process calculate with clocks
// that another process changes. A line's zero value stands for a correct clock.
type ClockState struct {
	Lines  [2]line `json:"lines"`
	Offset int64   `json:"offset"` // how far the true wall clock is ahead of the true monotonic clock, in nanoseconds
}

const (
	wall      = 0
	monotonic = 1
)

func (s ClockState) line(which int) line {
	if l := s.Lines[which]; l != (line{}) {
		return l
	}
	return correctLine
}

// Rate returns how fast the clocks run; 1 is correct.
func (s ClockState) Rate() float64 { return s.line(wall).speed() }

// Wall returns the wall clock's time at true time t, by CLOCK_MONOTONIC, and the time that a
// correct wall clock would show.
func (s ClockState) Wall(t time.Duration) (wallTime, correct time.Time) {
	trueWall := int64(t) + s.Offset
	return time.Unix(0, s.line(wall).timeAt(trueWall)), time.Unix(0, trueWall)
}

// Monotonic returns the monotonic clock's time at true time t.
func (s ClockState) Monotonic(t time.Duration) time.Duration {
	return time.Duration(s.line(monotonic).timeAt(int64(t)))
}

// AfterChange returns the state after a change at true time at: the wall clock jumps by step and
// then runs at the given rate. If includeMonotonic is set, the rate applies to the monotonic clock
// too.
func (s ClockState) AfterChange(at, step time.Duration, rate float64, includeMonotonic bool) (ClockState, error) {
	if !(rate > 0 && rate <= 1000) {
		return s, fmt.Errorf("change a clock: rate %g is out of range (0, 1000]", rate)
	}
	lines := [2]line{s.line(wall).afterChange(int64(at)+s.Offset, int64(step), rate), s.line(monotonic)}
	if lines[wall].Fake0 <= 0 {
		return s, fmt.Errorf("change a clock by %v: the clock would show a time before 1970", step)
	}
	if includeMonotonic {
		lines[monotonic] = lines[monotonic].afterChange(int64(at), 0, rate)
	}
	return ClockState{lines, s.Offset}, nil
}
