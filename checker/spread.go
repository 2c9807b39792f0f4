package checker

import (
	"cmp"
	"slices"
)

// spread is spans of true time in the order of their begin, which may overlap, with how
// far those reach up to each: whether any meets another span is found without a look at
// each. Both ends belong to a span.
type spread struct {
	spans []interval
	to    []int64
}

// spreadOf puts spans in order. It keeps them.
func spreadOf(spans []interval) spread {
	slices.SortFunc(spans, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	s := spread{spans: spans, to: make([]int64, len(spans))}
	for i, x := range spans {
		s.to[i] = x.to
		if i > 0 {
			s.to[i] = max(s.to[i], s.to[i-1])
		}
	}
	return s
}

// begun is how many begin by an instant.
func (s spread) begun(at int64) int {
	i, _ := slices.BinarySearchFunc(s.spans, at, func(x interval, at int64) int {
		if x.from <= at {
			return -1
		}
		return 1
	})
	return i
}

// reached is how far those reach that begin by an instant, or ever.
func (s spread) reached(at int64) int64 {
	if i := s.begun(at); i > 0 {
		return s.to[i-1]
	}
	return ever
}

// meets reports whether one has something of a span.
func (s spread) meets(x interval) bool { return s.begun(x.to) > 0 && s.reached(x.to) >= x.from }
