package spans

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Meetings counts the acquires of one lock that were under way while another session
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
func Meetings(r *facts.Facts, l *facts.Lock, ws []Window) int {
	met := 0
	ε := int64(r.Params.StampError)
	begun, after := reach{ws: ws}, successors{ws: ws}
	var unanswered []*facts.Session // each the last of its client, which may have ended before others return
	for s := range l.Sessions() {
		if s.Acquire.Return == nil {
			unanswered = append(unanswered, s)
			continue
		}
		wait := Wait(r, s)
		if begun.meets(s, wait, ε) || s.Acquire.Outcome() == history.Fail && after.another(s, int64(r.Params.TTL)) {
			met++
		}
	}
	begun = reach{ws: ws}
	slices.SortFunc(unanswered, func(a, b *facts.Session) int { return cmp.Compare(Wait(r, a).To, Wait(r, b).To) })
	for _, s := range unanswered {
		if wait := Wait(r, s); begun.meets(s, wait, ε) {
			met++
		}
	}
	return met
}

// reach is, of the windows that had begun by an instant, the one that reaches furthest,
// and the furthest of another session.
type reach struct {
	ws         []Window // in the order of their begin; those that had not
	far, other Window
}

// meets reports whether a window of another session than s meets its wait, which does not
// end before the last that was asked about.
func (f *reach) meets(s *facts.Session, wait Span, ε int64) bool {
	for ; len(f.ws) > 0 && f.ws[0].From-ε <= wait.To; f.ws = f.ws[1:] {
		switch w := f.ws[0]; {
		case f.far.Session == w.Session:
			f.far.To = max(f.far.To, w.To)
		case f.far.Session == nil || w.To > f.far.To:
			f.far, f.other = w, f.far
		case f.other.Session == nil || w.To > f.other.To:
			f.other = w
		}
	}
	w := f.far
	if w.Session == s {
		w = f.other
	}
	return w.Session != nil && w.To >= wait.From-ε
}

// successors finds who held a lock after a failure.
type successors struct {
	ws  []Window // in the order of their begin
	run int      // up to here all are one client's, from the last place that was asked for
}

// another reports whether another client held the lock within a TTL of a failure. Failures
// come in the order of their returns.
func (a *successors) another(s *facts.Session, ttl int64) bool {
	at := s.Acquire.Return.T
	i, _ := slices.BinarySearchFunc(a.ws, at, func(w Window, t int64) int { return cmp.Compare(w.From, t) })
	if i < len(a.ws) && a.ws[i].Session.Client() == s.Client() {
		for a.run = max(a.run, i); a.run < len(a.ws) && a.ws[a.run].Session.Client() == s.Client(); a.run++ {
		}
		i = a.run
	}
	return i < len(a.ws) && a.ws[i].From <= at+ttl
}
