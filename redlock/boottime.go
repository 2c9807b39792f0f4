package redlock

import (
	"sync"
	"time"
)

// time.Now stands still while the machine is suspended, as a laptop or a virtual machine may be,
// and so do timers: a holder who wakes up would believe in a lease that is over. Boottime goes
// on meanwhile, where the system has such a clock (Linux); elsewhere it is time.Now. It is for
// Config.Now, and for that of package wire's Options, together with BoottimeAfter. Its instants
// are to be compared with its own only: Lease.Remaining and Lease.Context do.
func Boottime() time.Time {
	since, ok := sinceBoot()
	if !ok {
		return time.Now()
	}
	first := booted()
	return first.now.Add(since - first.since)
}

// booted is what both clocks showed when Boottime was first read.
var booted = sync.OnceValue(func() (at struct {
	now   time.Time
	since time.Duration
}) {
	at.since, _ = sinceBoot()
	at.now = time.Now()
	return at
})

// BoottimeAfter is time.After by Boottime. After a suspension it is late by a quarter of a second
// at most.
func BoottimeAfter(d time.Duration) <-chan time.Time { return afterBy(Boottime, d) }

// look is how often a timer looks at its clock.
const look = 250 * time.Millisecond

// afterBy is time.After by a clock that may go on while timers stand still.
func afterBy(now func() time.Time, d time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	end := now().Add(d)
	var again func()
	again = func() {
		at := now()
		if left := end.Sub(at); left > 0 {
			time.AfterFunc(min(left, look), again)
			return
		}
		c <- at
	}
	again()
	return c
}
