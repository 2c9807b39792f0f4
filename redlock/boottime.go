package redlock

import (
	"sync"
	"time"
)

// Boottime returns the time on a clock that keeps running while the machine is suspended, as
// laptops and VMs may be. time.Now and timers stop during a suspension, so a holder that wakes up
// would still trust an expired lease. On systems without such a clock (all but Linux), Boottime is
// time.Now. Use it together with BoottimeAfter for Config.Now and for the Options of package wire.
// Compare its values only with each other, as Lease.Remaining and Lease.Context do.
func Boottime() time.Time {
	since, ok := sinceBoot()
	if !ok {
		return time.Now()
	}
	first := bootReference()
	return first.now.Add(since - first.since)
}

// bootReference returns a reading of both clocks, taken when Boottime was first called.
var bootReference = sync.OnceValue(func() (at struct {
	now   time.Time
	since time.Duration
}) {
	at.since, _ = sinceBoot()
	at.now = time.Now()
	return at
})

// BoottimeAfter is like time.After, but measures time with Boottime. After a suspension it can fire
// up to a quarter of a second late.
func BoottimeAfter(d time.Duration) <-chan time.Time { return afterOnClock(Boottime, d) }

// pollInterval is how often afterOnClock checks its clock.
const pollInterval = 250 * time.Millisecond

// afterOnClock is like time.After, but uses a clock that may keep running while timers stop.
func afterOnClock(now func() time.Time, d time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	end := now().Add(d)
	var check func()
	check = func() {
		at := now()
		if remaining := end.Sub(at); remaining > 0 {
			time.AfterFunc(min(remaining, pollInterval), check)
			return
		}
		c <- at
	}
	check()
	return c
}
