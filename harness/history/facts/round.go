package facts

import (
	"slices"

	"lockpick/harness/history"
)

// rounds tells the rounds of one token apart. A set begins a round
//
//   - where its node has been asked in this one, and that is over: a lock that takes one
//     node for two asks it twice at once,
//   - where the token was given back since, to whichever node,
//   - or where the next acquire has been called. A lock that has another token for that
//     may still be asking with this one, for as long as it asks a node.
//
// A lock may ask all nodes at once, or one after the other, and an answer may be late, so
// nothing is told by the order of answers.
func (in *wireReader) rounds(g group) {
	var all []*Attempt
	var sets, deletes []*history.Event // of this round so far
	var of *Session
	begin := func(s *Session, first []*history.Event) {
		if len(sets) > 0 {
			all = append(all, newAttempt(of, sets, deletes))
		}
		sets, deletes, of = first, nil, s
	}
	for _, e := range g.events {
		if e.Op == history.OpRelease {
			if len(sets) > 0 {
				deletes = append(deletes, e)
			}
			continue
		}
		switch s := lastCalled(g.sessions, e.Sent); {
		case s == nil: // of no session
			continue
		case len(sets) == 0, len(deletes) > 0, s != of && !in.still(of, s, e):
			begin(s, nil)
		case in.again(sets, e):
			n := in.before(sets, e)
			first := sets[n:]
			sets = sets[:n:n]
			begin(s, first)
		}
		sets = append(sets, e)
	}
	begin(nil, nil)
	if len(all) > 1 {
		for _, a := range all[1:] {
			a.first = all[0]
		}
		in.share(all)
	}
	g.wire.Attempts = append(g.wire.Attempts, all...)
}

func newAttempt(s *Session, sets, deletes []*history.Event) *Attempt {
	a := &Attempt{Session: s, Token: sets[0].Token, From: sets[0].Sent, Asked: sets, Deletes: deletes}
	for _, e := range sets {
		a.set(e)
	}
	return a
}

// before is how many of a round's sets came before the round that a set begins. Those that
// were under way with it belong to that one, to nodes that had not been asked before:
//
//	n1  |=====|                      |=====|
//	n2  |=======|                    |======|
//	n3                              |====|      it was down in the first round
func (in *wireReader) before(sets []*history.Event, e *history.Event) int {
	n := len(sets)
	for n > 0 && !in.over(sets[n-1], e.Sent) {
		n--
	}
	for _, x := range sets[:n] {
		if n < len(sets) && !in.over(x, sets[n].Sent) {
			return len(sets)
		}
	}
	return n
}

// again reports whether a set asks a node anew.
func (in *wireReader) again(asked []*history.Event, e *history.Event) bool {
	return slices.ContainsFunc(asked, func(x *history.Event) bool {
		return x.Node == e.Node && in.over(x, e.Sent)
	})
}

// over reports whether a set had been answered by an instant, or given up.
func (in *wireReader) over(x *history.Event, at int64) bool {
	return x.T <= at || at-x.Sent >= in.late
}

// still reports whether a set, sent when the next acquire had been called, may belong to
// a round of the one before.
func (in *wireReader) still(last, next *Session, e *history.Event) bool {
	over := last.Acquire.Ended()
	return next.Token() != e.Token && over < Never && e.Sent-over <= in.late
}

// share gives each release to all rounds of its token whose keys it can have deleted: those
// before its own whose key still stood, and those begun while it was under way.
func (in *wireReader) share(all []*Attempt) {
	own := make([][]*history.Event, len(all)) // the releases that were sent in each round
	for i, a := range all {
		own[i] = a.Deletes[:len(a.Deletes):len(a.Deletes)]
		a.Deletes = own[i]
	}
	for i, a := range all {
		for _, d := range own[i] {
			for _, b := range all[i+1:] {
				if b.From >= d.Applied {
					break
				}
				b.Deletes = append(b.Deletes, d)
			}
		}
		for _, e := range a.Sets {
			a.Deletes = append(a.Deletes, in.later(e, own[i], all[i+1:], own[i+1:])...)
		}
	}
}

// later is the releases of later rounds that can have deleted a key, where those of its own
// had not done so before, nor had it been gone when it was set again.
func (in *wireReader) later(e *history.Event, own []*history.Event, rounds []*Attempt, theirs [][]*history.Event) (deletes []*history.Event) {
	gone := deletedBy(e, own)
	for i, a := range rounds {
		if a.From >= gone || in.life > 0 && a.From-Applied(e) > in.life {
			break
		}
		for _, s := range a.Sets {
			if s.Node == e.Node && s.Type == history.OK && Applied(s) > Applied(e) {
				gone = min(gone, Applied(s))
			}
		}
		for _, d := range theirs[i] {
			if d.Node == e.Node {
				deletes = append(deletes, d)
			}
		}
		gone = min(gone, deletedBy(e, theirs[i]))
	}
	return deletes
}

// deletedBy is when the first of releases that can have deleted a key did, or Never.
func deletedBy(set *history.Event, deletes []*history.Event) int64 {
	at := int64(Never)
	for _, d := range deletes {
		if d.Node == set.Node && d.Applied > Applied(set) && !refused(d) {
			at = min(at, d.Applied)
		}
	}
	return at
}
