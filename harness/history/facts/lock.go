package facts

import "iter"

// Lock is one key and its sessions.
type Lock struct {
	Name string
	last *Session // the last to return from its acquire; its next is the first
}

// Sessions of a lock are in the order in which their acquires returned, those
// that never did at the end.
func (l *Lock) Sessions() iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		if l.last == nil {
			return
		}
		for s := l.last.next; yield(s) && s != l.last; s = s.next {
		}
	}
}

func (l *Lock) add(s *Session) {
	s.next = s
	if l.last != nil {
		s.next, l.last.next = l.last.next, s
	}
	l.last = s
}
