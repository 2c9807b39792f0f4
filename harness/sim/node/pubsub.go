package node

import (
	"maps"
	"slices"
)

// listens says whether a session has subscribed to a channel.
func (s *Session) listens() bool { return len(s.channels) > 0 }

func subscribe(n *Node, s *Session, a []string) any {
	if s.transacts {
		n.lacks(s, "SUBSCRIBE in MULTI")
		return failure("ERR Command not allowed inside a transaction")
	}
	var out several
	for _, name := range a[1:] {
		if n.channels[name] == nil {
			n.channels[name] = map[int64]*Session{}
		}
		n.channels[name][s.id] = s
		if s.channels == nil {
			s.channels = map[string]bool{}
		}
		s.channels[name] = true
		out = append(out, push{"subscribe", name, int64(len(s.channels))})
	}
	return out
}

// unsubscribe from these channels, or from all.
func unsubscribe(n *Node, s *Session, a []string) any {
	names := a[1:]
	if len(names) == 0 {
		if names = slices.Sorted(maps.Keys(s.channels)); len(names) == 0 {
			return push{"unsubscribe", nil, int64(0)}
		}
	}
	var out several
	for _, name := range names {
		s.leave(name)
		out = append(out, push{"unsubscribe", name, int64(len(s.channels))})
	}
	return out
}

func (s *Session) leave(channel string) {
	delete(s.channels, channel)
	if delete(s.node.channels[channel], s.id); len(s.node.channels[channel]) == 0 {
		delete(s.node.channels, channel)
	}
}

func publish(n *Node, _ *Session, a []string) any {
	heard := n.channels[a[1]]
	for _, id := range slices.Sorted(maps.Keys(heard)) {
		heard[id].tell(push{"message", a[1], a[2]})
	}
	return int64(len(heard))
}
