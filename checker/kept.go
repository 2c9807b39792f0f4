package checker

import (
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// kept is, by node, where the key of an attempt may have stayed on it because of
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
// any that stays when its holder has released: what was healed by then is no excuse.
func (r *record) kept(w *wire) map[string][]interval {
	if w == nil {
		return nil
	}
	kept := map[string][]interval{}
	for _, a := range w.Attempts {
		for _, e := range a.Sets {
			if spans := r.keptOn(w, a, e); len(spans) > 0 {
				kept[e.Node] = append(kept[e.Node], spans...)
			}
		}
	}
	for node, spans := range kept {
		kept[node] = union(spans)
	}
	return kept
}

// keptOn is where a fault kept one key of an attempt's on its node.
func (r *record) keptOn(w *wire, a *attempt, e *history.Event) []interval {
	if a.Won {
		if giving, called := r.givingBack(a.Session); called {
			return r.keptOfHolder(w, a, e, giving)
		}
	}
	down, late := r.outages(), int64(r.Params.NodeTimeout)
	at, set := facts.Applied(e), int64(0)
	if a.Won {
		set = w.Extended[a.Session]
	}
	deleted, sent := a.Deletion(e)
	asking := interval{e.Sent, plus(a.Over, late)}
	if at-e.Sent > late || sent != 0 && deleted-sent > late ||
		meets(down.link(a.Session.Client(), e.Node), asking) || e.Answered == 0 && !meets(down.little[e.Process], asking) {
		return []interval{{at, min(deleted, r.lapse(max(at, set)))}}
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
// connection was lost, if the two have not talked since.
func (r *record) keptOfHolder(w *wire, a *attempt, e *history.Event, giving interval) (kept []interval) {
	down, late := r.outages(), int64(r.Params.NodeTimeout)
	link := down.link(a.Session.Client(), e.Node)
	at, got := facts.Applied(e), a.Session.Acquire.Ended()
	deleted, sent := a.Deletion(e)
	gone := min(deleted, r.lapse(max(at, w.Extended[a.Session])))
	if asking := (interval{e.Sent, got}); meets(link, asking) {
		kept = append(kept, interval{at, min(gone, got)})
	}
	asking := interval{e.Sent, plus(got, late)}
	unheard := e.Answered == 0 && !meets(down.little[e.Process], asking) && !meets(link, asking)
	if at-e.Sent > late && at > giving.from || sent != 0 && deleted-sent > late || unheard ||
		meets(link, interval{giving.from, plus(giving.to, late)}) || sent == 0 && r.parted(e, giving.from) {
		kept = append(kept, interval{max(at, giving.from), gone})
	}
	return kept
}

// parted reports whether a node was down after a key had been set there, and its client
// has had no answer of it since, up to an instant.
func (r *record) parted(set *history.Event, until int64) bool {
	back := int64(ever)
	for _, f := range r.Faults {
		if stops := f.Kind == killed || f.Kind == "shutdown" || f.Kind == powerLost || f.Kind == failedOver; stops && f.Target == set.Node {
			if s := r.during(f); s.from >= set.Sent && s.from < until {
				back = max(back, s.from)
			}
		}
	}
	return back != ever && !slices.ContainsFunc(r.Links, func(e *history.Event) bool {
		return e.Process == set.Process && e.Sent > back && e.Sent < until && e.Answered != 0
	})
}

// blocked is where keys that faults left behind kept a majority from everybody.
func (r *record) blocked(c *contest) []interval {
	if len(c.kept) == 0 {
		return nil
	}
	var lists [][]interval
	for _, n := range r.Params.Nodes {
		lists = append(lists, c.kept[n])
	}
	return atLeast(len(lists)-quorumOf(len(lists))+1, lists...)
}

// majority is where a client goes on, and reaches a majority of nodes which no fault
// keeps from giving it this lock, once somebody gives it back.
func (r *record) majority(c *contest, client string) []interval {
	spans, ok := c.ready[client]
	if !ok {
		spans = r.outages().majorityBut(client, c.kept)
		c.ready[client] = spans
	}
	return spans
}

// available is where it has had time to notice, too.
func (r *record) available(c *contest, client string) []interval {
	spans, ok := c.noticed[client]
	if !ok {
		spans = common(r.settled(r.outages().majority(client)), r.majority(c, client))
		c.noticed[client] = spans
	}
	return spans
}
