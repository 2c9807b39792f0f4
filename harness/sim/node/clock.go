package node

import (
	"math"
	"time"
)

// Clock is a machine's clock, which need not be right: from the instant since of
// true time it runs on from base, drift parts in 10⁹ too fast. All in nanoseconds.
type Clock struct {
	base, since int64
	drift       int64
	set         int64 // how far it was set, all in all
	trueNow     func() int64
}

// NewClock returns a clock that is right: it shows base now and keeps pace with trueNow.
func NewClock(base int64, trueNow func() int64) *Clock {
	return &Clock{base: base, since: trueNow(), trueNow: trueNow}
}

// Now is what the clock shows, in nanoseconds since 1970.
func (c *Clock) Now() int64 { return c.At(c.trueNow()) }

// At is what it shows at an instant of true time, if it isn't turned meanwhile.
func (c *Clock) At(t int64) int64 {
	passed := t - c.since
	if c.drift == 0 { // a float64 is too coarse for nanoseconds of days
		return c.base + passed
	}
	return c.base + passed + int64(float64(passed)*(float64(c.drift)/1e9))
}

// Turn sets the clock forward by a time, or back, and lets it run at rate from now on.
func (c *Clock) Turn(by time.Duration, rate float64) {
	c.base, c.since = c.Now()+int64(by), c.trueNow()
	c.set += int64(by)
	c.drift = int64(math.Round((rate - 1) * 1e9))
}

// Drift is how much too fast the clock runs, in parts of 10⁹.
func (c *Clock) Drift() int64 { return c.drift }

// Until is how much true time passes until the clock shows t, if it isn't turned meanwhile.
func (c *Clock) Until(t int64) time.Duration {
	left := t - c.Now()
	if c.drift == 0 {
		return time.Duration(left)
	}
	return time.Duration(math.Ceil(float64(left) / (1 + float64(c.drift)/1e9)))
}
