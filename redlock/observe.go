package redlock

import "time"

// Event is one step of a lease, as a Locker tells Config.Observe of it: for traces, metrics,
// and the histories of tests.
type Event struct {
	Type       Type
	Op         string // acquire, extend, repair, release; lost, of a lease that ended without a release
	Key, Token string // the token once there is a lease
	Fence      int64
	Until      time.Time // the deadline, of an acquire or extension that is OK
	Err        error     // why it isn't OK
}

// Type is what an Event says of its step, in Jepsen's words.
type Type string

// A step begins with Invoke and ends with one of the others: it took effect, it did not and
// won't, or nobody knows.
const (
	Invoke Type = "invoke"
	OK     Type = "ok"
	Fail   Type = "fail"
	Info   Type = "info"
)

func (l *Locker) observe(e Event) {
	if l.cfg.Observe != nil {
		l.cfg.Observe(e)
	}
}

// outcome is what a kind of error says of an extension or a release.
func outcome(kind error) Type {
	switch kind {
	case ErrLost, ErrLimit, ErrReleased, ErrClosed:
		return Fail
	}
	return Info
}
