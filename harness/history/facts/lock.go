package facts

import "iter"

// Lock is one key and its sessions.
type Lock struct {
	Name     string
	of       *arena[Session] // all locks' sessions
	returned arena[uint32]   // the numbers of its own there, in the order in which their acquires returned
}

// Sessions of a lock are in the order in which their acquires returned, those
// that never did at the end.
func (l *Lock) Sessions() iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		for i := range l.returned.all() {
			if !yield(l.of.at(int(*i))) {
				return
			}
		}
	}
}
