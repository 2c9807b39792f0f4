package checker

import (
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
	down, late := r.outages(), int64(r.Params.NodeTimeout)
	link := down.link(a.Session.Client(), e.Node)
	at, set := facts.Applied(e), int64(0)
	if a.Won {
		set = w.Extended[a.Session]
	}
	deleted, sent := a.Deletion(e)
	gone := min(deleted, r.lapse(max(at, set)))
	giving, released := r.givingBack(a.Session)
	asking := interval{e.Sent, plus(a.Over, late)}
	if released {
		asking.to = plus(a.Session.Acquire.Ended(), late)
	}
	unheard := e.Answered == 0 && !meets(down.little[e.Process], asking) && !meets(link, asking)
	if !released {
		if at-e.Sent > late || sent != 0 && deleted-sent > late || meets(link, asking) || unheard {
			return []interval{{at, gone}}
		}
		return nil
	}
	var spans []interval
	if got := a.Session.Acquire.Ended(); at < got && meets(link, interval{e.Sent, got}) {
		spans = append(spans, interval{at, min(gone, got)}) // nobody else can have the vote, nor has it this client yet
	}
	if at-e.Sent > late && at > giving.from || sent != 0 && deleted-sent > late || unheard ||
		meets(link, interval{giving.from, plus(giving.to, late)}) {
		spans = append(spans, interval{max(at, giving.from), gone})
	}
	return spans
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
