package real

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"lockpick/harness/real/proc"
	"lockpick/harness/resp"
)

// Told is the reading of a node's clock that a reply to TIME is, which was asked for and
// given between two instants of true time.
func ReadTime(v resp.Value, from, to time.Duration) (ClockReading, error) {
	if len(v.Items) != 2 {
		return ClockReading{}, fmt.Errorf("TIME answers %d values, want 2: %s", len(v.Items), v.Str)
	}
	seconds, err1 := strconv.ParseInt(v.Items[0].Str, 10, 64)
	micros, err2 := strconv.ParseInt(v.Items[1].Str, 10, 64)
	return ClockReading{From: from, To: to, Wall: seconds*1e9 + micros*1e3}, cmp.Or(err1, err2)
}

// tellBound is within what time a client that runs tells its clocks.
const tellBound = 2 * time.Second

// errPaused says that a client can't tell its clocks.
var errPaused = errors.New("it is paused")

// Client is one that tells its clocks when it is asked.
type clientClock struct {
	In     io.Writer            // its stdin
	Clocks <-chan ClockReading  // what it says that they show
	Ended  <-chan struct{}      // closed when it has
	Paused func() bool          // it is, and says nothing
	True   func() time.Duration // true time, by CLOCK_MONOTONIC of where it is
}

// Read asks a client for its clocks.
func (c clientClock) Read() (ClockReading, error) {
	asked, began := c.True(), time.Now()
	if _, err := io.WriteString(c.In, tellClock); err != nil {
		return ClockReading{}, proc.ErrEnded // nobody reads it any more
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case r := <-c.Clocks:
			if r.From >= asked { // or it answers an earlier question
				return r, nil
			}
		case <-c.Ended:
			return ClockReading{}, proc.ErrEnded
		case <-look.C:
			switch {
			case c.Paused():
				return ClockReading{}, errPaused
			case time.Since(began) > tellBound:
				return ClockReading{}, fmt.Errorf("it did not tell its clocks within %v", tellBound)
			}
		}
	}
}
