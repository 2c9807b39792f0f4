// Package spans does arithmetic with spans of true time, and with the windows of sessions.
//
// A list of Span is disjoint and in order of time. A Spread is spans that may overlap, and Measured a
// list that is asked for many shares. Wait and Stalls are what more than one judge reads from a
// record.
//
// A Window is a span in which a session held its lock, by whatever evidence. Beliefs has the belief
// windows of a record's locks, Overlaps what several windows have in common, and Meetings counts the
// acquires that a window was in the way of.
//
// Not here: what an overlap means, and whose fault it is.
package spans

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Span is [From, To).
type Span struct{ From, To int64 }

// Of is the span between two instants.
func Of(from, to int64) Span { return Span{from, to} }

// Ever is before everything.
const Ever = math.MinInt64

// Length is how long it is; Never where it has no begin or no end.
func (s Span) Length() int64 {
	if s.From == Ever || s.To == facts.Never {
		return facts.Never
	}
	return s.To - s.From
}

// Union makes a list of spans in any order.
func Union(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	return Joined(spans, 0)
}

// Joined makes a list of spans in the order of their begin. Those that are no
// further apart than gap become one.
func Joined(spans []Span, gap int64) []Span {
	var list []Span
	for _, s := range spans {
		switch last := len(list) - 1; {
		case s.From >= s.To:
		case last >= 0 && (list[last].To == facts.Never || s.From <= list[last].To+gap):
			list[last].To = max(list[last].To, s.To)
		default:
			list = append(list, s)
		}
	}
	return list
}

// Common is where both lists are.
func Common(a, b []Span) []Span {
	var list []Span
	if len(a) > 0 && len(b) > 0 { // one may be short, and the other long
		a, b = After(a, b[0].From), After(b, a[0].From)
	}
	for len(a) > 0 && len(b) > 0 {
		if s := (Span{max(a[0].From, b[0].From), min(a[0].To, b[0].To)}); s.From < s.To {
			list = append(list, s)
		}
		if a[0].To < b[0].To {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return list
}

// Outside is where a list is not.
func Outside(list []Span) []Span {
	var gaps []Span
	at := int64(Ever)
	for _, s := range list {
		if at < s.From {
			gaps = append(gaps, Span{at, s.From})
		}
		at = s.To
	}
	if at < facts.Never {
		gaps = append(gaps, Span{at, facts.Never})
	}
	return gaps
}

// AtLeast is where k of the lists are, or more.
func AtLeast(k int, lists ...[]Span) []Span {
	if k <= 0 {
		return []Span{{Ever, facts.Never}}
	}
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for _, list := range lists {
		for _, s := range list {
			edges = append(edges, edge{s.From, 1}, edge{s.To, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.step, a.step)) })
	var found []Span
	count, from := 0, int64(0)
	for _, e := range edges {
		count += e.step
		switch {
		case e.step > 0 && count == k:
			from = e.at
		case e.step < 0 && count == k-1:
			found = append(found, Span{from, e.at})
		}
	}
	return Joined(found, 0)
}

// After is the first of a list that ends after an instant.
func After(list []Span, at int64) []Span {
	return list[sort.Search(len(list), func(i int) bool { return list[i].To > at }):]
}

// Meets reports whether a list has something of a span.
func Meets(list []Span, s Span) bool {
	list = After(list, s.From)
	return len(list) > 0 && list[0].From < s.To
}

// Covering reports whether a list has all of a span. An empty span is had by any.
func Covering(list []Span, s Span) bool {
	if s.From >= s.To {
		return true
	}
	list = After(list, s.From)
	return len(list) > 0 && list[0].From <= s.From && list[0].To >= s.To
}

// Measured is a list with the length of what is before each, and of all: to ask for the
// shares of many spans that are long.
type Measured struct {
	list []Span
	sums []int64
}

// Measure measures a list that has an end.
func Measure(list []Span) Measured {
	m := Measured{list: list, sums: make([]int64, len(list)+1)}
	for i, s := range list {
		m.sums[i+1] = m.sums[i] + s.To - s.From
	}
	return m
}

// Share is how much of a span the list has.
func (m Measured) Share(s Span) int64 { return max(0, m.before(s.To)-m.before(s.From)) }

// before is how much of the list is before an instant.
func (m Measured) before(at int64) int64 {
	i := len(m.list) - len(After(m.list, at))
	if i < len(m.list) && m.list[i].From < at {
		return m.sums[i] + at - m.list[i].From
	}
	return m.sums[i]
}

// Share is how much of a span a list has.
func Share(list []Span, s Span) int64 {
	sum := int64(0)
	for _, x := range After(list, s.From) {
		if x.From >= s.To {
			break
		}
		sum += min(x.To, s.To) - max(x.From, s.From)
	}
	return sum
}

// Wait is where a session's client was trying to acquire.
func Wait(r *facts.Facts, s *facts.Session) Span {
	if s.Acquire.Return != nil {
		return Span{s.Called, s.Ended}
	}
	to := r.End
	if t, ok := r.Gone[s.Client()]; ok {
		to = min(to, t)
	}
	return Span{s.Called, to}
}

// Stalls is where the host stalled, in the order of time.
func Stalls(r *facts.Facts) []Span {
	var all []Span
	for _, f := range r.Faults {
		if f.Kind == history.OpStall && f.Begin != nil && f.End != nil {
			all = append(all, Span{f.Begin.T, f.End.T})
		}
	}
	return all
}

// UpTo is how many of the instants, in the order of time, are not after one.
func UpTo(instants []int64, at int64) int {
	return sort.Search(len(instants), func(i int) bool { return instants[i] > at })
}

// Plus is an instant a while later, where the sum may be beyond all instants.
func Plus(at, by int64) int64 {
	if at > facts.Never-by {
		return facts.Never
	}
	return at + by
}

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
