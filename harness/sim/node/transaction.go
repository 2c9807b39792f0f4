package node

import "strings"

// transaction is what a session has queued since MULTI.
type transaction struct {
	queue  [][]string
	spoilt bool // a command was refused when it was to be queued
}

// spoil makes the EXEC of an open transaction fail.
func (s *Session) spoil() {
	if s.multi != nil {
		s.multi.spoilt = true
	}
}

func multi(_ *Node, s *Session, _ []string) any {
	if s.multi != nil {
		return failure("ERR MULTI calls can not be nested")
	}
	s.multi = &transaction{}
	return ok
}

func discard(n *Node, s *Session, _ []string) any {
	if s.multi == nil {
		return failure("ERR DISCARD without MULTI")
	}
	s.multi = nil
	s.forget()
	return ok
}

// execute is EXEC. All commands see one instant of the clock, and are one change to the
// disk.
func execute(n *Node, s *Session, _ []string) any {
	t := s.multi
	if t == nil {
		return failure("ERR EXEC without MULTI")
	}
	for _, key := range s.watches {
		n.look(key) // one that has expired meanwhile has changed
	}
	changed := s.changed
	s.forget()
	s.multi = nil
	switch {
	case t.spoilt:
		return failure("EXECABORT Transaction discarded because of previous errors.")
	case changed:
		return nothing{}
	}
	s.transacts = true
	defer func() { s.transacts = false }()
	// Reply by reply, for what a command of it publishes comes in between.
	s.out = appendCount(s.out, '*', int64(len(t.queue)))
	for _, args := range t.queue {
		name := strings.ToLower(args[0])
		reply := n.run(s, name, n.commands[name], args)
		s.out = appendReply(s.out, reply, s.resp3)
	}
	return several{}
}

func watch(n *Node, s *Session, a []string) any {
	if s.multi != nil {
		return failure("ERR WATCH inside MULTI is not allowed")
	}
	for _, key := range a[1:] {
		n.look(key)
		s.watches = append(s.watches, key)
		if n.watchers[key] == nil {
			n.watchers[key] = map[*Session]bool{}
		}
		n.watchers[key][s] = true
	}
	return ok
}

func unwatch(n *Node, s *Session, _ []string) any {
	s.forget()
	return ok
}

// forget ends what a session watches.
func (s *Session) forget() {
	for _, key := range s.watches {
		if delete(s.node.watchers[key], s); len(s.node.watchers[key]) == 0 {
			delete(s.node.watchers, key)
		}
	}
	s.watches, s.changed = nil, false
}
