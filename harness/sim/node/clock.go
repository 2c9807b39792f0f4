package node

// Clock is a machine's wall clock, which need not be right: from the instant
// since of true time it runs on from base at rate. All in nanoseconds.
type Clock struct {
	base, since int64
	rate        float64
	trueNow     func() int64
}

// NewClock returns a clock that is right: it shows base now and keeps pace with trueNow.
func NewClock(base int64, trueNow func() int64) *Clock {
	return &Clock{base: base, since: trueNow(), rate: 1, trueNow: trueNow}
}

// Now is what the clock shows, in nanoseconds since 1970.
func (c *Clock) Now() int64 {
	passed := c.trueNow() - c.since
	if c.rate == 1 { // a float64 is too coarse for nanoseconds of days
		return c.base + passed
	}
	return c.base + int64(float64(passed)*c.rate)
}

// millis is the clock as expiry sees it.
func (n *Node) millis() int64 { return n.config.Clock.Now() / 1e6 }
