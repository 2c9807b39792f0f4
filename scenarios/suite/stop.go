package suite

import (
	"time"

	"lockpick/checker/sentinel"
	"lockpick/harness"
	"lockpick/harness/history"
)

// tooLong is why a run is stopped that has recorded so many.
const tooLong = "one run may record no more; let clients think or hold, or set a shorter limit"

// until is what ends the job's run early: too many events, and where that is asked for,
// that mutual exclusion is violated.
func (j Job) until(most int) harness.Until {
	var s *sentinel.Sentinel
	n := 0
	return func(e history.Event) harness.Halt {
		if n++; n >= most {
			return harness.Halt{Why: tooLong}
		}
		if e.Params != nil && j.StopAtViolation {
			s = sentinel.New(*e.Params)
		}
		if s == nil {
			return harness.Halt{}
		}
		if a, found := s.Event(&e); found {
			return harness.Halt{Why: a.Because, Key: a.Key}
		}
		return harness.Halt{After: time.Duration(s.Due())}
	}
}

// stopped says where a run was stopped early, and why, or "".
func stopped(h *history.History) string {
	for _, e := range h.Events {
		if e.Process == history.Harness && e.Op == history.OpStop {
			return e.Cause
		}
	}
	return ""
}
