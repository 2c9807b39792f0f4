package liveness

import (
	"cmp"
	"slices"
	"sort"

	"lockpick/checker/spans"
	"lockpick/harness/history/facts"
)

// freed is when a majority of nodes had no key of a session's any more, after it had
// called release. That is asked where the client's own account comes late, or never: the
// nodes have deleted the keys all the same, only the client doesn't know. Never: it had
// not called, or the record doesn't tell.
//
//	call             n1    n2       n3                      the client gives up
//	  |---------------x-----x--------x-------------------------------?
//	                              two of three are free
func freed(r *facts.Facts, s *facts.Session, w *facts.Wire, lapse int64) int64 {
	call := s.FirstRelease()
	if call == nil || w == nil || len(r.Params.Nodes) == 0 || w.Last[s] == nil || s.Released() <= spans.Plus(call.T, int64(r.Params.NodeTimeout)) {
		return facts.Never
	}
	var left []int64 // until when nodes had a key
	for _, n := range r.Params.Nodes {
		if until := cleared(r, n, s, w, lapse); until > call.T {
			left = append(left, until)
		}
	}
	slices.Sort(left)
	spare := len(r.Params.Nodes) - quorumOf(&r.Params)
	if len(left) <= spare {
		return call.T
	}
	return left[len(left)-1-spare]
}

// cleared is until when a node had a session's key, at the latest: as the node tells, or
// as the links saw it answer. It may be before the session's release was called.
func cleared(r *facts.Facts, node string, s *facts.Session, w *facts.Wire, lapse int64) int64 {
	a, call := w.Last[s], s.FirstRelease()
	at := int64(spans.Ever)
	for _, e := range a.Sets {
		if e.Node == node {
			deleted, _ := a.Deletion(e)
			at = max(at, min(deleted, lapse))
		}
	}
	if !r.Params.Life || r.Lives().Gap(node, a.From, lapse) != nil {
		if at == spans.Ever && w.Extended[s] != 0 {
			return lapse // an extension may have set it
		}
		return at
	}
	until := int64(spans.Ever)
	stays := r.Lives().Stays(node, s.Key())
	i := sort.Search(len(stays), func(i int) bool { return stays[i].To() > a.From })
	for _, y := range stays[i:] {
		if y.From() > max(call.T, lastApplied(a)) {
			break
		}
		if y.Holds(a.Token) {
			until = max(until, min(y.To(), lapse))
		}
	}
	return until
}

// lastApplied is when the last of an attempt's keys was set.
func lastApplied(a *facts.Attempt) int64 {
	at := int64(spans.Ever)
	for _, e := range a.Sets {
		at = max(at, facts.Applied(e))
	}
	return at
}

// givingBack is from the call of a session's first release until the last was over, or its
// client was gone.
func givingBack(r *facts.Facts, s *facts.Session) (spans.Span, bool) {
	var span spans.Span
	called := false
	for x := range s.Releases() {
		if !called {
			span.From, called = x.Call.T, true
		}
		span.To = max(span.To, x.Ended())
	}
	if t, ok := r.Gone[s.Client()]; ok {
		span.To = min(span.To, t)
	}
	return span, called
}

// put is when the command that set a value was sent, or when it was there, if nobody knows that.
func put(s *facts.Stay) int64 { return cmp.Or(s.Put.Sent, s.From()) }
