package sim

import (
	"maps"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/sim/node"
)

// witness records the life of each key on a lock node (history.Life).
type witness struct {
	server *server
	seq    int64
	link   *link                // whose bytes the node is fed; nil: nobody's, or the harness's own
	sent   int64                // when they entered the link
	had    map[string]node.Fact // by key, what the last life of the server had; nil: it goes on
	ended  int64                // when that ended
}

var _ node.Teller = (*witness)(nil)

// Tell records a fact.
func (w *witness) Tell(f node.Fact) {
	w.seq++
	e := w.event(f)
	e.Life.Seq = w.seq
	w.server.net.tell(e)
}

// Spare asks whoever wants to see a run in which this had not happened.
func (w *witness) Spare(f node.Fact) bool {
	spare := w.server.net.spare
	return spare != nil && spare(w.event(f))
}

func (w *witness) event(f node.Fact) history.Event {
	s := w.server
	l := f.Life
	l.Run, l.Value, l.Old = s.runID[:8], s.net.tokens.of(l.Value), s.net.tokens.of(l.Old)
	e := history.Event{T: s.net.now(), Process: s.name, Type: history.Info, Op: history.OpLife, Key: f.Key, Local: f.Now, Wall: true, Life: &l}
	switch {
	case l.Command == "":
	case w.link != nil:
		l.By, e.Sent = w.link.name, w.sent
	default:
		l.By = history.Harness
	}
	return e
}

// feed gives a node what a client sent.
func (s *server) feed(a arrival) (replies []byte, hangUp bool) {
	if w := s.witness; w != nil {
		w.link, w.sent = a.conn.link, a.sent
		defer func() { w.link = nil }()
	}
	return a.conn.session.Take(a.commands, a.wrong)
}

// remembers keeps what a life of the server that is about to end has.
func (s *server) remembers() {
	if w := s.witness; w != nil {
		w.had, w.ended = s.node.Held(), s.net.now()
	}
}

// compare tells what became of each key of the server's last life in the one that has
// begun.
func (s *server) compare(why string) {
	w := s.witness
	if w == nil || w.had == nil {
		return
	}
	has := s.node.Living()
	for _, key := range slices.Sorted(maps.Keys(w.had)) {
		old := w.had[key]
		f := node.Fact{Key: key, Now: s.node.ExpiryClock(), Life: history.Life{What: history.KeyLost, Why: why,
			Old: old.Value, Before: old.Expires, Lo: w.ended, Hi: s.net.now()}}
		now, there := has[key]
		delete(has, key)
		f.Value, f.Expires = now.Value, now.Expires
		switch {
		case there && now.Value == old.Value && now.Expires == old.Expires:
			f.What = history.KeyKept
		case there:
			f.What = history.KeyReverted
		case old.Expires != 0 && f.Now/1e6 > old.Expires/1e6:
			f.What, f.Why = history.KeyExpired, ""
		}
		if f.What != history.KeyKept && f.What != history.KeyExpired && w.Spare(f) {
			s.node.Plant(f)
			continue
		}
		w.Tell(f)
	}
	for _, key := range slices.Sorted(maps.Keys(has)) {
		now := has[key]
		w.Tell(node.Fact{Key: key, Now: s.node.ExpiryClock(), Life: history.Life{What: history.KeyAppeared, Why: why,
			Value: now.Value, Expires: now.Expires, Lo: w.ended, Hi: s.net.now()}})
	}
	w.had = nil
}
