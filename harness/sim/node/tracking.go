package node

import (
	"maps"
	"slices"
	"strings"
)

// A session that tracks is told when a key changes that it may have in a cache of its
// own: one that it has read, or, by BCAST, one with such a prefix (tracking.c of Redis).
//
//	GET k ──► remember: table[k] += session
//	SET k, or its expiry ──► touch ──► invalidate k ──► session, or whoever it redirects to

// tracking is how a session tracks.
type tracking struct {
	broadcast     bool
	prefixes      []string // of a broadcast
	optIn, optOut bool
	noLoop        bool  // it isn't told what it changes itself
	redirect      int64 // who is told in its place; 0: nobody
	broken        bool  // who is gone
}

// trackers are the sessions of a node that track, and what they are to be told.
type trackers struct {
	table   map[string]map[int64]*Session  // who has read which key
	changed map[string]map[string]*Session // by prefix, the keys of a broadcast to come, and who changed each; nil: nobody who tracks
	later   []any                          // told to the session that is fed, after the reply; nil: of all keys
}

// remember notes what a command told of to a session that tracks.
func (s *Session) remember(c command, a []string) {
	t := s.tracking
	if c.reads == 0 || t == nil || t.broadcast || t.optIn && !s.caching || t.optOut && s.caching {
		return
	}
	keys := a[1:]
	if c.reads == 1 {
		keys = a[1:2]
	}
	for _, key := range keys {
		if s.node.table[key] == nil {
			s.node.table[key] = map[int64]*Session{}
		}
		s.node.table[key][s.id] = s
	}
}

// touched tells all who watch or track a key that it changes.
func (n *Node) touched(key string, expired bool) {
	for s := range n.watchers[key] {
		s.changed = true
	}
	for prefix, keys := range n.changed {
		if _, known := keys[key]; !known && strings.HasPrefix(key, prefix) {
			keys[key] = n.doer(expired)
		}
	}
	readers := n.table[key]
	if len(readers) == 0 {
		return
	}
	delete(n.table, key)
	for _, id := range slices.Sorted(maps.Keys(readers)) {
		switch s := readers[id]; {
		case s.tracking == nil || s.tracking.broadcast || s.tracking.noLoop && s == n.current:
		case s == n.current:
			n.later = append(n.later, key)
		default:
			s.invalidate([]any{key})
		}
	}
}

// doer is the session whose command changes a key; nil: it expired, or a script does.
func (n *Node) doer(expired bool) *Session {
	if expired || n.scripted {
		return nil
	}
	return n.current
}

// flushed tells that all keys change.
func (n *Node) flushed() {
	for key, watchers := range n.watchers {
		if n.look(key) == nil {
			continue
		}
		for s := range watchers {
			s.changed = true
		}
	}
	clear(n.table)
	for _, id := range slices.Sorted(maps.Keys(n.open)) {
		switch s := n.open[id]; {
		case s.tracking == nil:
		case s == n.current:
			n.later = append(n.later, nil)
		default:
			s.invalidate(nil)
		}
	}
}

// settle tells the session that is fed what it was not to be told before its reply.
func (s *Session) settle() {
	for _, key := range s.node.later {
		switch {
		case s.tracking == nil:
		case key == nil:
			s.invalidate(nil)
		default:
			s.invalidate([]any{key})
		}
	}
	s.node.later = nil
}

// invalidationChannel is where sessions of RESP2 hear of the keys of those who redirect to them.
const invalidationChannel = "__redis__:invalidate"

// invalidate tells a session, or whoever it redirects to, of keys; nil: of all.
func (s *Session) invalidate(keys []any) {
	var what any = keys
	if keys == nil {
		what = nil
	}
	to, redirects := s, s.tracking.redirect != 0
	if redirects {
		if to = s.node.open[s.tracking.redirect]; to == nil {
			s.tracking.broken = true
			if s.resp3 {
				s.tell(push{"tracking-redir-broken", s.tracking.redirect})
			}
			return
		}
	}
	switch {
	case to.resp3:
		to.tell(push{"invalidate", what})
	case redirects && to.listens():
		to.tell(push{"message", invalidationChannel, what})
	}
}

// broadcast tells of each prefix what changed, all at once.
func (n *Node) broadcast() {
	if len(n.changed) == 0 {
		return
	}
	for _, prefix := range slices.Sorted(maps.Keys(n.changed)) {
		changed := n.changed[prefix]
		if len(changed) == 0 {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(n.open)) {
			s := n.open[id]
			if t := s.tracking; t == nil || !t.broadcast || !slices.Contains(t.prefixes, prefix) {
				continue
			}
			var keys []any
			for _, key := range slices.Sorted(maps.Keys(changed)) {
				if !s.tracking.noLoop || changed[key] != s {
					keys = append(keys, key)
				}
			}
			if len(keys) > 0 {
				s.invalidate(keys)
			}
		}
		clear(changed)
	}
}

// untrack ends the prefixes that nobody tracks any more.
func (s *Session) untrack() {
	for prefix := range s.node.changed {
		used := false
		for _, other := range s.node.open {
			used = used || other != s && other.tracking != nil && slices.Contains(other.tracking.prefixes, prefix)
		}
		if !used {
			delete(s.node.changed, prefix)
		}
	}
	for key, readers := range s.node.table {
		if delete(readers, s.id); len(readers) == 0 {
			delete(s.node.table, key)
		}
	}
}

// tracked are the keys of whose expiry somebody is to be told.
func (n *Node) tracked() (keys []string) {
	if len(n.table) == 0 && len(n.changed) == 0 {
		return nil
	}
	for key, v := range n.keys {
		told := n.table[key] != nil
		for prefix := range n.changed {
			told = told || strings.HasPrefix(key, prefix)
		}
		if told && v.expires != 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Expire drops the keys that have expired and that somebody tracks. A Redis does it ten times
// a second, for all; where nobody tracks them, nobody can tell.
func (n *Node) Expire() {
	for _, key := range n.tracked() {
		n.look(key)
	}
	n.commit()
}

// Watched says whether somebody is to be told something, now or when a key expires.
func (n *Node) Watched() bool {
	return len(n.pushed) > 0 || len(n.tracked()) > 0
}
