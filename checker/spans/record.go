package spans

import (
	"sort"

	"lockpick/harness/history/facts"
)

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

// Stalls is where the machine stood still, in the order of time.
func Stalls(r *facts.Facts) []Span {
	var all []Span
	for _, f := range r.Stalls() {
		all = append(all, Span{f.Begin.T, f.End.T})
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
