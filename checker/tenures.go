package checker

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
)

// tenure is a span in which a session held a lock, or may have held it:
//
//	first key set      acquire returned      belief ends       release done, or the last key has lapsed
//	     |======================|=================|=====================|
//	    from                                  believed                  to
//
// A release that got no definite answer gives nothing back: the lock may be held
// until the last key that was set or extended for it has lapsed, TTL·(1+ρ) later.
// So it may be by a client that died, or that never got an answer. A failed
// attempt holds nothing, whatever keys it leaves behind.
type tenure struct {
	span
	session  *session
	believed int64          // the client's own belief ended then, or had never begun
	last     *history.Event // the last key that was set for it, nil if that isn't known
	lapse    int64          // when the last of its keys has lapsed at the latest
}

// contest is one lock and those who want it.
type contest struct {
	key      string
	sessions []*session            // in the order of their call
	clients  map[string][]*session // likewise, of each client
	names    []string              // of these clients, in the order of their first call
	grants   []*session            // in the order in which their acquires returned
	wire     *wire                 // nil: the links saw nothing of it
	tenures  []tenure              // in the order of their begin
	held     []span                // their union
	kept     map[string][]span     // by node: keys that faults left there
	ready    map[string][]span     // by client: memo of available
}

// contests is the locks of a record, in the order of first use.
func (r *record) contests() []*contest {
	if r.contested != nil {
		return r.contested
	}
	wires := r.wires()
	for _, sessions := range r.byKey() {
		c := &contest{key: sessions[0].key, sessions: sessions, wire: wires[sessions[0].key], clients: map[string][]*session{}, ready: map[string][]span{}}
		var spans []span
		for _, s := range sessions {
			if len(c.clients[s.client]) == 0 {
				c.names = append(c.names, s.client)
			}
			c.clients[s.client] = append(c.clients[s.client], s)
			if s.granted() {
				c.grants = append(c.grants, s)
			}
			if h, ok := r.tenure(s, c.wire); ok {
				c.tenures = append(c.tenures, h)
			}
		}
		slices.SortStableFunc(c.grants, func(a, b *session) int { return cmp.Compare(a.acquire.ret.T, b.acquire.ret.T) })
		slices.SortStableFunc(c.tenures, func(a, b tenure) int { return cmp.Compare(a.from, b.from) })
		for _, h := range c.tenures {
			spans = append(spans, h.span)
		}
		c.held = joined(spans, 0)
		c.kept = r.kept(c.wire)
		r.contested = append(r.contested, c)
	}
	return r.contested
}

// life is how long a key lives at the longest.
func (r *record) life() int64 {
	if r.params.TTL == 0 {
		return never
	}
	return int64(float64(r.params.TTL) * (1 + r.params.Rate))
}

func plus(at, by int64) int64 {
	if at > never-by {
		return never
	}
	return at + by
}

// tenure is what a session may have held.
func (r *record) tenure(s *session, w *wire) (tenure, bool) {
	h := tenure{session: s}
	var a *attempt
	extended := int64(0)
	if w != nil {
		a, extended = w.last[s], w.extended[s]
	}
	switch s.acquire.outcome() {
	case history.Fail:
		return h, false
	case history.OK:
		h.from = s.acquire.ret.T
		h.believed = h.from
		for _, b := range r.belief(s) {
			h.believed = b.to
		}
	default:
		if a == nil && w != nil {
			return h, false // it died before it asked
		}
		h.from = s.acquire.call.T
		h.believed = h.from
	}
	at := cmp.Or(extended, h.from)
	if a != nil {
		at = max(extended, a.from)
		for _, e := range a.sets {
			h.from = min(h.from, applied(e))
			if h.last == nil || applied(e) > applied(h.last) {
				h.last = e
			}
			at = max(at, applied(e))
		}
		if !s.granted() {
			h.from = a.from
		}
	} else if w == nil && !s.granted() {
		at = never
	}
	for _, x := range s.extends {
		if x.outcome() == history.OK && w == nil {
			at = max(at, x.ret.T)
		}
	}
	h.lapse = plus(at, r.life())
	h.to = max(h.believed, min(h.lapse, s.released()))
	return h, h.from < h.to
}

// kept is, by node, where the key of an attempt may have stayed on it because of
// a fault, so that nobody else can have that node's vote. It stays until its
// deletion was seen, or it has lapsed. The lock is not to blame where
//
//   - the node applied the set when the client had given it up already,
//   - the release was under way for longer than the client waits, or forever,
//   - or client, node or link were down before the attempt was over.
//
// Any other key that a failed attempt leaves behind, the lock has left there.
func (r *record) kept(w *wire) map[string][]span {
	if w == nil {
		return nil
	}
	down := r.outages()
	late := int64(r.params.NodeTimeout)
	kept := map[string][]span{}
	for _, a := range w.attempts {
		for _, e := range a.sets {
			at := applied(e)
			end, sent := a.deletion(e)
			excused := at-e.Sent > late || sent != 0 && end-sent > late ||
				meets(down.link(a.session.client, e.Node), span{e.Sent, plus(a.over, late)})
			if !excused {
				continue
			}
			from := max(at, w.extendedIf(a))
			kept[e.Node] = append(kept[e.Node], span{at, min(end, plus(from, r.life()))})
		}
	}
	for node, spans := range kept {
		kept[node] = union(spans)
	}
	return kept
}

// extendedIf is when the keys by which an attempt won were extended last.
func (w *wire) extendedIf(a *attempt) int64 {
	if !a.won {
		return 0
	}
	return w.extended[a.session]
}

// deletion of an attempt's key on a node: when it was applied, or never, and
// when it was sent, 0 if it was not.
func (a *attempt) deletion(set *history.Event) (at, sent int64) {
	at = never
	for _, d := range a.deletes {
		if d.Node != set.Node {
			continue
		}
		if sent == 0 || d.Sent < sent {
			sent = d.Sent
		}
		if d.Applied > applied(set) {
			at = min(at, d.Applied)
		}
	}
	return at, sent
}

// available is where a client goes on, and reaches a majority of nodes which no
// fault keeps from giving it this lock, once somebody gives it back.
func (r *record) available(c *contest, client string) []span {
	spans, ok := c.ready[client]
	if !ok {
		down := r.outages()
		spans = both(r.settled(down.majority(client, nil)), down.majority(client, c.kept))
		c.ready[client] = spans
	}
	return spans
}
