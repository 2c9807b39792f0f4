package sequence

import (
	"slices"

	"lockpick/harness/history"
)

// session is one acquire call and all that was done with its handle.
type session struct {
	name, client, key string
	calls             []*call // the first is the acquire

	// The client believes that it holds the lock from begin to before until.
	begin, until int64
	deadline     int64 // when it stops believing if nothing else ends it; never: no deadline
	ended        string
}

// What ends a client's belief.
const (
	byDeadline = "deadline"
	byRelease  = "release"
	byDeath    = "death"
	byNothing  = ""
)

// call is one operation: its call and its return, nil if it never returned.
type call struct {
	op        string
	call, ret *event
}

// outcome is ok, fail or info; what never returned is unknown.
func (c *call) outcome() history.Type {
	if c.ret == nil {
		return history.Info
	}
	return c.ret.Type
}

// returned is the instant of the return, or never.
func (c *call) returned() int64 {
	if c.ret == nil {
		return never
	}
	return c.ret.T
}

// book adds an event. A check has no call of its own: it takes no time.
func (s *session) book(e *event) {
	if e.Type == history.Invoke {
		s.calls = append(s.calls, &call{op: e.Op, call: e})
		return
	}
	if e.Op == history.OpCheck {
		s.calls = append(s.calls, &call{op: e.Op, call: e, ret: e})
		return
	}
	for _, c := range slices.Backward(s.calls) {
		if c.op == e.Op && c.ret == nil {
			c.ret = e
			return
		}
	}
}

func (s *session) acquire() *call { return s.calls[0] }

func (s *session) granted() bool { return s.acquire().outcome() == history.OK }

// last is the instant of the last thing that the session is seen to do.
func (s *session) last() int64 {
	t := s.acquire().call.T
	for _, c := range s.calls {
		t = max(t, c.call.T)
		if c.ret != nil {
			t = max(t, c.ret.T)
		}
	}
	return t
}

// pending reports whether a call never returned, as when its client was killed.
func (s *session) pending() bool {
	return slices.ContainsFunc(s.calls, func(c *call) bool { return c.ret == nil })
}

// believes reports whether the client believed at an instant that it held the lock.
func (s *session) believes(at int64) bool { return s.granted() && s.begin <= at && at < s.until }

// settle works out the span of belief: from the acquire's return to the deadline,
// the first call of a release or the client's end, whichever comes first.
func (s *session) settle(gone map[string]int64) {
	if !s.granted() {
		return
	}
	s.begin = s.acquire().ret.T
	s.deadline = validUntil(s.acquire().ret)
	for _, c := range s.calls {
		if c.op == history.OpExtend && c.outcome() == history.OK {
			s.deadline = validUntil(c.ret)
		}
	}
	s.until, s.ended = s.deadline, byDeadline
	if s.deadline == never {
		s.ended = byNothing
	}
	for _, c := range s.calls {
		if c.op == history.OpRelease && c.call.T < s.until {
			s.until, s.ended = c.call.T, byRelease
		}
	}
	if t, ok := gone[s.client]; ok && t < s.until && t >= s.begin {
		s.until, s.ended = t, byDeath
	}
	s.until = max(s.until, s.begin)
}

func validUntil(e *event) int64 {
	if e.ValidUntil == 0 {
		return never
	}
	return e.ValidUntil
}
