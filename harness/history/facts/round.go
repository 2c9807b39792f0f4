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
	var asked []*history.Event
	returned := false
	for _, e := range g.events {
		var now *Attempt
		if len(all) > 0 {
			now = all[len(all)-1]
		}
		if e.Op == history.OpRelease {
			if now != nil {
				now.Deletes = append(now.Deletes, e)
				returned = true
			}
			continue
		}
		s := LastCalled(g.sessions, e.Sent)
		if s == nil {
			continue // of no session
		}
		if now == nil || returned || in.again(asked, e) || s != now.Session && !in.still(now, s, e) {
			now = &Attempt{Session: s, Token: g.token, From: e.Sent}
			all, asked, returned = append(all, now), asked[:0], false
		}
		asked = append(asked, e)
		now.set(e)
	}
	if len(all) > 1 {
		in.share(all)
	}
	g.wire.Attempts = append(g.wire.Attempts, all...)
}

// again reports whether a set asks a node anew.
func (in *wireReader) again(asked []*history.Event, e *history.Event) bool {
	return slices.ContainsFunc(asked, func(x *history.Event) bool {
		return x.Node == e.Node && (x.T <= e.Sent || e.Sent-x.Sent >= in.late)
	})
}

// still reports whether a set, sent when the next acquire had been called, may belong to
// a round of the one before.
func (in *wireReader) still(a *Attempt, next *Session, e *history.Event) bool {
	over := a.Session.Acquire.Ended()
	return next.Token() != a.Token && over < Never && e.Sent-over <= in.late
}

// share gives each release to all rounds of its token whose keys it can have deleted:
// those before its own whose key still stood on the node, and those begun while it was
// under way.
func (in *wireReader) share(all []*Attempt) {
	own := make([]int, len(all)) // how many releases were sent in each round
	for i, a := range all {
		own[i] = len(a.Deletes)
	}
	for i, a := range all {
		for _, d := range a.Deletes[:own[i]] {
			for _, b := range all[i+1:] {
				if b.From >= d.Applied {
					break
				}
				b.Deletes = append(b.Deletes, d)
			}
		}
		for _, e := range a.Sets {
			if deletes := a.Deletes[:own[i]]; !gone(e, nil, deletes) {
				a.Deletes = append(a.Deletes, in.later(e, all[i+1:], own[i+1:])...)
			}
		}
	}
}

// later is the releases of later rounds that can have deleted a key that was left.
func (in *wireReader) later(e *history.Event, rounds []*Attempt, own []int) (deletes []*history.Event) {
	for i, a := range rounds {
		if in.life > 0 && a.From-Applied(e) > in.life || gone(e, a.Sets, nil) {
			break
		}
		for _, d := range a.Deletes[:own[i]] {
			if d.Node == e.Node {
				deletes = append(deletes, d)
			}
		}
		if gone(e, nil, a.Deletes[:own[i]]) {
			break
		}
	}
	return deletes
}

// gone reports whether a later set or a release of the same token shows that the key of
// an earlier one is not there any more.
func gone(e *history.Event, sets, deletes []*history.Event) bool {
	return slices.ContainsFunc(sets, func(s *history.Event) bool {
		return s.Node == e.Node && s.Type == history.OK && Applied(s) > Applied(e)
	}) ||
		slices.ContainsFunc(deletes, func(d *history.Event) bool { return d.Node == e.Node && d.Applied > Applied(e) && !refused(d) })
}
