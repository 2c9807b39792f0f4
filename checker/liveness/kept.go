package liveness

import (
	"slices"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// keptOf is, by node, where the key of an attempt may have stayed on it because of
// a fault, so that nobody else can have that node's vote. It stays until its
// deletion was seen, or it has lapsed. The lock is not to blame where
//
//   - the node applied the set when the client had given it up already,
//   - the release was under way for longer than the client waits, or forever,
//   - client, node or link were down before the attempt was over,
//   - or the answer never reached the client though no fault kept it: the machine was
//     slower than the node time-out, and may have swallowed the release, too.
//
// Any other key that a failed attempt leaves behind, the lock has left there. So it has
// any that stays when its holder has released: what was healed by then is no excuse. Nor has
// a fault to do with a key that was sent when its attempt had been given up.
func keptOf(r *conditions, w *facts.Wire) map[string][]spans.Span {
	if w == nil {
		return nil
	}
	kept := map[string][]spans.Span{}
	for _, a := range w.Attempts {
		for _, e := range a.Sets {
			if list := keptOn(r, w, a, e); len(list) > 0 {
				kept[e.Node] = append(kept[e.Node], list...)
			}
		}
	}
	for node, list := range kept {
		kept[node] = spans.Union(list)
	}
	return kept
}

// keptOn is where a fault kept one key of an attempt's on its node.
func keptOn(r *conditions, w *facts.Wire, a *facts.Attempt, e *history.Event) []spans.Span {
	if a.GivenUp(e, int64(r.Params.NodeTimeout)) {
		return nil
	}
	if a.Won {
		if giving, called := givingBack(r.Facts, a.Session); called {
			return keptOfHolder(r, w, a, e, giving)
		}
	}
	down, late := r.down, int64(r.Params.NodeTimeout)
	at, set := facts.Applied(e), int64(0)
	if a.Won {
		set = w.Extended[a.Session]
	}
	deleted, sent := a.Deletion(e)
	asking := spans.Of(e.Sent, spans.Plus(a.Over, late))
	if at-e.Sent > late || sent != 0 && deleted-sent > late ||
		spans.Meets(down.link(a.Session.Client(), e.Node), asking) || e.Answered == 0 && !spans.Meets(down.little[e.Process], asking) {
		return []spans.Span{spans.Of(at, min(deleted, r.keys.of(max(at, set))))}
	}
	return nil
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
func keptOfHolder(r *conditions, w *facts.Wire, a *facts.Attempt, e *history.Event, giving spans.Span) (kept []spans.Span) {
	down, late := r.down, int64(r.Params.NodeTimeout)
	link := down.link(a.Session.Client(), e.Node)
	at, got := facts.Applied(e), a.Session.Acquire.Ended()
	deleted, sent := a.Deletion(e)
	gone := min(deleted, r.keys.of(max(at, w.Extended[a.Session])))
	if asking := (spans.Of(e.Sent, got)); spans.Meets(link, asking) {
		kept = append(kept, spans.Of(at, min(gone, got)))
	}
	asking := spans.Of(e.Sent, spans.Plus(got, late))
	unheard := e.Answered == 0 && !spans.Meets(down.little[e.Process], asking) && !spans.Meets(link, asking)
	if at-e.Sent > late && at > giving.From || sent != 0 && deleted-sent > late || unheard ||
		spans.Meets(link, spans.Of(giving.From, spans.Plus(giving.To, late))) || sent == 0 && parted(r.Facts, a.Session, e, giving.From) {
		kept = append(kept, spans.Of(max(at, giving.From), gone))
	}
	return kept
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
