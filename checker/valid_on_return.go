package checker

import (
	"fmt"
	"slices"

	"lockpick/harness/history"
)

// ReturnedLate is the only way to violate valid-on-return.
const ReturnedLate = "returned-late" // the acquire returned a lock that was past its deadline

// validOnReturn asks whether an acquire returned a lock that was already past
// its deadline. Both stamps of the return are the client's own reading of one
// clock, so no error of the stamps comes in. O(n).
//
// Every lock can be stopped between its last look at the clock and its return,
// and then returns such a lock through no fault of its own. Where the client was
// paused during the acquire, the sentence says so.
func validOnReturn(r *record) Result {
	res := Result{Outcome: Holds}
	var worst *session
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
		return r.returnedLate(res, worst)
	case res.Occasions == 0:
		res.Because = "no acquire returned a lock with a deadline"
	default:
		res.Because = fmt.Sprintf("each lock had time left when its acquire returned, in %s", plural(res.Occasions, "grant"))
	}
	return res
}

// leftOnReturn is how much of its validity a granted lock had left when its
// acquire returned, by the client's own clock.
func leftOnReturn(s *session) (left int64, ok bool) {
	if !s.Granted() || s.Acquire.Return.ValidUntil == 0 {
		return 0, false
	}
	return s.Acquire.Return.ValidUntil - s.Acquire.Return.T, true
}

func (r *record) returnedLate(res Result, s *session) Result {
	call, ret := s.Acquire.Call, s.Acquire.Return
	events := []*history.Event{call, ret}
	res.Outcome, res.Cause = Violated, ReturnedLate
	res.Because = fmt.Sprintf("%s's acquire of %s returned at %s, and the lock was past its deadline since %s",
		s.Client(), lockName(s.Key()), seconds(ret.T), seconds(ret.ValidUntil))
	for _, f := range r.Faults {
		if f.Kind == paused && f.Target == s.Client() && f.Begin != nil && f.Begin.T < ret.T && (f.End == nil || f.End.T > call.T) {
			res.Because += fmt.Sprintf("; %s had been paused at %s", s.Client(), seconds(f.Begin.T))
			events = append(events, f.Begin, f.End)
			break
		}
	}
	res.Witness = &Witness{Events: numbered(events), Sessions: []string{s.Name()}, Key: s.Key(), From: ret.ValidUntil, To: ret.T}
	return res
}

// validitiesLeft is what leftOnReturn says of all grants, sorted. It is good until
// the next measure.
func (r *record) validitiesLeft() []int64 {
	all := slices.Grow(r.spans[:0], r.Grants)
	for s := range r.Sessions() {
		if left, ok := leftOnReturn(s); ok {
			all = append(all, left)
		}
	}
	slices.Sort(all)
	r.spans = all
	return all
}
