package liveness

import (
	"slices"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// keptOf finds, by node, where the key of an attempt may have stayed there through no fault of the
// lock's, so that nobody else can have that node's vote. It stays until its deletion was seen, or
// it has lapsed. A fault kept it where
//
//   - client, node or link were down before the attempt was over,
//   - or a fault delayed the set or the release for longer than a client waits, or forever.
//
// A slow host may have kept it where, without a fault, one of these two or the answer to the set
// came later than a client waits, or the release never came and the host stalled when it was due.
// In virtual time no host is slow.
//
// Any other key that a failed attempt leaves behind, the lock has left there. So it has
// any that stays when its holder has released: what was healed by then is no excuse. Nor has
// a fault to do with a key that was sent when its attempt had been given up.
func keptOf(r *conditions, w *facts.Wire) (kept, slow map[string][]spans.Span) {
	kept, slow = map[string][]spans.Span{}, map[string][]spans.Span{}
	if w == nil {
		return kept, slow
	}
	for _, a := range w.Attempts {
		for _, e := range a.Sets {
			k := keptOn(r, w, a, e)
			if len(k.byFault) > 0 {
				kept[e.Node] = append(kept[e.Node], k.byFault...)
			}
			if len(k.byHost) > 0 {
				slow[e.Node] = append(slow[e.Node], k.byHost...)
			}
		}
	}
	for _, by := range []map[string][]spans.Span{kept, slow} {
		for node, list := range by {
			by[node] = spans.Union(list)
		}
	}
	return kept, slow
}

// keptKey holds the spans in which an attempt's key stayed on its node, by what kept it there.
type keptKey struct{ byFault, byHost []spans.Span }

// add enters a span for which a message was late or lost. Where no fault can have done that, and
// time is real, the host was slow.
func (k *keptKey) add(r *conditions, span spans.Span, fault bool) {
	if fault || !r.real() {
		k.byFault = append(k.byFault, span)
	} else {
		k.byHost = append(k.byHost, span)
	}
}

func keptOn(r *conditions, w *facts.Wire, a *facts.Attempt, e *history.Event) (k keptKey) {
	if a.GivenUp(e, int64(r.Params.NodeTimeout)) {
		return k
	}
	if a.Won {
		if giving, called := givingBack(r.Facts, a.Session); called {
			return keptOfHolder(r, w, a, e, giving)
		}
	}
	late := int64(r.Params.NodeTimeout)
	at, set := facts.Applied(e), int64(0)
	if a.Won {
		set = w.Extended[a.Session]
	}
	deleted, sent := a.Deletion(e)
	asking := spans.Of(e.Sent, spans.Plus(a.Over, late))
	down, touched := spans.Meets(r.down.link(a.Session.Client(), e.Node), asking), spans.Meets(r.down.little[e.Process], asking)
	span := spans.Of(at, min(deleted, r.keys.of(max(at, set))))
	switch {
	case down || at-e.Sent > late || sent != 0 && deleted-sent > late || e.Answered == 0 && !touched:
		k.add(r, span, down || touched)
	case r.real() && e.Answered-e.Sent > late && !touched, sent == 0 && spans.Meets(r.stalls, spans.Of(a.To, spans.Plus(a.To, late))):
		k.add(r, span, false)
	}
	return k
}

// keptOfHolder is the same of a lock that was held, and is being given back or has been. A
// fault has to do with its key
//
//	set           acquire returned           release called      over
//	 |~~~~~~~~~~~~~~~~~~|---------------------------|~~~~~~~~~~~~~~|
//
// before the client had the lock, for nobody else could have it then, and where it kept
// the release from the node. So has a restart of the node's, by which the client's
// connection was lost, if the two have not talked since; and a cut, where the lock has not
// claimed that it is given back.
func keptOfHolder(r *conditions, w *facts.Wire, a *facts.Attempt, e *history.Event, giving spans.Span) (k keptKey) {
	late := int64(r.Params.NodeTimeout)
	link, little := r.down.link(a.Session.Client(), e.Node), r.down.little[e.Process]
	at, got := facts.Applied(e), a.Session.Acquire.Ended()
	deleted, sent := a.Deletion(e)
	gone := min(deleted, r.keys.of(max(at, w.Extended[a.Session])))
	if asking := (spans.Of(e.Sent, got)); spans.Meets(link, asking) {
		k.add(r, spans.Of(at, min(gone, got)), true)
	}
	asking, returning := spans.Of(e.Sent, spans.Plus(got, late)), spans.Of(giving.From, spans.Plus(giving.To, late))
	span := spans.Of(max(at, giving.From), gone)
	down := spans.Meets(link, returning) || sent == 0 && parted(r.Facts, a.Session, e, giving.From)
	touched := spans.Meets(little, asking) || spans.Meets(little, returning)
	unheard := e.Answered == 0 && !spans.Meets(little, asking) && !spans.Meets(link, asking)
	switch {
	case down || at-e.Sent > late && at > giving.From || sent != 0 && deleted-sent > late || unheard:
		k.add(r, span, down || touched)
	case sent == 0 && spans.Meets(r.stalls, spans.Of(giving.From, spans.Plus(giving.From, late))):
		k.add(r, span, false)
	}
	return k
}

// parted reports whether a node was down, or cut off from its client, after a key had been
// set there, and the client has had no answer of it since, up to an instant.
func parted(r *facts.Facts, s *facts.Session, set *history.Event, until int64) bool {
	back, claimed := int64(spans.Ever), false
	for x := range s.Releases() {
		claimed = claimed || x.Return != nil && x.Return.Type == history.OK
	}
	for _, f := range r.Faults {
		stops := f.Kind == facts.Kill || f.Kind == facts.Shutdown || f.Kind == facts.PowerLoss || f.Kind == facts.Failover
		if stops && f.Target == set.Node || !claimed && f.Kind == facts.Cut && f.Target == set.Process {
			if s := during(r, f); s.From >= set.Sent && s.From < until {
				back = max(back, s.From)
			}
		}
	}
	return back != spans.Ever && !slices.ContainsFunc(r.Links, func(e *history.Event) bool {
		return e.Process == set.Process && e.Sent > back && e.Sent < until && e.Answered != 0
	})
}
