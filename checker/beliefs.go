package checker

import "lockpick/harness/history"

// Belief is a span of true time in which a session's client believed, by its own
// clock, that it held a lock. It is what mutual-exclusion judges by.
type Belief struct {
	Session, Client, Key string
	// From and To are nanoseconds of true time. Each may be wrong by Params.StampError;
	// what is judged is only what is left when it is taken off at both ends.
	From, To int64
	Opens    int64 // number of the return that began it
	Closes   int64 // number of the event that fixed its end; 0: the client's death, or the record's end
}

// Beliefs is the beliefs of all sessions, for those who draw them: by session in
// the order of their acquires' calls, and those of one in the order of time. A
// malformed history has those that it tells of.
func Beliefs(h *history.History) []Belief {
	r := newRecord(h)
	var all []Belief
	for s := range r.sessions.all() {
		for b := range r.belief(s) {
			x := Belief{Session: s.name(), Client: s.client(), Key: s.key(), From: b.from, To: b.to, Opens: b.opens.N}
			if b.closes != nil {
				x.Closes = b.closes.N
			} else if e := r.departure(s.client()); e != nil && e.T == b.to {
				x.Closes = e.N
			}
			all = append(all, x)
		}
	}
	return all
}
