package node

import (
	"cmp"
	"slices"
)

// Push is what a node sends to a session that has asked for nothing just now.
type Push struct {
	To     *Session
	Data   []byte
	HangUp bool // the node closes the connection after it
}

// tell sends a session a value out of turn.
func (s *Session) tell(v any) {
	if s == s.node.current {
		s.out = appendReply(s.out, v, s.resp3)
		return
	}
	if len(s.pushed) == 0 {
		s.node.pushed = append(s.node.pushed, s)
	}
	s.pushed = appendReply(s.pushed, v, s.resp3)
}

// Pushed is what is to be sent, in the order of sessions, since it was asked for last.
func (n *Node) Pushed() []Push {
	if n.broadcast(); len(n.pushed) == 0 {
		return nil
	}
	slices.SortFunc(n.pushed, func(a, b *Session) int { return cmp.Compare(a.id, b.id) })
	var out []Push
	for _, s := range n.pushed {
		out = append(out, Push{s, s.pushed, s.quit})
		s.pushed = nil
	}
	n.pushed = n.pushed[:0]
	return out
}

// Close ends a session.
func (s *Session) Close() {
	n := s.node
	s.forget()
	for name := range s.channels {
		s.leave(name)
	}
	s.tracking = nil
	s.untrack()
	delete(n.open, s.id)
	if s.pushed = nil; len(n.pushed) > 0 {
		n.pushed = slices.DeleteFunc(n.pushed, func(o *Session) bool { return o == s })
	}
}
