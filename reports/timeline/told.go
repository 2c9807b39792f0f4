package timeline

import (
	"strings"
	"unicode"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// told is the lives of keys as the nodes told them.
func (r *run) told() map[string][][]life {
	out := map[string][][]life{}
	all := r.f.Lives()
	for _, node := range r.f.Params.Nodes {
		if out[node] != nil {
			continue // it is named twice
		}
		for _, key := range all.Keys {
			if stays := all.Stays(node, key); len(stays) > 0 {
				out[node] = append(out[node], r.inTurn(stays))
			}
		}
	}
	return out
}

// inTurn is the lives of one key on one node, one after the other: stamps may be wrong by
// more than the key was gone in between.
func (r *run) inTurn(stays []*facts.Stay) (lives []life) {
	free := int64(0)
	for i, s := range stays {
		l := r.toldBy(s)
		if i+1 < len(stays) {
			l.to = min(l.to, stays[i+1].From())
		}
		l.from = max(l.from, free)
		l.to = max(l.to, l.from)
		free = l.to
		lives = append(lives, l)
	}
	return lives
}

func (r *run) toldBy(s *facts.Stay) life {
	l := life{key: s.Key, session: r.sessionOf(s), from: s.From(), to: s.To(), due: s.Due(), events: []*event{s.Put}}
	if l.owner = facts.LinkClient(s.By()); l.session != "" {
		l.owner = r.clientOf(l.session)
	}
	if s.Given != s.Put {
		l.events = append(l.events, s.Given)
	}
	end := s.End
	if end == nil {
		return l
	}
	if l.to == end.T {
		l.events = append(l.events, end)
	}
	by := facts.LinkClient(end.Life.By)
	if own := by != "" && by == l.owner && end.Life.What == history.KeyDeleted; own {
		if l.how = by + " deletes it"; r.believes(l.session, end.T) {
			l.early, l.how = true, by+"'s own release deletes it late, while it believes that it holds the lock"
		}
		return l
	}
	const tick = 1e6 // a node counts whole milliseconds
	if l.early = l.to < l.due-tick && by != l.owner; l.early {
		l.how = ended(end, by)
	}
	return l
}

// sessionOf is the session whose token a value is, or has among its fields; "": nobody's.
func (r *run) sessionOf(s *facts.Stay) string {
	if name := r.owners[s.Value]; name != "" {
		return name
	}
	for _, word := range strings.FieldsFunc(s.Value, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if name := r.owners[word]; name != "" && s.Holds(word) {
			return name
		}
	}
	return ""
}

// ended says how a fact ended a key that was not due yet.
func ended(end *event, by string) string {
	who := by
	switch {
	case by == "":
		who = "nobody"
	case end.Life.By == history.Harness:
		who = "lockpick"
	}
	switch end.Life.What {
	case history.KeyDeleted:
		return who + "'s release deletes it, which is not its own"
	case history.KeyChanged:
		return who + " puts its own there"
	case history.KeyExpired:
		return "its clock says that its time is over"
	case history.KeyLost, history.KeyReverted:
		if end.Life.Why == history.Failover {
			return "failover to a replica that has not got it"
		}
		return "the node is back without it"
	case history.KeyEvicted:
		return "the node has no memory left"
	case history.KeyFlushed:
		return who + " empties the node"
	}
	return string(end.Life.What)
}
