package checker

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
)

// exercised settles what a property came out as by its occasions. What was never put
// to the test does not hold: it was not exercised. A violation was an occasion.
func exercised(res Result) Result {
	switch {
	case res.Outcome == Holds && res.Occasions == 0:
		res.Outcome = NotExercised
	case res.Outcome == Violated:
		res.Occasions = max(res.Occasions, res.Incidents, 1)
	}
	return res
}

// meetings counts the acquires of one lock that were under way while another session
// held it, by windows in the order of their begin: each could have been answered with
// what somebody had. So could one that failed, where another client had the lock within a
// TTL. There are none where each session ends before the next is asked for.
//
//	c1   |=========|                |=====|
//	c2        --------------------------------|  it meets both, and is one
//	c3                 ---✗                      it had failed, and might have held until c1 did, too
//
// Of the windows that had begun when an acquire returned, the one that reaches furthest
// is enough to look at, or the furthest of another session, where it is its own.
func (r *record) meetings(l *lock, ws []window) int {
	met, next := 0, 0
	var far, other window // of two sessions
	ε := int64(r.Params.StampError)
	for s := range l.Sessions() {
		wait := r.wait(s)
		if s.Acquire.Return == nil { // the last of its client, and the client may have ended before others return
			if slices.ContainsFunc(ws, func(w window) bool { return w.session != s && w.from-ε <= wait.to && w.to+ε >= wait.from }) {
				met++
			}
			continue
		}
		for ; next < len(ws) && ws[next].from-ε <= wait.to; next++ {
			switch w := ws[next]; {
			case far.session == w.session:
				far.to = max(far.to, w.to)
			case far.session == nil || w.to > far.to:
				far, other = w, far
			case other.session == nil || w.to > other.to:
				other = w
			}
		}
		w := far
		if w.session == s {
			w = other
		}
		if w.session != nil && w.to+ε >= wait.from || s.Acquire.Outcome() == history.Fail && r.followed(s, ws) {
			met++
		}
	}
	return met
}

// followed reports whether another client held a lock within a TTL of a failure.
func (r *record) followed(s *session, ws []window) bool {
	at := s.Acquire.Return.T
	i, _ := slices.BinarySearchFunc(ws, at, func(w window, t int64) int { return cmp.Compare(w.from, t) })
	for _, w := range ws[i:] {
		if w.from > at+int64(r.Params.TTL) {
			break
		}
		if w.session.Client() != s.Client() {
			return true
		}
	}
	return false
}

// contended counts the log's writes that may come to harm: those on a key on which another
// client than theirs has worked, too.
func (r *record) contended() int {
	several := shared(r.Log, func(e *history.Event) string { return r.who(e.Session) })
	n := 0
	for _, e := range r.Log {
		if _, ok := several[e.Key]; ok && e.Cause == history.OpWrite {
			n++
		}
	}
	return n
}

// shared finds the keys on which there are entries of more than one, and the place of the
// first entry that is of another than the first.
func shared(log []*history.Event, whose func(*history.Event) string) map[string]int {
	first, second := map[string]string{}, map[string]int{}
	for i, e := range log {
		if _, ok := second[e.Key]; ok {
			continue
		}
		switch one, seen := first[e.Key]; {
		case !seen:
			first[e.Key] = whose(e)
		case one != whose(e):
			second[e.Key] = i
		}
	}
	return second
}

// compared counts what the order of fencing tokens was put to the test by: each token
// after the first of its key, and each answer of the resource on a key on which it had
// answered another session.
func (r *record) compared(grants [][]*fencedGrant) int {
	n := 0
	for _, of := range grants {
		n += len(of) - 1
	}
	if !r.byTokens() {
		return n
	}
	second := shared(r.Log, func(e *history.Event) string { return e.Session })
	for i, e := range r.Log {
		if at, ok := second[e.Key]; ok && i >= at {
			n++
		}
	}
	return n
}
