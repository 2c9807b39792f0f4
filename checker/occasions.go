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
	met := 0
	ε := int64(r.Params.StampError)
	begun, after := furthest{ws: ws}, successors{ws: ws}
	var unanswered []*session // each the last of its client, which may have ended before others return
	for s := range l.Sessions() {
		if s.Acquire.Return == nil {
			unanswered = append(unanswered, s)
			continue
		}
		wait := r.wait(s)
		if begun.meets(s, wait, ε) || s.Acquire.Outcome() == history.Fail && after.another(s, int64(r.Params.TTL)) {
			met++
		}
	}
	begun = furthest{ws: ws}
	slices.SortFunc(unanswered, func(a, b *session) int { return cmp.Compare(r.wait(a).to, r.wait(b).to) })
	for _, s := range unanswered {
		if wait := r.wait(s); begun.meets(s, wait, ε) {
			met++
		}
	}
	return met
}

// furthest is, of the windows that had begun by an instant, the one that reaches furthest,
// and the furthest of another session.
type furthest struct {
	ws         []window // in the order of their begin; those that had not
	far, other window
}

// meets reports whether a window of another session than s meets its wait, which does not
// end before the last that was asked about.
func (f *furthest) meets(s *session, wait interval, ε int64) bool {
	for ; len(f.ws) > 0 && f.ws[0].from-ε <= wait.to; f.ws = f.ws[1:] {
		switch w := f.ws[0]; {
		case f.far.session == w.session:
			f.far.to = max(f.far.to, w.to)
		case f.far.session == nil || w.to > f.far.to:
			f.far, f.other = w, f.far
		case f.other.session == nil || w.to > f.other.to:
			f.other = w
		}
	}
	w := f.far
	if w.session == s {
		w = f.other
	}
	return w.session != nil && w.to >= wait.from-ε
}

// successors finds who held a lock after a failure.
type successors struct {
	ws  []window // in the order of their begin
	run int      // up to here all are one client's, from the last place that was asked for
}

// another reports whether another client held the lock within a TTL of a failure. Failures
// come in the order of their returns.
func (a *successors) another(s *session, ttl int64) bool {
	at := s.Acquire.Return.T
	i, _ := slices.BinarySearchFunc(a.ws, at, func(w window, t int64) int { return cmp.Compare(w.from, t) })
	if i < len(a.ws) && a.ws[i].session.Client() == s.Client() {
		for a.run = max(a.run, i); a.run < len(a.ws) && a.ws[a.run].session.Client() == s.Client(); a.run++ {
		}
		i = a.run
	}
	return i < len(a.ws) && a.ws[i].from <= at+ttl
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
