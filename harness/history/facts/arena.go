package facts

import "iter"

// arena keeps values in the order in which they were added. Their addresses
// stay as they are, and nothing is copied when it grows: a long history has
// millions of sessions.
type arena[T any] struct{ chunks [][]T }

// add keeps a value and returns its address.
func (a *arena[T]) add(v T) *T {
	last := len(a.chunks) - 1
	if last < 0 || len(a.chunks[last]) == cap(a.chunks[last]) {
		last++
		a.chunks = append(a.chunks, make([]T, 0, 16<<min(last, 10)))
	}
	c := append(a.chunks[last], v)
	a.chunks[last] = c
	return &c[len(c)-1]
}

func (a *arena[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, c := range a.chunks {
			for i := range c {
				if !yield(&c[i]) {
					return
				}
			}
		}
	}
}
