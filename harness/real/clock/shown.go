package clock

import (
	"fmt"
	"time"
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
