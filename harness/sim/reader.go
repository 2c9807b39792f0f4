package sim

import "time"

// reader is whoever reads on the client's end of a connection, and waits for what comes.
type reader struct {
	host    *host
	slot    slot // of what comes over the connection
	reading bool
	readBy  time.Time     // its deadline; zero: none
	alarm   int64         // the deadline for which it is woken next; 0: none
	notify  chan struct{} // wakes it
}

// deadline is the instant at which a read ends, as late as its slot wants.
func (r *reader) deadline() int64 { return r.host.due(r.readBy) + 1 }

func (r *reader) expired() bool {
	return !r.readBy.IsZero() && r.slot.align(r.deadline()) <= r.host.net.now()
}

// wait blocks until there is something new for the reader.
func (r *reader) wait() {
	r.watch()
	r.reading = true
	r.host.net.mu.Unlock()
	<-r.notify
	r.host.net.mu.Lock()
	r.reading = false
}

// watch sees to it that the reader is woken at its deadline. Deadlines nearly
// always move on before they are reached, so an alarm that is set already may be
// early, and is then set again. A timer for each read would cost far more.
func (r *reader) watch() {
	if due := r.deadline(); !r.readBy.IsZero() && (r.alarm == 0 || due < r.alarm) {
		r.alarm = due
		r.host.net.will(r.slot, due, r)
	}
}

// happen is what becomes of the alarm.
func (r *reader) happen() {
	r.alarm = 0
	switch {
	case r.expired():
		r.wake()
	case r.reading:
		r.watch()
	}
}

// wake makes a blocked reader look again.
func (r *reader) wake() {
	switch own := r.host.own; {
	case !r.reading:
	case own == nil:
		r.nudge()
	default:
		own.in(r.nudge)
	}
}

// nudge is wake in the client's own bubble.
func (r *reader) nudge() {
	select {
	case r.notify <- struct{}{}:
	default:
	}
}
