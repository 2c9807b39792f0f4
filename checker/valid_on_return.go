package checker

import (
	"fmt"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// validOnReturn asks whether an acquire returned a lock that was already past
// its deadline. Both stamps of the return are the client's own reading of one
// clock, so no error of the stamps comes in. O(n).
//
// Every lock can be stopped between its last look at the clock and its return,
// and then returns such a lock through no fault of its own. Where the client was
// paused during the acquire, the sentence says so.
func validOnReturn(r *facts.Facts) Result {
	res := Result{Outcome: Holds}
	var worst *facts.Session
	for s := range r.Sessions() {
		left, ok := leftOnReturn(s)
		if !ok {
			continue
		}
		res.Occasions++
		if left > 0 {
			continue
		}
		res.Incidents++
		if worst == nil {
			worst = s
		} else if least, _ := leftOnReturn(worst); left < least {
			worst = s
		}
	}
	switch {
	case worst != nil:
		return returnedLate(r, res, worst)
	case res.Occasions == 0:
		res.Because = "no acquire returned a lock with a deadline"
	default:
		res.Because = fmt.Sprintf("each lock had time left when its acquire returned, in %s", verdict.Plural(res.Occasions, "grant"))
	}
	return res
}

// lateReturns is each lock that was past its deadline when its acquire returned.
func lateReturns(r *facts.Facts) (all []verdict.Incident) {
	for s := range r.Sessions() {
		if left, ok := leftOnReturn(s); ok && left <= 0 {
			all = append(all, verdict.Incident{From: s.Until, Tell: func() Result { return returnedLate(r, Result{}, s) }})
		}
	}
	return all
}

// leftOnReturn is how much of its validity a granted lock had left when its
// acquire returned, by the client's own clock.
func leftOnReturn(s *facts.Session) (left int64, ok bool) {
	if !s.Granted() || s.Until == facts.Never {
		return 0, false
	}
	return s.Until - s.Ended, true
}

func returnedLate(r *facts.Facts, res Result, s *facts.Session) Result {
	call, ret := s.Acquire.Call, s.Acquire.Return
	events := []*history.Event{call, ret}
	res.Outcome, res.Cause = Violated, verdict.ReturnedLate
	res.Because = fmt.Sprintf("%s's acquire of %s returned at %s, and the lock was past its deadline since %s",
		s.Client(), verdict.LockName(s.Key()), facts.Seconds(ret.T), facts.Seconds(ret.ValidUntil))
	for _, f := range r.Faults {
		if f.Kind == facts.Pause && f.Target == s.Client() && f.Begin != nil && f.Begin.T < ret.T && (f.End == nil || f.End.T > call.T) {
			res.Because += fmt.Sprintf("; %s had been paused at %s", s.Client(), facts.Seconds(f.Begin.T))
			events = append(events, f.Begin, f.End)
			break
		}
	}
	res.Witness = &Witness{Events: verdict.Numbered(events), Sessions: []string{s.Name()}, Key: s.Key(), From: ret.ValidUntil, To: ret.T}
	return res
}
