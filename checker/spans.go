package checker

import (
	"cmp"
	"math"
	"slices"
)

// interval is a span of true time, [from, to).
type interval struct{ from, to int64 }

// ever is before everything.
const ever = math.MinInt64

func (s interval) length() int64 {
	if s.from == ever || s.to == never {
		return never
	}
	return s.to - s.from
}

// Below, a list of spans is disjoint and in the order of time.

// union makes a list of spans in any order.
func union(spans []interval) []interval {
	slices.SortFunc(spans, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	return joined(spans, 0)
}

// joined makes a list of spans in the order of their begin. Those that are no
// further apart than gap become one.
func joined(spans []interval, gap int64) []interval {
	var list []interval
	for _, s := range spans {
		switch last := len(list) - 1; {
		case s.from >= s.to:
		case last >= 0 && (list[last].to == never || s.from <= list[last].to+gap):
			list[last].to = max(list[last].to, s.to)
		default:
			list = append(list, s)
		}
	}
	return list
}

// common is where both lists are.
func common(a, b []interval) []interval {
	var list []interval
	if len(a) > 0 && len(b) > 0 { // one may be short, and the other long
		a, b = after(a, b[0].from), after(b, a[0].from)
	}
	for len(a) > 0 && len(b) > 0 {
		if s := (interval{max(a[0].from, b[0].from), min(a[0].to, b[0].to)}); s.from < s.to {
			list = append(list, s)
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return list
}

// outside is where a list is not.
func outside(list []interval) []interval {
	var gaps []interval
	at := int64(ever)
	for _, s := range list {
		if at < s.from {
			gaps = append(gaps, interval{at, s.from})
		}
		at = s.to
	}
	if at < never {
		gaps = append(gaps, interval{at, never})
	}
	return gaps
}

// atLeast is where k of the lists are, or more.
func atLeast(k int, lists ...[]interval) []interval {
	if k <= 0 {
		return []interval{{ever, never}}
	}
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for _, list := range lists {
		for _, s := range list {
			edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.step, a.step)) })
	var found []interval
	count, from := 0, int64(0)
	for _, e := range edges {
		count += e.step
		switch {
		case e.step > 0 && count == k:
			from = e.at
		case e.step < 0 && count == k-1:
			found = append(found, interval{from, e.at})
		}
	}
	return joined(found, 0)
}

// after is the first of a list that ends after an instant.
func after(list []interval, at int64) []interval {
	i, _ := slices.BinarySearchFunc(list, at, func(s interval, at int64) int {
		if s.to <= at {
			return -1
		}
		return 1
	})
	return list[i:]
}

// meets reports whether a list has something of a span.
func meets(list []interval, s interval) bool {
	list = after(list, s.from)
	return len(list) > 0 && list[0].from < s.to
}

// covers reports whether a list has all of a span. An empty span is had by any.
func covering(list []interval, s interval) bool {
	if s.from >= s.to {
		return true
	}
	list = after(list, s.from)
	return len(list) > 0 && list[0].from <= s.from && list[0].to >= s.to
}

// measured is a list with the length of what is before each, and of all: to ask for the
// shares of many spans that are long.
type measured struct {
	list []interval
	sums []int64
}

// measure measures a list that has an end.
func measure(list []interval) measured {
	m := measured{list: list, sums: make([]int64, len(list)+1)}
	for i, s := range list {
		m.sums[i+1] = m.sums[i] + s.to - s.from
	}
	return m
}

// share is how much of a span the list has.
func (m measured) share(s interval) int64 { return max(0, m.before(s.to)-m.before(s.from)) }

// before is how much of the list is before an instant.
func (m measured) before(at int64) int64 {
	i := len(m.list) - len(after(m.list, at))
	if i < len(m.list) && m.list[i].from < at {
		return m.sums[i] + at - m.list[i].from
	}
	return m.sums[i]
}

// share is how much of a span a list has.
func share(list []interval, s interval) int64 {
	sum := int64(0)
	for _, x := range after(list, s.from) {
		if x.from >= s.to {
			break
		}
		sum += min(x.to, s.to) - max(x.from, s.from)
	}
	return sum
}
