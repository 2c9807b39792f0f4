package checker

import (
	"iter"
	"math"

	"lockpick/harness/history"
)

// never is the instant of what did not happen, or is not known to have.
const never = math.MaxInt64

// session is one acquire call and all that was done with its handle.
type session struct {
	acquire operation
	last    *action  // the last that was done with the handle; its next is the first
	next    *session // of the same lock, in the order of their acquires' returns
}

// action is one thing that was done with a handle.
type action struct {
	operation
	next *action // in the order of calls; after the last comes the first
}

func (s *session) name() string   { return s.acquire.call.Session }
func (s *session) client() string { return s.acquire.call.Process }
func (s *session) key() string    { return s.acquire.call.Key }

// token is the lock's random value, "" if the lock doesn't tell.
func (s *session) token() string {
	if s.acquire.ret == nil {
		return ""
	}
	return s.acquire.ret.Token
}

// granted reports whether the acquire returned the lock.
func (s *session) granted() bool { return s.acquire.outcome() == history.OK }

func (s *session) extends() iter.Seq[operation]  { return s.of(history.OpExtend) }
func (s *session) reads() iter.Seq[operation]    { return s.of(history.OpRead) }
func (s *session) writes() iter.Seq[operation]   { return s.of(history.OpWrite) }
func (s *session) releases() iter.Seq[operation] { return s.of(history.OpRelease) }

// of is the operations of one kind, in the order of their calls.
func (s *session) of(op string) iter.Seq[operation] {
	return func(yield func(operation) bool) {
		for a := range s.actions() {
			if a.call.Op == op && !yield(a.operation) {
				return
			}
		}
	}
}

func (s *session) actions() iter.Seq[*action] {
	return func(yield func(*action) bool) {
		if s.last == nil {
			return
		}
		for a := s.last.next; yield(a) && a != s.last; a = a.next {
		}
	}
}

// extended reports whether an extension was called.
func (s *session) extended() bool {
	for range s.extends() {
		return true
	}
	return false
}

// firstRelease is the call of the first release, or nil.
func (s *session) firstRelease() *history.Event {
	for x := range s.releases() {
		return x.call
	}
	return nil
}

// add puts an action behind those that are there.
func (s *session) add(a *action) {
	a.next = a
	if s.last != nil {
		a.next, s.last.next = s.last.next, a
	}
	s.last = a
}

// operation is a call and its return.
type operation struct {
	call *history.Event
	ret  *history.Event // nil: it never returned
}

// outcome is OK, Fail or Info; what never returned is unknown.
func (o operation) outcome() history.Type {
	if o.ret == nil {
		return history.Info
	}
	return o.ret.Type
}

// returned is the instant of the return, and never for an unknown outcome: such
// an operation may take effect at any later time.
func (o operation) returned() int64 {
	if o.outcome() == history.Info {
		return never
	}
	return o.ret.T
}
