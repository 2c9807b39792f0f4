// Package spans does arithmetic on spans of true time and on the windows during which sessions held
// locks.
//
// A list of spans is sorted by time and disjoint. A Spread holds spans that may overlap, and
// MeasuredSpans answers repeated questions about one list. Wait and Stalls extract from a record the
// spans that several judges need.
//
// A Window is a span during which a session held its lock, whatever the evidence. Beliefs returns
// the belief windows of a record's locks, Overlaps finds where they overlap, and Meetings counts
// the acquires that met another session's window.
//
// Other packages decide what an overlap means and who caused it.
package spans

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Span is the half-open interval [From, To), in nanoseconds since the run began.
type Span struct{ From, To int64 }

// New returns the span between two instants.
func New(from, to int64) Span { return Span{from, to} }

// DistantPast is earlier than any other instant.
const DistantPast = math.MinInt64

// Length returns To − From, or Never if the span is unbounded.
func (s Span) Length() int64 {
	if s.From == DistantPast || s.To == facts.Never {
		return facts.Never
	}
	return s.To - s.From
}

// Union sorts spans and merges those that overlap or touch.
func Union(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	return Join(spans, 0)
}

// Join merges spans if the gap between them is at most gap. The spans must be sorted by From. Join
// drops empty spans.
func Join(spans []Span, gap int64) []Span {
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

// Intersect returns the intersection of two lists.
func Intersect(a, b []Span) []Span {
	var list []Span
	if len(a) > 0 && len(b) > 0 { // skip most of the longer list
		a, b = EndingAfter(a, b[0].From), EndingAfter(b, a[0].From)
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

// Complement returns the complement of a list.
func Complement(list []Span) []Span {
	var gaps []Span
	at := int64(DistantPast)
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

// AtLeast returns the spans that at least k of the lists cover.
func AtLeast(k int, lists ...[]Span) []Span {
	if k <= 0 {
		return []Span{{DistantPast, facts.Never}}
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
	return Join(found, 0)
}

// EndingAfter returns the part of a list that begins with the first span ending after an instant.
func EndingAfter(list []Span, at int64) []Span {
	return list[sort.Search(len(list), func(i int) bool { return list[i].To > at }):]
}

// Meets reports whether a list overlaps a span.
func Meets(list []Span, s Span) bool {
	list = EndingAfter(list, s.From)
	return len(list) > 0 && list[0].From < s.To
}

// Covers reports whether a list covers a whole span. Every list covers an empty span.
func Covers(list []Span, s Span) bool {
	if s.From >= s.To {
		return true
	}
	list = EndingAfter(list, s.From)
	return len(list) > 0 && list[0].From <= s.From && list[0].To >= s.To
}

// MeasuredSpans is a list with prefix sums of the spans' lengths. With these, Share takes logarithmic
// time, which matters for many long spans.
type MeasuredSpans struct {
	list []Span
	sums []int64
}

// Measure computes the prefix sums of a bounded list.
func Measure(list []Span) MeasuredSpans {
	m := MeasuredSpans{list: list, sums: make([]int64, len(list)+1)}
	for i, s := range list {
		m.sums[i+1] = m.sums[i] + s.To - s.From
	}
	return m
}

// Share returns how much of a span the list covers.
func (m MeasuredSpans) Share(s Span) int64 {
	return max(0, m.lengthBefore(s.To)-m.lengthBefore(s.From))
}

// lengthBefore returns the total length of the list before an instant.
func (m MeasuredSpans) lengthBefore(at int64) int64 {
	i := len(m.list) - len(EndingAfter(m.list, at))
	if i < len(m.list) && m.list[i].From < at {
		return m.sums[i] + at - m.list[i].From
	}
	return m.sums[i]
}

// Share returns how much of a span a list covers.
func Share(list []Span, s Span) int64 {
	sum := int64(0)
	for _, x := range EndingAfter(list, s.From) {
		if x.From >= s.To {
			break
		}
		sum += min(x.To, s.To) - max(x.From, s.From)
	}
	return sum
}

// Wait returns the span during which a session's client was trying to acquire the lock.
func Wait(r *facts.Facts, s *facts.Session) Span {
	if s.Acquire.Return != nil {
		return Span{s.CalledAt, s.EndedAt}
	}
	to := r.End
	if t, ok := r.GoneAt[s.Client()]; ok {
		to = min(to, t)
	}
	return Span{s.CalledAt, to}
}

// Stalls returns the spans during which the host stalled, sorted by time.
func Stalls(r *facts.Facts) []Span {
	var all []Span
	for _, f := range r.Faults {
		if f.Kind == history.OpStall && f.Begin != nil && f.End != nil {
			all = append(all, Span{f.Begin.T, f.End.T})
		}
	}
	return all
}

// CountUpTo returns how many of the sorted instants are not later than at.
func CountUpTo(instants []int64, at int64) int {
	return sort.Search(len(instants), func(i int) bool { return instants[i] > at })
}

// Add returns an instant plus a duration, or Never instead of overflowing.
func Add(at, duration int64) int64 {
	if at > facts.Never-duration {
		return facts.Never
	}
	return at + duration
}

// Spread holds closed spans that may overlap, sorted by From. For each it stores the largest To so
// far, to find in logarithmic time whether any of them meets another span.
type Spread struct {
	Spans []Span
	maxTo []int64
}

// NewSpread sorts spans in place and keeps the slice.
func NewSpread(list []Span) Spread {
	slices.SortFunc(list, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	s := Spread{Spans: list, maxTo: make([]int64, len(list))}
	for i, x := range list {
		s.maxTo[i] = x.To
		if i > 0 {
			s.maxTo[i] = max(s.maxTo[i], s.maxTo[i-1])
		}
	}
	return s
}

// CountStarted returns how many spans begin at or before an instant.
func (s Spread) CountStarted(at int64) int {
	return sort.Search(len(s.Spans), func(i int) bool { return s.Spans[i].From > at })
}

// LatestEnd returns the largest To of the spans that begin at or before an instant, or DistantPast
// if there are none.
func (s Spread) LatestEnd(at int64) int64 {
	if i := s.CountStarted(at); i > 0 {
		return s.maxTo[i-1]
	}
	return DistantPast
}

// Meets reports whether any of the spans overlaps x.
func (s Spread) Meets(x Span) bool { return s.CountStarted(x.To) > 0 && s.LatestEnd(x.To) >= x.From }
