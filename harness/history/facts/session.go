package facts

import (
	"iter"
	"math"
	"slices"

	"lockpick/harness/history"
)

// Never is the instant of what did not happen, or is not known to have.
const Never = math.MaxInt64

// Session is one acquire call and all that was done with its handle. What every judge asks
// of the acquire is beside it: events are large, and in a long history far apart.
type Session struct {
	Acquire Operation
	Called  int64       // the instant of its call
	Ended   int64       // of its return, whatever the outcome, or Never
	Until   int64       // the deadline that came with the lock (Deadline); Nothing: it was not granted
	actions []Operation // what was done with the handle, in the order of calls
}

// Name is the session's name, Client whose it is and Key the lock that it is about.
func (s *Session) Name() string   { return s.Acquire.Call.Session }
func (s *Session) Client() string { return s.Acquire.Call.Process }
func (s *Session) Key() string    { return s.Acquire.Call.Key }

// Token is the lock's random value, "" if the lock doesn't tell.
func (s *Session) Token() string {
	if s.Acquire.Return == nil {
		return ""
	}
	return s.Acquire.Return.Token
}

// Granted reports whether the acquire returned the lock.
func (s *Session) Granted() bool { return s.Until != Nothing }

// Extends are the session's extensions, in the order of their calls. So are the others.
func (s *Session) Extends() iter.Seq[Operation]  { return s.of(history.OpExtend) }
func (s *Session) Reads() iter.Seq[Operation]    { return s.of(history.OpRead) }
func (s *Session) Writes() iter.Seq[Operation]   { return s.of(history.OpWrite) }
func (s *Session) Releases() iter.Seq[Operation] { return s.of(history.OpRelease) }

// of is the operations of one kind, in the order of their calls.
func (s *Session) of(op string) iter.Seq[Operation] {
	return func(yield func(Operation) bool) {
		for a := range s.Actions() {
			if a.Call.Op == op && !yield(a) {
				return
			}
		}
	}
}

// Actions is all that was done with the handle, in the order of calls. The client's look at its
// own deadline is an action that takes no time: its call is its return.
func (s *Session) Actions() iter.Seq[Operation] {
	return func(yield func(Operation) bool) {
		for _, a := range s.actions {
			if !yield(a) {
				return
			}
		}
	}
}

// Extended reports whether an extension was called.
func (s *Session) Extended() bool {
	for range s.Extends() {
		return true
	}
	return false
}

// FirstRelease is the call of the first release, or nil.
func (s *Session) FirstRelease() *history.Event {
	for x := range s.Releases() {
		return x.Call
	}
	return nil
}

// Released is when the session had surely given the lock back, by its client's own
// account, or Never.
func (s *Session) Released() int64 {
	for x := range s.Releases() {
		if x.Outcome() != history.Info {
			return x.Return.T
		}
	}
	return Never
}

// returned enters the return of its acquire.
func (s *Session) returned(e *history.Event) {
	s.Acquire.Return = e
	if s.Ended = e.T; e.Type == history.OK {
		s.Until = Deadline(e)
	}
}

// Lock is one key and its sessions.
type Lock struct {
	Name     string
	sessions []*Session
}

// Sessions lists the lock's sessions in the order in which their acquires returned. Those that never
// returned come last.
func (l *Lock) Sessions() iter.Seq[*Session] { return slices.Values(l.sessions) }

// Operation is a call and its return.
type Operation struct {
	Call   *history.Event
	Return *history.Event // nil: it never returned
}

// Outcome is OK, Fail or Info; what never returned is unknown.
func (o Operation) Outcome() history.Type {
	if o.Return == nil {
		return history.Info
	}
	return o.Return.Type
}

// Returned is the instant of the return, and Never for an unknown outcome: such
// an operation may take effect at any later time.
func (o Operation) Returned() int64 {
	if o.Outcome() == history.Info {
		return Never
	}
	return o.Return.T
}

// Ended is when the call returned, whatever the outcome, or Never.
func (o Operation) Ended() int64 {
	if o.Return == nil {
		return Never
	}
	return o.Return.T
}

// IsOperation reports whether what a client did has a call and a return. Its
// look at its own deadline has not, nor has a remark.
func IsOperation(op string) bool { return op == history.OpAcquire || isAction(op) }

// isAction reports whether it is done with a handle.
func isAction(op string) bool {
	switch op {
	case history.OpExtend, history.OpRead, history.OpWrite, history.OpRelease:
		return true
	}
	return false
}
