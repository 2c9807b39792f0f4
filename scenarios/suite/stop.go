package suite

import (
	"time"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/history"
)

// tooLong is why a run is stopped that has recorded so many.
const tooLong = "one run may record no more; let clients think or hold, or set a shorter limit"

// until is what ends the job's run early.
func (j Job) until(most int) harness.Until {
	violated := j.violated()
	n := 0
	return func(e history.Event) harness.Halt {
		switch n++; {
		case n >= most:
			return harness.Halt{Why: tooLong}
		case violated != nil:
			return violated(e)
		}
		return harness.Halt{}
	}
}

// violated ends a run where mutual exclusion is violated; nil: it isn't asked for.
func (j Job) violated() harness.Until {
	if !j.StopAtViolation {
		return nil
	}
	var s *checker.Sentinel
	return func(e history.Event) harness.Halt {
		if e.Params != nil {
			s = checker.NewSentinel(*e.Params)
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
