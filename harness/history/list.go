package history

// list gathers events in pieces, so that none is copied as it grows. If it is
// told how many there will be, all are in one.
type list struct {
	expect int // in all; 0: unknown
	full   [][]Event
	last   []Event
	n      int // in all
}

// The first piece is small, since most histories are, and so that a file which
// merely has many lines doesn't get room for as many events; no later one is
// larger than maxPiece, unless the number is known.
const (
	minPiece = 64
	maxPiece = 1 << 14
)

// next is an empty event after the last one; keep keeps it.
func (l *list) next() *Event {
	i := len(l.last)
	if i == cap(l.last) {
		l.grow()
		i = len(l.last)
	}
	return &l.last[:i+1][i]
}

func (l *list) keep() {
	l.last = l.last[:len(l.last)+1]
	l.n++
}

func (l *list) grow() {
	if l.n == minPiece && l.expect > l.n {
		l.last = append(make([]Event, 0, l.expect), l.last...)
		return
	}
	if l.n > 0 {
		l.full = append(l.full, l.last)
	}
	l.last = make([]Event, 0, min(max(l.n, minPiece), maxPiece))
}

// join returns the events. More than one piece takes as much again.
func (l *list) join() []Event {
	if len(l.full) == 0 {
		return l.last
	}
	all := make([]Event, 0, l.n)
	for i, p := range l.full {
		all = append(all, p...)
		l.full[i] = nil
	}
	return append(all, l.last...)
}
