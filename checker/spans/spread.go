package spans

import (
	"cmp"
	"slices"
	"sort"
)

// Spread is spans of true time in the order of their begin, which may overlap, with how
// far those reach up to each: whether any meets another span is found without a look at
// each. Both ends belong to a span.
type Spread struct {
	Spans []Span
	to    []int64
}

// SpreadOf puts spans in order. It keeps them.
func SpreadOf(list []Span) Spread {
	slices.SortFunc(list, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	s := Spread{Spans: list, to: make([]int64, len(list))}
	for i, x := range list {
		s.to[i] = x.To
		if i > 0 {
			s.to[i] = max(s.to[i], s.to[i-1])
		}
	}
	return s
}

// Begun is how many begin by an instant.
func (s Spread) Begun(at int64) int {
	return sort.Search(len(s.Spans), func(i int) bool { return s.Spans[i].From > at })
}

// Reached is how far those reach that begin by an instant, or ever.
func (s Spread) Reached(at int64) int64 {
	if i := s.Begun(at); i > 0 {
		return s.to[i-1]
	}
	return Ever
}

// Meets reports whether one has something of a span.
func (s Spread) Meets(x Span) bool { return s.Begun(x.To) > 0 && s.Reached(x.To) >= x.From }
