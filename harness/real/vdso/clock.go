// Package vdso gives a process a wrong clock, like that of a machine whose clock is wrong. It rewrites
// the functions of the process's vDSO, through which programs read the time. Therefore it works with
// programs in any language.
//
// A Machine holds the wall clock and the monotonic clock of one machine, on which one process runs at a
// time. They stay wrong when that process exits and another one starts. ClockState describes the clocks as data, for
// calculations elsewhere. A line maps true time to the time that a clock shows.
//
//	program ──► __vdso_clock_gettime ──► jump ──► clock_gettime, the system call
//	                                               then fake0 + (t − real0) · rate
//	                                               of the control block ◄── Machine.Adjust
//
// A child that its parent traces is patched before its first instruction. The program of a container is
// a child of the container engine. It therefore starts as a Gate, which waits for a signal from its
// tracer, inside or outside of the container, and then executes the program.
//
// The following are not affected: programs that make the system call themselves, as this package does to
// read true time; sleeps and timeouts, which the kernel measures by its own clock; CPU time; and programs
// that the process executes. The package needs Linux on amd64.
package vdso

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// GateVerb is the first argument that makes one of our programs act as a Gate.
const GateVerb = "__gate"

// ErrSignaled reports that a process received an external signal while it was being patched.
var ErrSignaled = errors.New("a signal came from outside")

// line maps true time t to the time that a clock shows, from real0 on: fake0 + (t − real0) · rate.
// All times are in nanoseconds. The unit of rate is 2⁻³². The patched process does the same
// calculation with the same rounding, so that changing only the rate does not cause a jump.
type line struct {
	Real0, Fake0, Rate int64
}

// unitRate is the rate of a correct clock.
const unitRate = 1 << 32

var correctLine = line{Rate: unitRate}

// at returns the time that the clock shows at t.
func (l line) at(t int64) int64 {
	d := t - l.Real0
	hi, lo := bits.Mul64(uint64(d), uint64(l.Rate))
	if d < 0 { // Mul64 took d for 2⁶⁴ more; the rate is never negative
		hi -= uint64(l.Rate)
	}
	return l.Fake0 + int64(hi<<32|lo>>32)
}

// adjusted returns the line that applies from t on if the clock is moved by the duration by and
// then runs at the given rate.
func (l line) adjusted(t, by int64, rate float64) line {
	return line{Real0: t, Fake0: l.at(t) + by, Rate: int64(math.Round(rate * unitRate))}
}

// speed returns the rate as a factor.
func (l line) speed() float64 { return float64(l.Rate) / unitRate }

// ClockOffset returns how far the clock wall is ahead of the clock true. The offset changes only
// when a clock is set, but this thread may be preempted between two readings. Therefore
// ClockOffset uses the two readings that are closest together.
func ClockOffset(true, wall func() int64) int64 {
	best, apart := int64(0), int64(math.MaxInt64)
	for range maxTries {
		from, at, to := true(), wall(), true()
		if to-from < apart {
			best, apart = at-from-(to-from)/2, to-from
		}
		if apart < int64(maxGap) {
			break
		}
	}
	return best
}

const (
	maxTries = 20                    // maximum number of attempts to read clocks together or to prepare a change in time
	maxGap   = 10 * time.Microsecond // two consecutive readings take less than this unless the thread is preempted
)

// ClockState is the state of a machine's clocks as data, which allows one process to calculate
// with clocks that another process changes. The zero value of a line stands for a correct clock.
type ClockState struct {
	Lines  [2]line `json:"lines"`
	Offset int64   `json:"offset"` // how far the true wall clock is ahead of the true monotonic clock
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

// Rate returns how fast the clocks run. The rate of a correct clock is 1.
func (s ClockState) Rate() float64 { return s.line(wall).speed() }

// Wall returns what the wall clock shows at an instant of true time, and what it would show if it
// were correct. The instant is given as a reading of CLOCK_MONOTONIC.
func (s ClockState) Wall(t time.Duration) (shown, true time.Time) {
	real := int64(t) + s.Offset
	return time.Unix(0, s.line(wall).at(real)), time.Unix(0, real)
}

// Mono returns what the monotonic clock shows at an instant of true time.
func (s ClockState) Mono(t time.Duration) time.Duration {
	return time.Duration(s.line(monotonic).at(int64(t)))
}

// Adjusted returns the state after a change at an instant of true time: the wall clock is moved by
// the duration shift and then runs at the given rate. If both is set, the rate also applies to the
// monotonic clock.
func (s ClockState) Adjusted(at, shift time.Duration, rate float64, both bool) (ClockState, error) {
	if !(rate > 0 && rate <= 1000) {
		return s, fmt.Errorf("change a clock: rate %g is not above 0 and at most 1000", rate)
	}
	lines := [2]line{s.line(wall).adjusted(int64(at)+s.Offset, int64(shift), rate), s.line(monotonic)}
	if lines[wall].Fake0 <= 0 {
		return s, fmt.Errorf("change a clock by %v: it would show a time before 1970", shift)
	}
	if both {
		lines[monotonic] = lines[monotonic].adjusted(int64(at), 0, rate)
	}
	return ClockState{lines, s.Offset}, nil
}
