package checker

import "lockpick/harness/history"

// Beliefs is the beliefs of all sessions that mutual-exclusion judges by, for those
// who draw them: by session in the order of their acquires' calls, and those of one
// in the order of time. A malformed history has those that it tells of.
func Beliefs(h *history.History) []history.Belief {
	r := newRecord(h)
	var all []history.Belief
	for s := range r.sessions.all() {
		for b := range r.belief(s) {
			x := history.Belief{Session: s.name(), Client: s.client(), Key: s.key(), From: b.from, To: b.to, Opens: b.opens.N}
			x.Closes, x.End = r.closing(s, b)
			all = append(all, x)
		}
	}
	return all
}

// closing is what ended a belief, and the event that says so.
func (r *record) closing(s *session, b believed) (event int64, how history.Ending) {
	switch e := b.closes; {
	case e == nil:
		if d := r.departure(s.client()); d != nil && d.T == b.to {
			return d.N, history.Died
		}
		return 0, history.Still
	case e.Op == history.OpRelease:
		return e.N, history.Released
	case e.Op == history.OpExtend && e.Type == history.Fail:
		return e.N, history.NotHeld
	case b.to == never:
		return 0, history.Still
	default:
		return e.N, history.Expired
	}
}
