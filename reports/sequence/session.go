package sequence

import (
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// session is a session as it is drawn.
type session struct {
	*facts.Session
	calls   []facts.Operation // the first is the acquire
	windows []facts.Window    // in which the client believes that it holds the lock

	begin, until int64 // of all windows; of one that had none, both are the acquire's return
	deadline     int64 // when it stops believing if nothing else ends it; never: no deadline
	ended        string
}

// What ends a client's belief.
const (
	byDeadline = "deadline"
	byRelease  = "release"
	byDeath    = "death"
	byAnswer   = "answer" // that it does not hold the lock
	byNothing  = ""
)

// session adds one.
func (f *course) session(x *facts.Session) {
	s := &session{Session: x, calls: []facts.Operation{x.Acquire}}
	for a := range x.Actions() {
		s.calls = append(s.calls, a.Operation)
	}
	f.sessions = append(f.sessions, s)
	if s.Name() != "" && f.named[s.Name()] == nil {
		f.named[s.Name()] = s
	}
	s.windows = slices.Collect(f.Windows(x))
	switch {
	case s.Granted():
		s.begin, s.deadline = x.Acquire.Return.T, facts.Deadline(x.Acquire.Return)
	case len(s.windows) > 0: // by an extension
		s.begin, s.deadline = s.windows[0].From, facts.Nothing
	default:
		return
	}
	for e := range x.Extends() {
		if e.Outcome() == history.OK {
			s.deadline = facts.Renewed(e.Return, s.deadline)
		}
	}
	s.until, s.ended = s.begin, byDeadline
	if n := len(s.windows); n > 0 {
		f.end(s, &s.windows[n-1])
	}
}

// end says what ended a session's last window. What nothing in the record ends lasts
// until its deadline.
func (f *course) end(s *session, w *facts.Window) {
	_, how := f.Closing(*w)
	at, gone := f.Gone[s.Client()]
	switch {
	case how == facts.Released:
		s.ended = byRelease
	case how == facts.NotHeld:
		s.ended = byAnswer
	case how == facts.Still && gone && at == w.To || how == facts.Died:
		s.ended = byDeath
	case how == facts.Still:
		w.To, s.ended = max(w.To, s.deadline), byDeadline
		if s.deadline == never {
			s.ended = byNothing
		}
	}
	s.until = w.To
}

// last is the instant of the last thing that the session is seen to do.
func (s *session) last() int64 {
	t := s.Acquire.Call.T
	for _, c := range s.calls {
		t = max(t, c.Call.T)
		if c.Return != nil {
			t = max(t, c.Return.T)
		}
	}
	return t
}

// pending reports whether a call never returned, as when its client was killed.
func (s *session) pending() bool {
	return slices.ContainsFunc(s.calls, func(c facts.Operation) bool { return c.Return == nil })
}

// believes reports whether the client believed at an instant that it held the lock.
func (s *session) believes(at int64) bool {
	return slices.ContainsFunc(s.windows, func(w facts.Window) bool { return w.From <= at && at < w.To })
}

// together is the longest span in which both believed that they held the lock.
func together(a, b *session) (from, to int64) {
	for _, v := range a.windows {
		for _, w := range b.windows {
			if f, t := max(v.From, w.From), min(v.To, w.To); minus(t, f) > minus(to, from) {
				from, to = f, t
			}
		}
	}
	return from, to
}
