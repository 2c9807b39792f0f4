package facts

import (
	"iter"
	"math/bits"
)

// arena keeps values in the order in which they were added. Their addresses stay, and
// nothing is copied when it grows: a long history has millions of sessions.
type arena[T any] struct{ chunks [][]T }

// add keeps a value and returns its address.
func (a *arena[T]) add(v T) *T {
	last := len(a.chunks) - 1
	if last < 0 || len(a.chunks[last]) == cap(a.chunks[last]) {
		last++
		a.chunks = append(a.chunks, make([]T, 0, firstChunk<<min(last, doublings)))
	}
	c := append(a.chunks[last], v)
	a.chunks[last] = c
	return &c[len(c)-1]
}

// firstChunk is the room of the first chunk. Each of the next has twice as much as the
// one before, up to the last of so many.
const (
	firstChunk = 16
	doublings  = 10
)

func (a *arena[T]) len() int {
	last := len(a.chunks) - 1
	if last < 0 {
		return 0
	}
	return begin(last) + len(a.chunks[last])
}

// at is the address of a value by its number, from 0.
func (a *arena[T]) at(i int) *T {
	k := bits.Len(uint(i/firstChunk+1)) - 1
	if k >= doublings {
		k = doublings + (i-begin(doublings))/(firstChunk<<doublings)
	}
	return &a.chunks[k][i-begin(k)]
}

// begin is the number of a chunk's first value.
func begin(chunk int) int {
	return firstChunk*(1<<min(chunk, doublings)-1) + max(0, chunk-doublings)*firstChunk<<doublings
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
