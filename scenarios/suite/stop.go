package suite

import (
	"time"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/history"
)

// until is what ends the job's run early, nil where nothing does.
func (j Job) until() harness.Until {
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
